"""Products as device code: layouts, edges, batches, types, epilogues, parts of the depth."""

import dataclasses
import re
from itertools import product

import numpy as np
import pytest

from dfc.ir.dims import Symbol
from dfc.ir.dtypes import BF16, F16, F32, F64, I8, I32, DType
from dfc.kernels.form import ContractKernel
from dfc.lower.threads.schedule import DEVICE, SIMULATED, Schedule
from dfc.lower.threads.tiles import tiled
from dfc_target_cuda.code.assemble import assemble, find_ptxas
from dfc_target_cuda.code.compile import ptx_module
from dfc_target_cuda.kernels.write_kernel import write_kernel
from tests.dfc.kernels.test_operand_maps import windows
from tests.support.cuda_simulator.names import simulated_names
from tests.support.kernel_texts import blocks_of, interpret, run_text
from tests.support.sweeping import few
from tests.support.warm_compiler import needs_numba
from tests.targets.cpu.compile.elementwise.test_kernels import sample
from tests.targets.cpu.compile.product.test_contraction import Maker, plain
from tests.targets.cpu.compile.product.test_panels import FORMS, convolving

VECTORS = Schedule(threads=4, warp=4, blocks=4, tile_m=8, tile_n=8, tile_k=4, thread_m=4, thread_n=4)
"""Small tiles with accesses as wide as on a device."""
LAYOUTS = [(a, b, c) for a in (False, True) for b in (False, True) for c in (False, True)]
SIZES = [(5, 7, 3), (8, 8, 8), (3, 17, 20), (1, 9, 6), (5, 7, 0), (0, 3, 4)]


def check(kernel: ContractKernel, arrays: list[np.ndarray], sizes: tuple[int, ...], schedule: Schedule) -> None:
    """Against what the kernel means, which adds in the same order with two roundings for each product."""
    expected = [array.copy() for array in arrays]
    assert interpret(kernel, expected, sizes) == 0
    text = write_kernel(kernel, "k0", schedule, guarded=True)
    assert not run_text(text, arrays, sizes, schedule).any()
    for found, wanted in zip(arrays, expected, strict=True):
        if wanted.dtype.kind in "iu":
            np.testing.assert_array_equal(found, wanted)
            continue
        close = {2: 2.0**-7, 4: 2.0**-17, 8: 2.0**-46}[wanted.dtype.itemsize]  # sums of at most 77 terms
        scale = float(np.max(np.abs(wanted.astype(float)), initial=1))
        np.testing.assert_allclose(found.astype(float), wanted.astype(float), rtol=close, atol=scale * close)


def fixed(kernel_sizes: tuple[int | None, int, int], dtype: DType, accumulator: DType, *turned: bool) -> ContractKernel:
    """A product of known sizes; factors and the result may be turned."""
    x = Maker(0, kernel_sizes)  # pyright: ignore[reportArgumentType]
    a = x.factor(dtype, *((x.k, x.m) if turned[0] else (x.m, x.k)))
    b = x.factor(dtype, *((x.n, x.k) if turned[1] else (x.k, x.n)))
    out = x.store(x.accumulated(accumulator), *((x.n, x.m) if turned[2] else (x.m, x.n)))
    return x.finish(a, b, accumulator, out)


def operands(kernel: ContractKernel, sizes: tuple[int, ...]) -> list[np.ndarray]:
    """Random arrays for the factors, 9 for what is written."""
    known = {Symbol(f"d{number}"): size for number, size in enumerate(sizes)}
    shapes = [tuple(size.evaluate(known) for size in operand.shape) for operand in kernel.operands]
    made = [
        sample(operand.dtype, int(np.prod(shape)), seed).reshape(shape)
        for seed, (operand, shape) in enumerate(zip(kernel.operands, shapes, strict=True))
    ]
    for operand, array in zip(kernel.operands, made, strict=True):
        if operand.access == "write":
            array[...] = 9
    return made


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("schedule", [SIMULATED, VECTORS], ids=["small", "vectors"])
def test_every_layout_and_size(layout: tuple[bool, bool, bool], schedule: Schedule) -> None:
    kernel = plain(F32, F32, *layout)
    for sizes in SIZES:
        check(kernel, operands(kernel, sizes), sizes, schedule)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_known_sizes_take_wide_accesses(layout: tuple[bool, bool, bool]) -> None:
    types = ((F32, F32), (BF16, F32), (F64, F64))
    for sizes, (dtype, accumulator) in few(product(((16, 8, 8), (20, 12, 16), (12, 4, 10)), types), 3):
        kernel = fixed(sizes, dtype, accumulator, *layout)
        check(kernel, operands(kernel, ()), (), VECTORS)
    source = write_kernel(fixed((16, 8, 8), F32, F32, *layout), "k0", VECTORS, guarded=False).source
    assert source.count("load4_f32(a,") >= 1 and source.count("load4_f32(b,") >= 1


def test_a_thread_may_have_groups_of_rows_and_columns_apart() -> None:
    wide = dataclasses.replace(VECTORS, tile_m=16, tile_n=16, thread_m=8, thread_n=8)
    kernel = fixed((16, 32, 8), F32, F32, False, False, False)
    check(kernel, operands(kernel, ()), (), wide)
    kernel = plain(F32, F32, False, True)
    check(kernel, operands(kernel, (19, 21, 5)), (19, 21, 5), wide)


TYPES = [(F16, F32), (BF16, F32), (F64, F64), (I32, I32), (I8, I8), (I8, I32)]


@pytest.mark.parametrize(("dtype", "accumulator"), TYPES)
def test_element_types(dtype: DType, accumulator: DType) -> None:
    kernel = plain(dtype, accumulator, False, True)
    for sizes in ((5, 7, 9), (9, 4, 4)):
        check(kernel, operands(kernel, sizes), sizes, SIMULATED)


def test_batches_may_broadcast_a_factor() -> None:
    for shared in (False, True):
        x = Maker(2)
        a = x.factor(F32, 0, 1, x.m, x.k)
        b = x.factor(F32, x.k, x.n) if shared else x.factor(F32, 1, x.n, x.k)
        kernel = x.finish(a, b, F32, x.store(x.accumulated(F32), 0, x.m, 1, x.n))
        sizes = (2, 3, 5, 6, 7)
        check(kernel, operands(kernel, sizes), sizes, SIMULATED)


def test_the_epilogue_runs_at_each_finished_place() -> None:
    for sizes in ((None, None, None), (16, 8, 8)):
        x = Maker(0, sizes)  # pyright: ignore[reportArgumentType]
        a, b = x.factor(F32, x.m, x.k), x.factor(F32, x.k, x.n)
        biased = x.body.apply("add", x.accumulated(F32), x.load(F32, x.n))
        scaled = x.body.apply("mul", biased, x.load(F32, x.m))
        kernel = x.finish(
            a, b, F32, x.store(x.body.apply("tanh", scaled), x.m, x.n), x.store(x.body.cast(biased, BF16), x.n, x.m)
        )
        actual = (16, 8, 8) if sizes[0] else (9, 7, 5)
        check(kernel, operands(kernel, actual), actual, VECTORS)


def test_parts_of_a_long_depth_are_added_in_order() -> None:
    for sizes in ((3, 5, None), (3, 5, 77)):
        kernel = Maker(0, sizes)  # pyright: ignore[reportArgumentType]
        a, b = kernel.factor(F32, kernel.k, kernel.m), kernel.factor(F32, kernel.k, kernel.n)
        made = kernel.finish(a, b, F32, kernel.store(kernel.accumulated(F32), kernel.m, kernel.n))
        text = write_kernel(made, "k0", dataclasses.replace(SIMULATED, blocks=64), guarded=True)
        assert text.workspace.constant != 0
        for depth in (77,) if sizes[2] else (77, 16, 3, 0):
            arrays = operands(made, (3, 5, depth))
            check(made, arrays, (3, 5, depth), dataclasses.replace(SIMULATED, blocks=64))


def test_each_sum_is_one_chain_of_fused_multiply_adds_in_ascending_order() -> None:
    kernel = plain(F32, F32, False, False)
    a, b, out = operands(kernel, (5, 6, 19))
    expected = np.zeros((5, 6), np.float32)
    fma = simulated_names(4)["f32_fma"]
    for m, n in np.ndindex(5, 6):
        for k in range(19):
            expected[m, n] = fma(a[m, k], b[k, n], expected[m, n])
    run_text(write_kernel(kernel, "k0", VECTORS, guarded=False), [a, b, out], (5, 6, 19), VECTORS)
    assert out.tobytes() == expected.tobytes()


def test_the_grid_covers_all_tiles_and_parts() -> None:
    kernel = fixed((64, 64, 65536), F32, F32, True, False, False)
    text = write_kernel(kernel, "k0", DEVICE, guarded=True)
    assert blocks_of(text, {}) == 32
    product = tiled(kernel, DEVICE)
    assert product is not None
    assert product.splits.constant == 32
    assert text.workspace.constant == 4096 + 32 * 64 * 64 * 4


def test_a_matrix_times_a_vector_along_memory_is_no_tile() -> None:
    assert tiled(fixed((None, 1, 100), F32, F32, False, True, False), DEVICE) is None
    assert tiled(fixed((1, 64, 100), F32, F32, False, False, False), DEVICE) is not None


def test_nothing_is_written_after_a_fault() -> None:
    for kernel, sizes in ((plain(F32, F32, False, False), (5, 6, 7)),):
        arrays = operands(kernel, sizes)
        text = write_kernel(kernel, "k0", SIMULATED, guarded=True)
        run_text(text, arrays, sizes, SIMULATED, error=np.array([7, 1, 2]))
        assert np.all(arrays[2] == 9)


@needs_numba
@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas")
@pytest.mark.parametrize(
    ("sizes", "dtype", "turned", "most"),
    few(
        [
            ((2048, 2048, 2048), F32, False, 128),
            ((2048, 2048, 2048), F32, True, 128),
            ((None, 1024, 512), F32, False, 64),
            ((1024, 1024, 1024), BF16, False, 72),
            ((64, 64, 65536), F32, False, 64),
        ],
        2,
    ),
)
def test_products_take_16_byte_accesses_and_no_stack(
    sizes: tuple[int | None, int, int], dtype: DType, turned: bool, most: int
) -> None:
    schedule = dataclasses.replace(DEVICE, tensor_cores=False)
    text = write_kernel(fixed(sizes, dtype, F32, False, turned, False), "k0", schedule, guarded=True)
    ptx = ptx_module([text], "compute_80")
    assert len(re.findall(r"ld\.global(?:\.nc)?\.v4", ptx)) >= 2
    assert "ld.shared.v4.f32" in ptx and "st.global.v4.f32" in ptx
    assert text.workspace.constant != 0 or "ld.global.f32" not in ptx  # partial sums lie side by side in a block
    assert "fma.rn.f32" in ptx
    for architecture in ("sm_80", "sm_90"):
        assembled = assemble(ptx, architecture)
        assert assembled is not None
        (report,) = assembled.reports
        assert report.spill_bytes == report.stack_bytes == 0, report
        assert report.registers <= most, report
        assert report.shared_bytes <= 48 * 1024, report


CONVOLUTIONS = ("zeros around", "steps and dilation", "groups, steps and dilation", "one channel", "along one axis")


@pytest.mark.parametrize("schedule", [SIMULATED, VECTORS], ids=["one by one", "vectors"])
@pytest.mark.parametrize("name", few(CONVOLUTIONS, 2))
def test_factors_are_read_through_index_maps(name: str, schedule: Schedule) -> None:
    x_shape, w_shape, form = FORMS[name]
    program = convolving(x_shape, w_shape, form, "f32", symbolic=False)
    maps = [kernel for kernel in program.kernels if isinstance(kernel, ContractKernel)]
    assert len(maps) == 3, "forward, by the image, by the kernel"
    for kernel in maps:
        assert tiled(kernel, schedule) is not None
        check(kernel, operands(kernel, (x_shape[0],)), (x_shape[0],), schedule)


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_the_image_may_have_any_size(rows: int) -> None:
    kernel = windows(step=1, interior=2)
    arrays = operands(kernel, (rows,))
    check(kernel, arrays, (rows,), VECTORS)
