"""Reductions: rows, columns, whole arrays, several stages; the bound of a sum, NaN rules, and equal bits on threads."""

import numpy as np
import pytest

from dfc.ir.dims import ONE, dim
from dfc.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, DType
from dfc.kernels.body import Affine, Load, Reduced
from dfc.kernels.form import LoopKernel, Reduction, Stage, Store
from tests.support.programs import KernelMaker, Runner, axis_index
from tests.support.sweeping import few
from tests.targets.cpu.compile.elementwise.test_kernels import sample

SHAPES = ((0, 3), (3, 0), (1, 1), (2, 15), (5, 16), (4, 17), (3, 63), (3, 64), (7, 65), (2, 130), (130, 3), (33, 1000))


def reduction(combine: str, dtype: DType, over: int, result: DType | None = None) -> LoopKernel:
    """x[a0, a1] (stored with the reduced axis last or first) folded over a1."""
    k = KernelMaker(2)
    x = k.load(dtype, 0, 1) if over == 1 else k.load(dtype, 1, 0)
    fold = Stage((1,), k.take_body(), (Reduction(combine, x, result or dtype),))
    value = k.body.append(Reduced(0, 0), (), result or dtype)
    out = k.store(value, 0)
    return k.loops(1, fold, Stage((), k.take_body(), (), (out,)))


def run(runner: Runner, number: int, x: np.ndarray, over: int, out: np.ndarray, threads: int = 1) -> None:
    sizes = list(x.shape) if over == 1 else list(x.shape[::-1])
    assert runner.run(number, [x, out], sizes, threads=threads) == 0


@pytest.mark.parametrize("over", [1, 0])
def test_sums_stay_within_their_bound(over: int) -> None:
    types = (F32, F64, F16, BF16)
    runner = Runner([reduction("add", d, over) for d in types])
    for number, dtype in enumerate(types):
        for shape in SHAPES:
            x = sample(dtype, shape[0] * shape[1]).reshape(shape)
            out = np.full(shape[1 - over], 7, dtype.numpy)
            run(runner, number, x, over, out)
            wide = x.astype(np.float64)
            eps = np.finfo(np.float32 if dtype.size < 8 else np.float64).eps
            bound = 2 * shape[over] * eps * np.abs(wide).sum(axis=over) + 1e-30
            exact = wide.sum(axis=over)
            if dtype.size == 2:
                bound += np.abs(exact) * (2.0**-10 if dtype is F16 else 2.0**-7)
            assert np.all(np.abs(out.astype(np.float64) - exact) <= bound), (dtype, shape)


@pytest.mark.parametrize("over", [1, 0])
def test_exact_folds_match_numpy(over: int) -> None:
    cases = [(c, d) for d in (I8, I32, I64, U8) for c in ("add", "mul", "min", "max")]
    cases += [(c, d) for d in (F32, F64) for c in ("min", "max")] + [("and", BOOL), ("or", BOOL)]
    cases = few(cases[over:], 11)
    functions = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    functions |= {"and": np.logical_and, "or": np.logical_or}
    runner = Runner([reduction(c, d, over) for c, d in cases])
    for number, (combine, dtype) in enumerate(cases):
        for shape in SHAPES:
            if shape[over] == 0 and combine in ("min", "max"):
                continue
            x = sample(dtype, shape[0] * shape[1]).reshape(shape)
            if dtype.is_bool:
                x = x | True if combine == "and" else x & False
                x.reshape(-1)[-1:] = combine == "or"
            out = np.zeros(shape[1 - over], dtype.numpy)
            run(runner, number, x, over, out)
            expected = functions[combine].reduce(x, axis=over, dtype=dtype.numpy)
            assert np.array_equal(out, expected), (combine, dtype, shape)


@pytest.mark.parametrize("over", [1, 0])
def test_extremes_propagate_nan(over: int) -> None:
    runner = Runner([reduction(c, F32, over) for c in ("min", "max")])
    for position in (0, 1, 16, 40, 99):
        x = sample(F32, 300).reshape((3, 100) if over else (100, 3))
        x[(1, position) if over else (position, 1)] = np.nan
        for number, function in enumerate((np.min, np.max)):
            out = np.zeros(3, np.float32)
            run(runner, number, x, over, out)
            assert np.array_equal(out, function(x, axis=over), equal_nan=True)


@pytest.mark.parametrize("over", [1, 0])
@pytest.mark.parametrize("dtype", few([F32, I32, U8, F16, F64], 3))
def test_searches_take_the_first_and_nan(over: int, dtype: DType) -> None:
    runner = Runner([reduction(c, dtype, over, I64) for c in ("argmax", "argmin")])
    for shape in SHAPES[2:]:
        x = sample(dtype, shape[0] * shape[1]).reshape(shape)
        x[...] = x // 4  # many equal values
        for with_nan in (False, True):
            if with_nan and dtype.is_float:
                x[np.random.default_rng(1).random(shape) < 0.05] = np.nan
            for number, function in enumerate((np.argmax, np.argmin)):
                out = np.zeros(shape[1 - over], np.int64)
                run(runner, number, x, over, out)
                assert np.array_equal(out, function(x, axis=over)), (shape, function)


def test_a_search_among_nothing_finds_place_0() -> None:
    runner = Runner([reduction(c, F32, over, I64) for c in ("argmax", "argmin") for over in (0, 1)])
    for number, over in enumerate((0, 1, 0, 1)):
        out = np.full(21, 7, np.int64)
        run(runner, number, np.zeros((0, 21) if over == 0 else (21, 0), np.float32), over, out)
        assert not out.any()
    whole_runner, out = Runner([whole(("argmax",), F32, 1, I64)]), np.ones(1, np.int64)
    for threads in (1, 2):
        assert whole_runner.run(0, [np.zeros(0, np.float32), out], [0], threads=threads) == 0
        assert out[0] == 0


def softmax(axis_last: bool, fixed: dict[int, int] | None = None) -> LoopKernel:
    """max, then sum of stored exponentials, then a division: three stages over one row (or column)."""
    k = KernelMaker(2, fixed)
    axes = (0, 1) if axis_last else (1, 0)
    x = k.load(F32, *axes)
    first = Stage((1,), k.take_body(), (Reduction("max", x, F32),))
    x = k.load_at(0, axis_index(*axes))
    e = k.body.apply("exp", k.body.apply("sub", x, k.body.append(Reduced(0, 0), (), F32)))
    out = k.operand(F32, k.over(*axes), "write")
    second = Stage((1,), k.take_body(), (Reduction("add", e, F32),), (Store(out, axis_index(*axes), e),))
    e = k.load_at(out, axis_index(*axes))
    y = k.body.apply("div", e, k.body.append(Reduced(1, 0), (), F32))
    third = Stage((1,), k.take_body(), (), (Store(out, axis_index(*axes), y),))
    return k.loops(1, first, second, third)


def test_softmax_of_rows_and_columns_on_one_and_two_threads() -> None:
    runner = Runner([softmax(True), softmax(False), softmax(True, {1: 10})])
    for number, shapes in enumerate(([(3, 10), (4, 17), (300, 1000)], [(10, 3), (17, 40), (90, 3000)], [(100, 10)])):
        for shape in shapes:
            x = sample(F32, shape[0] * shape[1]).reshape(shape)
            outs = [np.zeros_like(x), np.zeros_like(x)]
            sizes = list(shape) if number != 1 else list(shape[::-1])
            for threads, out in enumerate(outs, 1):
                assert runner.run(number, [x, out], sizes, threads=threads) == 0
            axis = 0 if number == 1 else 1
            wide = np.exp(x.astype(np.float64) - x.max(axis=axis, keepdims=True))
            expected = wide / wide.sum(axis=axis, keepdims=True)
            assert np.allclose(outs[0], expected, rtol=3e-6, atol=0)
            assert outs[0].tobytes() == outs[1].tobytes()


def test_only_rows_of_long_arithmetic_ask_for_the_next_one() -> None:
    asks = "call void @llvm.prefetch"
    assert asks in Runner([softmax(True)]).listing
    assert asks not in Runner([softmax(False), reduction("add", F32, 1)]).listing


def whole(combines: tuple[str, ...], dtype: DType, rank: int, result: DType | None = None) -> LoopKernel:
    """Folds over every axis, then stores each result."""
    k = KernelMaker(rank)
    x = k.load(dtype, *range(rank))
    fold = Stage(tuple(range(rank)), k.take_body(), tuple(Reduction(c, x, result or dtype) for c in combines))
    values = [k.body.append(Reduced(0, i), (), result or dtype) for i in range(len(combines))]
    outs = [k.operand(result or dtype, (), "write") for _ in combines]
    stores = tuple(Store(out, (), value) for out, value in zip(outs, values, strict=True))
    return k.loops(0, fold, Stage((), k.take_body(), (), stores))


def test_whole_arrays_have_one_tree_on_any_number_of_threads() -> None:
    runner = Runner([whole(("add", "max"), F32, 1), whole(("add", "min"), F32, 2), whole(("argmax",), F32, 1, I64)])
    for count in (0, 1, 100, 4096, 4097, 1_000_003):
        x = sample(F32, count)
        bits = []
        for threads in (1, 2):
            total, most = np.zeros(1, np.float32), np.zeros(1, np.float32)
            assert runner.run(0, [x, total, most], [count], threads=threads) == 0
            bits.append(total.tobytes())
            if count:
                assert most[0] == x.max()
                found = np.zeros(1, np.int64)
                assert runner.run(2, [x, found], [count], threads=threads) == 0
                assert found[0] == x.argmax()
        assert bits[0] == bits[1]
        wide = x.astype(np.float64)
        assert abs(total[0] - wide.sum()) <= 2 * count * np.finfo(np.float32).eps * np.abs(wide).sum()
    x = sample(F32, 513 * 1000).reshape(513, 1000)
    total, least = np.zeros(1, np.float32), np.zeros(1, np.float32)
    assert runner.run(1, [x, total, least], [513, 1000], threads=2) == 0
    assert least[0] == x.min() and np.isclose(total[0], x.sum(dtype=np.float64), rtol=1e-3)


def test_whole_array_result_is_used_by_a_later_stage() -> None:
    k = KernelMaker(1)
    x = k.load(F32, 0)
    fold = Stage((0,), k.take_body(), (Reduction("max", x, F32),))
    x = k.load_at(0, axis_index(0))
    y = k.body.apply("sub", x, k.body.append(Reduced(0, 0), (), F32))
    out = k.operand(F32, k.over(0), "write")
    runner = Runner([k.loops(0, fold, Stage((0,), k.take_body(), (), (Store(out, axis_index(0), y),)))])
    for count in (1, 50, 300_000):
        a, b = sample(F32, count), np.zeros(count, np.float32)
        for threads in (1, 2):
            assert runner.run(0, [a, b], [count], threads=threads) == 0
            assert np.array_equal(b, a - a.max())


def test_sum_over_two_axes_that_are_not_neighbours() -> None:
    k = KernelMaker(3)
    x = k.load(F32, 1, 0, 2)
    fold = Stage((1, 2), k.take_body(), (Reduction("add", x, F32),))
    out = k.store(k.body.append(Reduced(0, 0), (), F32), 0)
    runner = Runner([k.loops(1, fold, Stage((), k.take_body(), (), (out,)))])
    for shape in ((2, 3, 4), (5, 1, 33), (9, 17, 64)):
        x_ = sample(F32, int(np.prod(shape))).reshape(shape)
        total = np.zeros(shape[1], np.float32)
        assert runner.run(0, [x_, total], [shape[1], shape[0], shape[2]]) == 0
        assert np.allclose(total, x_.sum(axis=(0, 2), dtype=np.float64), rtol=1e-4, atol=1e-3)


def test_axes_of_length_one_are_folded_once() -> None:
    k = KernelMaker(2, {1: 1})
    x = k.operand(F32, (k.sizes[0], ONE), "read")
    value = k.body.append(Load(x, (Affine(((0, 1),)), Affine(((1, 1),)))), (), F32)
    fold = Stage((1,), k.take_body(), (Reduction("add", value, F32), Reduction("argmax", value, I64)))
    total, position = (k.body.append(Reduced(0, i), (), d) for i, d in enumerate((F32, I64)))
    stores = (k.store(total, 0), k.store(position, 0))
    runner = Runner([k.loops(1, fold, Stage((), k.take_body(), (), stores))])
    a, out, where = sample(F32, 21), np.zeros(21, np.float32), np.ones(21, np.int64)
    assert runner.run(0, [a, out, where], [21, dim(1).constant or 0]) == 0
    assert np.array_equal(out, a) and not where.any()


def test_each_stage_merges_the_axes_it_shares_by_itself() -> None:
    k = KernelMaker(2, {0: 7, 1: 8})
    x = k.load(F32, 0, 1)
    first = Stage((0, 1), k.take_body(), (Reduction("max", x, F32),))
    x = k.load_at(0, axis_index(0, 1))
    lower = k.body.apply("sub", x, k.body.append(Reduced(0, 0), (), F32))
    second = Stage((0, 1), k.take_body(), (Reduction("add", lower, F32),))
    total = k.body.append(Reduced(1, 0), (), F32)
    out = k.operand(F32, (), "write")
    runner = Runner([k.loops(0, first, second, Stage((), k.take_body(), (), (Store(out, (), total),)))])
    a, b = sample(F32, 56).reshape(7, 8), np.zeros(1, np.float32)
    assert runner.run(0, [a, b], []) == 0
    assert np.isclose(b[0], (a - a.max()).sum(dtype=np.float64), rtol=1e-5)


def test_narrow_columns_are_updated_once_on_two_threads() -> None:
    k = KernelMaker(2)
    x = k.load(F32, 1, 0)
    fold = Stage((1,), k.take_body(), (Reduction("add", x, F32),))
    state = k.operand(F32, k.over(0), "update")
    new = k.body.apply("add", k.load_at(state, axis_index(0)), k.body.append(Reduced(0, 0), (), F32))
    runner = Runner([k.loops(1, fold, Stage((), k.take_body(), (), (Store(state, axis_index(0), new),)))])
    for rows, columns in ((60_000, 10), (60_000, 3), (3000, 300), (1025, 129)):
        x_ = sample(F32, rows * columns).reshape(rows, columns)
        states = [np.ones(columns, np.float32), np.ones(columns, np.float32)]
        for threads, one in enumerate(states, 1):
            assert runner.run(0, [x_, one], [columns, rows], threads=threads) == 0
        wide = x_.astype(np.float64)
        assert np.all(np.abs(states[0] - 1 - wide.sum(axis=0)) <= 1e-6 + 3e-5 * np.abs(wide).sum(axis=0))
        assert states[0].tobytes() == states[1].tobytes()
