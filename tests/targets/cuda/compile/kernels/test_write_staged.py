"""Folds as device code, run lane by lane: rows, columns, whole arrays, several stages, searches, several blocks."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, DType
from dfc.kernels.body import Affine, Computed, Reduced
from dfc.kernels.form import LoopKernel, Reduction, Stage, Store
from dfc.lower.threads.schedule import DEVICE, SIMULATED, Schedule
from dfc_target_cuda.kernels.write_kernel import write_kernel
from tests.support.cuda_simulator.simulation import simulate
from tests.support.kernel_texts import blocks_of, run_text
from tests.support.programs import KernelMaker, axis_index
from tests.support.sweeping import few
from tests.targets.cpu.compile.elementwise.test_kernels import sample
from tests.targets.cpu.compile.elementwise.test_reductions import reduction, whole
from tests.targets.cuda.compile.kernels.test_write_map import agree

SHAPES = ((0, 3), (3, 0), (1, 1), (5, 16), (3, 33), (35, 3))


def softmax(by_rows: bool, fixed: dict[int, int] | None = None) -> LoopKernel:
    """max, then sum of stored exponentials, then a division: three stages over one row (or column)."""
    k = KernelMaker(2, fixed)
    axes = (0, 1) if by_rows else (1, 0)
    x = k.load(F32, *axes)
    first = Stage((1,), k.take_body(), (Reduction("max", x, F32),))
    x = k.load_at(0, axis_index(*axes))
    e = k.body.apply("exp", k.body.apply("sub", x, k.body.append(Reduced(0, 0), (), F32)))
    out = k.operand(F32, k.over(*axes), "update")
    second = Stage((1,), k.take_body(), (Reduction("add", e, F32),), (Store(out, axis_index(*axes), e),))
    y = k.body.apply("div", k.load_at(out, axis_index(*axes)), k.body.append(Reduced(1, 0), (), F32))
    third = Stage((1,), k.take_body(), (), (Store(out, axis_index(*axes), y),))
    return k.loops(1, first, second, third)


def rows(combine: str, dtype: DType, over: int, result: DType | None, shape: tuple[int, int]) -> None:
    x = sample(dtype, shape[0] * shape[1])
    if dtype.is_bool:
        x = x | True if combine == "and" else x & False
        x[-1:] = combine == "or"
    out = np.zeros(shape[1 - over], (result or dtype).numpy)
    sizes = list(shape) if over == 1 else list(shape[::-1])
    exact = not dtype.is_float or combine in ("min", "max")
    agree(reduction(combine, dtype, over, result), [x.reshape(shape), out], sizes, exact=exact)


@pytest.mark.parametrize("over", [1, 0])
@pytest.mark.parametrize("dtype", few([F32, F64, BF16, I8, I64, U8], 2), ids=str)
def test_folds_of_rows_and_columns(dtype: DType, over: int) -> None:
    for combine in ("add", "max", "min"):
        for shape in SHAPES:
            rows(combine, dtype, over, None, shape)


@pytest.mark.parametrize("over", [1, 0])
def test_products_logic_and_wider_results(over: int) -> None:
    for shape in SHAPES:
        rows("mul", I32, over, None, shape)
        rows("and", BOOL, over, None, shape)
        rows("or", BOOL, over, None, shape)
        rows("add", F16, over, F32, shape)


@pytest.mark.parametrize("over", [1, 0])
@pytest.mark.parametrize("dtype", few([F32, I32, F16, U8], 2), ids=str)
def test_searches_take_the_first_and_nan(over: int, dtype: DType) -> None:
    for shape in SHAPES:
        x = sample(dtype, shape[0] * shape[1]).reshape(shape)
        x[...] = x // 4  # many equal values
        for with_nan in (False, True):
            if with_nan and dtype.is_float:
                x[np.random.default_rng(1).random(shape) < 0.05] = np.nan
            for combine in ("argmax", "argmin"):
                out = np.full(shape[1 - over], 7, np.int64)
                sizes = list(shape) if over == 1 else list(shape[::-1])
                agree(reduction(combine, dtype, over, I64), [x, out], sizes, exact=True)


@pytest.mark.parametrize("over", [1, 0])
def test_extremes_propagate_nan(over: int) -> None:
    for position in (0, 5, 16, 39):
        x = sample(F32, 120).reshape((3, 40) if over else (40, 3))
        x[(1, position) if over else (position, 1)] = np.nan
        for combine in ("min", "max"):
            agree(reduction(combine, F32, over), [x, np.zeros(3, np.float32)], [3, 40], exact=True)


FIXED: list[dict[int, int]] = [{}, {1: 1}, {1: 10}, {1: 16}, {1: 64}, {1: 70}, {0: 3, 1: 130}]


@pytest.mark.parametrize(("by_rows", "fixed"), [*product([True], FIXED), *product([False], few(FIXED, 2))], ids=str)
def test_softmax_in_registers_and_in_passes(fixed: dict[int, int], by_rows: bool) -> None:
    kernel = softmax(by_rows, fixed)
    for count, length in ((1, 1), (5, 12), (9, 40), (0, 3), (3, 0)):
        extents = [fixed.get(0, count), fixed.get(1, length)]
        shape = extents if by_rows else extents[::-1]
        x = sample(F32, shape[0] * shape[1])
        agree(kernel, [x, np.full_like(x, np.nan)], extents)


def test_a_row_that_fits_is_read_and_written_once() -> None:
    source = write_kernel(softmax(True, {1: 128}), "k0", DEVICE, guarded=True).source
    assert source.count("load2_f32(a, ") == 2 and source.count("store2_f32(b, ") == 2
    assert "(b, " not in source.replace("store2_f32(b, ", ""), "what was stored is not read back"
    passes = write_kernel(softmax(True, {1: 100_000}), "k0", DEVICE, guarded=True).source
    assert passes.count("load2_f32(a, ") == 2 and passes.count("load2_f32(b, ") == 1


def test_the_length_of_a_row_decides_between_a_warp_and_a_block() -> None:
    source = write_kernel(softmax(True), "k0", DEVICE, guarded=True).source
    short, long = source.split("else:")
    assert "if d1 <= 512:" in short and "barrier()" not in short and "barrier()" in long
    for length in few((127, 128, 600, 300), 3):
        for schedule in (SIMULATED, Schedule(threads=16, warp=2, blocks=4)):
            x = sample(F32, 3 * length).reshape(3, length)
            out = np.zeros_like(x)
            run_text(write_kernel(softmax(True), "k0", schedule, guarded=True), [x, out], [3, length], schedule)
            wide = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
            np.testing.assert_allclose(out, wide / wide.sum(axis=1, keepdims=True), rtol=3e-6)


@pytest.mark.parametrize("dtype", few([F32, I32, F64], 2), ids=str)
def test_whole_arrays_by_one_block_and_by_several(dtype: DType) -> None:
    kernel = whole(("add", "max"), dtype, 1)
    text = write_kernel(kernel, "k0", SIMULATED, guarded=True)
    assert text.workspace.evaluate({Symbol("d0"): 3}) == 0
    for count in (0, 1, 700, 9000, 33_000):  # in one part, two, and five, which four blocks take
        outs = [np.zeros((), dtype.numpy), np.zeros((), dtype.numpy)]
        agree(kernel, [sample(dtype, count), *outs], [count])
    assert blocks_of(text, {Symbol("d0"): 33_000}) == SIMULATED.blocks
    agree(whole(("argmax",), dtype, 1, I64), [sample(dtype, 17_000) // 2, np.zeros((), np.int64)], [17_000], exact=True)


def test_parts_of_many_blocks_that_take_turns_have_the_same_bits() -> None:
    kernel = whole(("add",), F32, 1)
    text = write_kernel(kernel, "k0", SIMULATED, guarded=True)
    x = sample(F32, 17_000)  # in three parts
    results: list[bytes] = []

    for blocks in (1, 2, 3):

        def on_few(function: Callable[..., None], _: int, threads: int, arguments: Sequence[Any], few: int = blocks):
            simulate(function, few, threads, arguments)

        out = np.zeros((), np.float32)
        run_text(text, [x, out], [len(x)], run=on_few)
        results.append(out.tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("shape", few([(5, 600), (2, 9001), (600, 3), (2001, 5)], 2))
def test_few_rows_and_columns_with_many_elements(shape: tuple[int, int]) -> None:
    over = 1 if shape[1] > shape[0] else 0
    for combine, dtype in (("add", F32), ("max", F64), ("argmin", F32)):
        result = I64 if combine.startswith("arg") else None
        rows(combine, dtype, over, result, shape)


def test_a_split_kernel_writes_nothing_after_a_fault_and_leaves_no_ticket() -> None:
    text = write_kernel(whole(("add",), F32, 1), "k0", SIMULATED, guarded=True)
    out, error = np.full((), 7, np.float32), np.array([3, 0, 0], np.int64)
    run_text(text, [sample(F32, 20_000), out], [20_000], error=error)
    assert out == 7 and error.tolist() == [3, 0, 0]
    rows_text = write_kernel(softmax(True, {1: 16}), "k0", SIMULATED, guarded=True)
    out = np.full((3, 16), 7, np.float32)
    run_text(rows_text, [sample(F32, 48), out], [3], error=error)
    assert (out == 7).all()


def test_sums_over_axes_that_are_not_neighbours() -> None:
    for fixed in ({}, {2: 8}, {1: 3, 2: 5}):
        k = KernelMaker(3, fixed)
        x = k.load(F32, 1, 0, 2)
        fold = Stage((1, 2), k.take_body(), (Reduction("add", x, F32),))
        out = k.store(k.body.append(Reduced(0, 0), (), F32), 0)
        kernel = k.loops(1, fold, Stage((), k.take_body(), (), (out,)))
        for shape in ((3, 4, 5), (1, 5, 33), (9, 3, 8)):
            sizes = [fixed.get(axis, size) for axis, size in enumerate((shape[1], shape[0], shape[2]))]
            x_ = sample(F32, sizes[0] * sizes[1] * sizes[2])
            agree(kernel, [x_, np.zeros(sizes[0], np.float32)], sizes)


@pytest.mark.parametrize("fixed", [{}, {1: 12}, {1: 40}], ids=str)
def test_a_stage_reads_what_other_lanes_stored(fixed: dict[int, int]) -> None:
    """Each row reversed, after its elements had their sum taken away; then the elements are written over."""
    k = KernelMaker(2, fixed)
    x = k.load(F32, 0, 1)
    total = Stage((1,), k.take_body(), (Reduction("add", x, F32),))
    y = k.body.apply("sub", k.load_at(0, axis_index(0, 1)), k.body.append(Reduced(0, 0), (), F32))
    middle = k.operand(F32, k.over(0, 1), "update")
    second = Stage((1,), k.take_body(), (), (Store(middle, axis_index(0, 1), y),))
    turned = k.load_at(middle, (Affine(((0, 1),)), Affine(((1, -1),), k.sizes[1] - 1)))
    last = k.store(turned, 0, 1)
    third = Stage((1,), k.take_body(), (), (last,))
    over = k.load_at(0, axis_index(0, 1))
    fourth = Stage((1,), k.take_body(), (), (Store(middle, axis_index(0, 1), over),))
    kernel = k.loops(1, total, second, third, fourth)
    for rows_, length in ((1, 1), (4, 7), (3, 40)):
        shape = (rows_, fixed.get(1, length))
        count = shape[0] * shape[1]
        arrays = [sample(F32, count), np.zeros(count, np.float32), np.zeros(count, np.float32)]
        agree(kernel, arrays, list(shape))


@pytest.mark.parametrize("length", [None, 12])
def test_an_index_out_of_range_in_a_fold_is_reported_and_hangs_nothing(length: int | None) -> None:
    k = KernelMaker(2, {} if length is None else {1: length})
    table = k.operand(F32, (dim(Symbol("d2")),), "read")
    element = k.load_at(table, (Computed(k.load(I32, 0, 1), 1),))
    fold = Stage((1,), k.take_body(), (Reduction("add", element, F32),))
    total = k.store(k.body.append(Reduced(0, 0), (), F32), 0)
    kernel = k.loops(1, fold, Stage((), k.take_body(), (), (total,)))
    numbers = np.random.default_rng(0).integers(-20, 20, (9, 12)).astype(np.int32)
    agree(kernel, [sample(F32, 20), numbers, np.zeros(9, np.float32)], [9, 12, 20])
    numbers[5, 11] = -21
    agree(kernel, [sample(F32, 20), numbers, np.zeros(9, np.float32)], [9, 12, 20])


@pytest.mark.parametrize("schedule", [SIMULATED, Schedule(threads=16, warp=4, blocks=8)], ids=["8", "16"])
def test_sums_stay_within_their_bound_on_other_blocks(schedule: Schedule) -> None:
    for kernel, shape in ((reduction("add", F32, 1), (3, 300)), (reduction("add", F32, 0), (300, 3))):
        x, out = sample(F32, 900).reshape(shape), np.zeros(3, np.float32)
        run_text(write_kernel(kernel, "k0", schedule, guarded=False), [x, out], [3, 300], schedule)
        axis = 1 if shape[0] == 3 else 0
        bound = 2 * 300 * np.finfo(np.float32).eps * np.abs(x).sum(axis=axis)
        assert (np.abs(out - x.sum(axis=axis, dtype=np.float64)) <= bound).all()


def test_statistics_of_rows_and_a_second_output() -> None:
    """Two folds of one pass, stored in a stage of their own, then used on the row."""
    for fixed in ({}, {1: 24}):
        k = KernelMaker(2, fixed)
        x = k.load(F32, 0, 1)
        square = k.body.apply("mul", x, x)
        folds = (Reduction("add", x, F32), Reduction("add", square, F32))
        first = Stage((1,), k.take_body(), folds)
        total, squares = (k.body.append(Reduced(0, i), (), F32) for i in range(2))
        outs = (k.store(total, 0), k.store(squares, 0))
        second = Stage((), k.take_body(), (), outs)
        x = k.load_at(0, axis_index(0, 1))
        scaled = k.body.apply("mul", x, k.body.append(Reduced(0, 0), (), F32))
        last = k.store(scaled, 0, 1)
        third = Stage((1,), k.take_body(), (), (last,))
        kernel: LoopKernel = k.loops(1, first, second, third)
        for count, length in ((1, 1), (5, 24), (9, 37)):
            extents = [count, fixed.get(1, length)]
            x_ = sample(F32, extents[0] * extents[1])
            results = [np.zeros(count, np.float32), np.zeros(count, np.float32), np.zeros_like(x_)]
            agree(kernel, [x_, *results], extents)
