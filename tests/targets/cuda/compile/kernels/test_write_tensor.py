"""Products by tensor cores: small matrices of a warp, their layouts in shared memory, edges of the sizes."""

import dataclasses
import re

import ml_dtypes
import numpy as np
import pytest

from dfc.ir.dtypes import BF16, F16, F32, DType
from dfc.kernels.form import ContractKernel
from dfc.lower.threads.schedule import DEVICE
from dfc.lower.threads.tiles import tiled
from dfc_target_cuda.code.assemble import assemble, find_ptxas
from dfc_target_cuda.code.compile import ptx_module
from dfc_target_cuda.kernels.write_kernel import write_kernel
from tests.support.cuda_simulator.names import define, simulated_names
from tests.support.cuda_simulator.simulation import simulate
from tests.support.kernel_texts import interpret, run_text
from tests.support.sweeping import few
from tests.support.warm_compiler import needs_numba
from tests.targets.cpu.compile.product.test_contraction import Maker, plain
from tests.targets.cpu.compile.product.test_panels import FORMS, convolving
from tests.targets.cuda.compile.kernels.test_write_contract import LAYOUTS, fixed, operands

SINGLE = dataclasses.replace(DEVICE, tf32=True)


def check(kernel: ContractKernel, sizes: tuple[int, ...], close: float = 2.0**-18) -> str:
    """Against what the kernel means: f32 sums of exact products, rounded in another order; gives the text."""
    arrays = operands(kernel, sizes)
    expected = [array.copy() for array in arrays]
    assert interpret(kernel, expected, sizes) == 0
    text = write_kernel(kernel, "k0", SINGLE, guarded=True)
    assert "matrix_multiply" in text.source
    assert not run_text(text, arrays, sizes, SINGLE).any()
    for found, wanted in zip(arrays, expected, strict=True):
        least = {2: 2.0**-8, 4: close}[wanted.dtype.itemsize]
        scale = float(np.max(np.abs(wanted.astype(float)), initial=1))
        np.testing.assert_allclose(found.astype(float), wanted.astype(float), rtol=least, atol=scale * least)
    return text.source


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [F16, BF16])
def test_aligned_factors_travel_in_words_whatever_their_layout(dtype: DType, layout: tuple[bool, bool, bool]) -> None:
    source = check(fixed((16, 16, 48), dtype, F32, *layout), ())
    assert "load8_u16_words(a" in source and "load8_u16_words(b" in source
    assert ("matrix_load(tile_a" in source) is not layout[0]
    assert ("matrix_load(tile_b" in source) is layout[1]


@pytest.mark.parametrize("layout", LAYOUTS[:4])
def test_edges_of_sizes_that_are_known_late(layout: tuple[bool, bool, bool]) -> None:
    kernel = plain(BF16, F32, *layout)
    for sizes in ((5, 7, 9), (3, 70, 33), (3, 4, 0)) if layout == LAYOUTS[0] else ((5, 7, 19),):
        check(kernel, sizes)


@pytest.mark.parametrize("name", few(["groups, steps and dilation", "zeros around"], 1))
def test_factors_are_read_through_index_maps(name: str) -> None:
    x_shape, w_shape, form = FORMS[name]
    program = convolving(x_shape, w_shape, form, "bf16", symbolic=False)
    for kernel in program.kernels:
        if isinstance(kernel, ContractKernel):
            check(kernel, (x_shape[0],))


def test_a_tile_has_several_warps() -> None:
    check(fixed((64, 40, 32), F16, F32, False, False, False), ())


@pytest.mark.parametrize("layout", LAYOUTS[:4])
def test_single_precision_with_eleven_bits(layout: tuple[bool, bool, bool]) -> None:
    check(fixed((16, 24, 20), F32, F32, *layout), (), close=2.0**-10)


def test_single_precision_is_exact_unless_asked_for_less() -> None:
    product = tiled(fixed((64, 64, 64), F32, F32, False, False, False), DEVICE)
    assert product is not None and product.tensor == ""


def test_epilogues_and_batches() -> None:
    x = Maker(1)
    a, b = x.factor(BF16, 0, x.m, x.k), x.factor(BF16, x.k, x.n)
    biased = x.body.apply("add", x.accumulated(F32), x.load(F32, x.n))
    kernel = x.finish(a, b, F32, x.store(x.body.cast(biased, BF16), 0, x.m, x.n))
    check(kernel, (2, 18, 10, 12))


def test_small_matrices_are_where_the_instruction_has_them() -> None:
    """16 x 16 by 16 x 8 through the names of the prelude, against the product of the matrices."""
    source = """
def k0(a, b, c):
    lane = thread()
    at = (((lane >> 3) & 1) * 8 + (lane & 7)) * 16 + (lane >> 4) * 8
    x0, x1, x2, x3 = matrix_load(a, at)
    y0, y1, y2, y3 = matrix_load_turned(b, (((lane >> 3) & 1) * 8 + (lane & 7)) * 16 + (lane >> 4) * 8)
    z0, z1, z2, z3 = matrix_multiply_bf16(x0, x1, x2, x3, y0, y1, f32(0.0), f32(0.0), f32(0.0), f32(0.0))
    place = (lane >> 2) * 8 + (lane & 3) * 2
    c[place] = z0
    c[place + 1] = z1
    c[place + 64] = z2
    c[place + 65] = z3
"""
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-8, 8, (16, 16)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.zeros((16, 8), np.float32)
    names = dict(simulated_names(32))
    define(source, "<test text>", names)
    simulate(names["k0"], 1, 32, [a.view(np.uint16).reshape(-1), b.view(np.uint16).reshape(-1), c.reshape(-1)])
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32))[:, :8])


@needs_numba
@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas")
@pytest.mark.parametrize(
    ("sizes", "dtype", "turned", "most"),
    few(
        [
            ((2048, 2048, 2048), F16, True, 128),
            ((2048, 2048, 2048), BF16, False, 128),
            ((None, 1024, 512), BF16, False, 128),
        ],
        1,
    ),
)
def test_code_is_instructions_of_tensor_cores(
    sizes: tuple[int | None, int, int], dtype: DType, turned: bool, most: int
) -> None:
    ptx = ptx_module(
        [write_kernel(fixed(sizes, dtype, F32, False, turned, False), "k0", DEVICE, guarded=True)], "compute_80"
    )
    assert ptx.count(f"mma.sync.aligned.m16n8k16.row.col.f32.{dtype}.{dtype}.f32") >= 16
    assert len(re.findall(r"ldmatrix.sync.aligned.m8n8.x4(?:.trans)?.shared.b16", ptx)) >= 8
    assert len(re.findall(r"ld\.global(?:\.nc)?\.v4\.[ub]32", ptx)) >= 4
    assert "st.shared.v4" in ptx and "ld.global.u16" not in ptx
    for architecture in ("sm_80", "sm_90"):
        assembled = assemble(ptx, architecture)
        assert assembled is not None
        (report,) = assembled.reports
        assert report.spill_bytes == report.stack_bytes == 0, report
        assert report.registers <= most, report
