"""Ordered kernels as device code, run lane by lane: prefix sums, scatters in the order of their ids, assignments."""

import numpy as np
import pytest

from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import F16, F32, F64, I32, I64, U8, DType
from dfc.kernels.body import Affine, Computed, Load, Mask
from dfc.kernels.form import LoopKernel, Operand, Stage, Store
from dfc.lower.threads.schedule import DEVICE, SIMULATED
from dfc_target_cuda.kernels.write_kernel import write_kernel
from tests.support.kernel_texts import run_text
from tests.support.programs import KernelMaker, axis_index
from tests.support.sweeping import few
from tests.targets.cpu.compile.elementwise.test_kernels import sample
from tests.targets.cpu.test_lower_ordered import scan, scatter
from tests.targets.cuda.compile.kernels.test_write_map import agree


@pytest.mark.parametrize("axes", [(0, 1), (1, 0)])
def test_prefix_sums_along_rows_and_columns(axes: tuple[int, int]) -> None:
    for rows, length in ((1, 1), (3, 20), (12, 7), (3, 0), (0, 3), (2, 70)):
        shape = (rows, length) if axes == (0, 1) else (length, rows)
        agree(scan(axes), [sample(F32, rows * length), np.full(shape, np.nan, np.float32)], [rows, length])


def prefixes(function: str, start: float, dtype: DType, fixed: dict[int, int], *, both: bool = False) -> LoopKernel:
    """A fold of x * x and y with all its prefixes; `both`: the element is stored too."""
    k = KernelMaker(2, fixed)
    x = k.load(dtype, 0, 1)
    element = k.body.apply("minimum", k.body.apply("mul", x, x), k.load(dtype, -1, 1))
    out = k.operand(dtype, k.over(0, 1), "update")
    before = (Affine(((0, 1),)), Affine(((1, 1),), dim(-1)))
    mask = Mask(((1, 1),), k.body.number(start, dtype))
    previous = k.body.append(Load(out, before, mask), (), dtype)
    stores = [Store(out, axis_index(0, 1), k.body.apply(function, element, previous))]
    stores += [k.store(element, 0, 1)] if both else []
    return k.loops(1, Stage((1,), k.take_body(), (), tuple(stores)), ordered=True)


@pytest.mark.parametrize("dtype", few([F32, F16, F64, I32, U8], 3), ids=str)
@pytest.mark.parametrize("function", ["add", "mul", "minimum", "maximum"])
def test_prefixes_of_every_fold(function: str, dtype: DType) -> None:
    start = {"add": 0, "mul": 1}.get(function, 3)
    for fixed in ({}, {1: 7}, {1: 70}):
        for rows, length in ((1, 1), (3, 13), (2, 100)):
            sizes = [rows, fixed.get(1, length)]
            x, y = sample(dtype, sizes[0] * sizes[1]), sample(dtype, sizes[1], 1)
            if dtype.is_float:
                x, y = (np.sign(one).astype(dtype.numpy) for one in (x, y))  # sums and products that are exact
            agree(prefixes(function, start, dtype, fixed), [x, y, np.zeros_like(x)], sizes, exact=True)


def test_what_is_more_than_a_scan_goes_step_by_step() -> None:
    kernel = prefixes("add", 0, F32, {}, both=True)
    assert "shuffle_" in write_kernel(prefixes("add", 0, F32, {}), "k0", DEVICE, guarded=True).source
    assert "shuffle_" not in write_kernel(kernel, "k0", DEVICE, guarded=True).source
    x = sample(F32, 60)
    agree(kernel, [x, sample(F32, 12), np.zeros_like(x), np.zeros_like(x)], [5, 12], exact=True)


@pytest.mark.parametrize("ids", [I32, I64, U8], ids=str)
def test_scatters_add_in_the_order_of_their_ids(ids: DType) -> None:
    for count, width in ((0, 5), (1, 1), (20, 0), (30, 13), (50, 3)):
        numbers = np.random.default_rng(count).integers(0 if ids is U8 else -9, 9, count).astype(ids.numpy)
        x, out = sample(F32, count * width), sample(F32, 9 * width, 5)
        agree(scatter(ids, True), [numbers, x, out], [width, count, 9], exact=True)
        agree(scatter(ids, False), [numbers, sample(F32, count), sample(F32, 9)], [count, 9], exact=True)


def test_a_scatter_out_of_range_is_reported() -> None:
    numbers = np.array([1, 2, -10, 3], np.int32)
    text = write_kernel(scatter(I32, True), "k0", SIMULATED, guarded=True)
    out = np.zeros((9, 2), np.float32)
    error = run_text(text, [numbers, np.ones(8, np.float32), out], [2, 4, 9])
    assert error.tolist() == [2, -10, 9]
    before = out.copy()
    assert not before[[0, 4, 5, 6, 7, 8]].any()
    run_text(text, [np.zeros(4, np.int32), np.ones(8, np.float32), out], [2, 4, 9], error=error)
    np.testing.assert_array_equal(out, before, "nothing is written after a fault")
    error = run_text(text, [numbers, np.ones(8, np.float32), np.zeros((0, 2), np.float32)], [2, 4, 0])
    assert error.tolist() == [2, 1, 0], "no row at all"


def paired(combine: str, dtype: DType) -> LoopKernel:
    """out[rows[i], columns[i], j] = or += x[j, i], with j parallel."""
    k = KernelMaker(2)
    rows, columns, x = k.load(I32, 1), k.load(I64, 1), k.load(dtype, 0, 1)
    k.operands.append(Operand(dtype, (dim(Symbol("d2")), dim(3), k.sizes[0]), "update"))
    index = (Computed(rows, 1), Computed(columns, 2), Affine(((0, 1),)))
    store = Store(len(k.operands) - 1, index, x, combine)
    return k.loops(1, Stage((1,), k.take_body(), (), (store,)), ordered=True)


@pytest.mark.parametrize("combine", ["", "add"])
@pytest.mark.parametrize("dtype", [F32, F16, I32], ids=str)
def test_of_assignments_to_one_place_the_last_stays(combine: str, dtype: DType) -> None:
    generator = np.random.default_rng(3)
    for count, width, extent in ((40, 5, 4), (1, 1, 1), (17, 9, 2)):
        rows = generator.integers(-extent, extent, count).astype(np.int32)
        columns = generator.integers(0, 3, count)
        arrays = [rows, columns, sample(dtype, count * width), sample(dtype, extent * 3 * width, 2)]
        agree(paired(combine, dtype), arrays, [width, count, extent], exact=True)


def test_rows_have_owners_and_no_atomic_adds() -> None:
    source = write_kernel(scatter(I32, True), "k0", DEVICE, guarded=True).source
    assert "== owner" in source and "atomic" not in source
    k = KernelMaker(2)
    ids, x = k.load(I32, 0, 1), k.load(F32, 0, 1)
    k.operands.append(Operand(F32, (k.sizes[0], dim(4)), "update"))
    store = Store(2, (Affine(((0, 1),)), Computed(ids, 1)), x, "add")
    along_rows = k.loops(1, Stage((1,), k.take_body(), (), (store,)), ordered=True)
    assert "owner" not in write_kernel(along_rows, "k0", DEVICE, guarded=True).source, "rows differ by outer point"
    for rows, length in ((5, 12), (9, 3)):
        numbers = np.random.default_rng(1).integers(-4, 4, (rows, length)).astype(np.int32)
        arrays = [numbers, sample(F32, rows * length), np.zeros((rows, 4), np.float32)]
        agree(along_rows, arrays, [rows, length], exact=True)
