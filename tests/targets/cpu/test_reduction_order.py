"""Native reductions have the bits of the order that kernels state, run by NumPy, over lengths at every edge of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dfc.ir.dims import Symbol
from dfc.ir.dtypes import BF16, F16, F32, F64, I64, DType
from dfc.kernels.body import Apply, Reduced
from dfc.kernels.form import LoopKernel, Reduction, Stage
from dfc.kernels.orders.reduction import kernel_order
from tests.support.kernel_arrays import run_loops
from tests.support.programs import KernelMaker, Runner
from tests.support.sweeping import WHOLE as WIDE
from tests.support.sweeping import few
from tests.targets.cpu.compile.elementwise.test_reductions import reduction, softmax, whole

SHAPES = [(3, length) for length in (0, 1, 15, 16, 17, 63, 64, 65, 100, 130, 511, 512, 513, 1100, 9000)]
COLUMNS = [(length, 3) for length in (0, 1, 2, 64, 65, 200)] + [(70, 17)]
LONG_COLUMNS = [(1024, 2), (1025, 2), (1100, 2)]
WHOLE = (0, 1, 65, 513, 8192, 8193, 40_000)


def numbers(dtype: DType, shape: Sequence[int]) -> np.ndarray:
    """Of several sizes, so that each order of additions has its own bits; zeros of both signs among them."""
    draw = np.random.default_rng(5)
    values = draw.standard_normal(shape) * np.exp2(draw.integers(-8, 8, shape))
    values[draw.random(shape) < 0.05] = -0.0
    values[draw.random(shape) < 0.05] = 0.0
    return values.astype(dtype.numpy)


def agree(
    runner: Runner, number: int, arrays: Sequence[np.ndarray], sizes: Sequence[int], shapes: Sequence[Sequence[int]]
) -> None:
    kernel = runner.kernels[number]
    assert isinstance(kernel, LoopKernel)
    wanted = [array.copy() for array in arrays]
    run_loops(kernel, [a.reshape(s) for a, s in zip(wanted, shapes, strict=True)], _symbols(sizes))
    given = [array.copy() for array in arrays]
    assert runner.run(number, given, sizes) == 0
    for found, expected in zip(given, wanted, strict=True):
        np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8), err_msg=f"{number} {sizes}")


def _symbols(sizes: Sequence[int]) -> dict[Symbol, int]:
    return {Symbol(f"d{number}"): size for number, size in enumerate(sizes)}


@pytest.mark.parametrize("dtype", few([F32, F16, BF16, F64], 2), ids=str)
@pytest.mark.parametrize("over", [1, 0])
def test_rows_and_columns(dtype: DType, over: int) -> None:
    combines = ("add", "mul", "min", "max") if WIDE or dtype is F32 else ("add", "max")
    runner = Runner([reduction(c, dtype, over) for c in combines] + [reduction("argmax", dtype, over, I64)])
    for shape in SHAPES if over == 1 else COLUMNS:
        sizes = list(shape) if over == 1 else list(shape[::-1])
        for number in range(len(runner.kernels)):
            out = np.zeros(shape[1 - over], I64.numpy if number == len(combines) else dtype.numpy)
            agree(runner, number, [numbers(dtype, shape), out], sizes, [shape, out.shape])


def short_rows(dtype: DType, length: int) -> LoopKernel:
    """Sums and products of rows of a known length, which lie one behind the other."""
    k = KernelMaker(2, {1: length})
    x = k.load(dtype, 0, 1)
    fold = Stage((1,), k.take_body(), (Reduction("add", x, dtype), Reduction("mul", x, dtype)))
    out = [k.store(k.body.append(Reduced(0, number), (), dtype), 0) for number in (0, 1)]
    return k.loops(1, fold, Stage((), k.take_body(), (), tuple(out)))


@pytest.mark.parametrize("dtype", few([F32, F64, BF16, I64], 2), ids=str)
def test_rows_of_few_elements_are_done_like_columns(dtype: DType) -> None:
    lengths = (1, 2, 3, 4, 5)
    kernels = [short_rows(dtype, length) for length in lengths]
    assert [kernel_order(kernel).by_rows for kernel in kernels] == [False, False, False, False, True]
    runner = Runner(kernels)
    for number, length in enumerate(lengths):
        for count in (0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 70):
            shape, x = (count, length), numbers(dtype, (count, length))
            out = [np.zeros(count, dtype.numpy) for _ in range(2)]
            agree(runner, number, [x, *out], [count], [shape, (count,), (count,)])


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_rows_of_known_length(dtype: DType) -> None:
    lengths = (1, 10, 40, 64, 100, 512, 784, 8200)
    kernels: list[LoopKernel] = []
    for length in lengths:
        k = KernelMaker(2, {1: length})
        fold = Stage((1,), (x := k.load(dtype, 0, 1), k.take_body())[1], (Reduction("add", x, dtype),))
        out = k.store(k.body.append(Reduced(0, 0), (), dtype), 0)
        kernels.append(k.loops(1, fold, Stage((), k.take_body(), (), (out,))))
    runner = Runner(kernels)
    for number, length in enumerate(lengths):
        agree(runner, number, [numbers(dtype, (3, length)), np.zeros(3, dtype.numpy)], [3], [(3, length), (3,)])


def test_columns_of_several_parts() -> None:
    runner = Runner([reduction("add", dtype, 0) for dtype in (F32, F64)])
    for shape in LONG_COLUMNS:
        for number, dtype in enumerate((F32, F64)):
            out = np.zeros(shape[1], dtype.numpy)
            agree(runner, number, [numbers(dtype, shape), out], list(shape[::-1]), [shape, out.shape])


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_whole_arrays(dtype: DType) -> None:
    runner = Runner([whole(("add", "max"), dtype, 1)])
    for count in WHOLE:
        outs = [np.zeros(1, dtype.numpy), np.zeros(1, dtype.numpy)]
        agree(runner, 0, [numbers(dtype, (count,)), *outs], [count], [(count,), (), ()])


def test_axes_that_are_not_neighbours_begin_again_in_each_row() -> None:
    k = KernelMaker(3)
    x = k.load(F32, 1, 0, 2)
    fold = Stage((1, 2), k.take_body(), (Reduction("add", x, F32),))
    out = k.store(k.body.append(Reduced(0, 0), (), F32), 0)
    runner = Runner([k.loops(1, fold, Stage((), k.take_body(), (), (out,)))])
    for shape in ((2, 3, 4), (5, 1, 33), (9, 2, 64), (40, 2, 70), (300, 2, 60), (0, 2, 3), (3, 2, 0)):
        sizes = [shape[1], shape[0], shape[2]]
        agree(runner, 0, [numbers(F32, shape), np.zeros(shape[1], np.float32)], sizes, [shape, (shape[1],)])


@pytest.mark.parametrize("by_rows", [True, False])
def test_softmax(by_rows: bool) -> None:
    runner = Runner([softmax(by_rows), softmax(by_rows, {1: 100})])
    for number, lengths in enumerate(((1, 10, 16, 17, 100, 512, 513, 600), (100,))):
        for length in lengths:
            shape = (3, length) if by_rows else (length, 3)
            x = numbers(F32, shape)
            agree(runner, number, [x, np.zeros_like(x)], [3, length], [shape, shape])


def test_rows_of_two_lengths_in_one_kernel() -> None:
    k = KernelMaker(3)
    folds: list[Stage] = []
    for axis in (1, 2):
        x = k.load(F32, 0, axis)
        folds.append(Stage((axis,), k.take_body(), (Reduction("add", x, F32),)))
    first, second = (k.body.append(Reduced(stage, 0), (), F32) for stage in range(2))
    out = k.store(k.body.append(Apply("sub"), (first, second), F32), 0)
    runner = Runner([k.loops(1, *folds, Stage((), k.take_body(), (), (out,)))])
    for long, short in ((10, 12), (12, 100), (100, 12), (0, 5), (5, 0), (600, 16), (16, 17)):
        arrays = [numbers(F32, (3, long)), numbers(F32, (3, short)), np.zeros(3, np.float32)]
        agree(runner, 0, arrays, [3, long, short], [array.shape for array in arrays])


@pytest.mark.parametrize("isa", ["x86-64-v2", "x86-64-v3"])
def test_narrower_vectors_have_the_same_bits(isa: str) -> None:
    best, narrow = (
        Runner([reduction("add", d, over) for d in (F32, F64) for over in (0, 1)], isa=i) for i in ("", isa)
    )
    for shape in ((3, 7), (3, 16), (3, 100), (2, 1000), (100, 20)):
        for number, dtype in enumerate((F32, F32, F64, F64)):
            over = number % 2
            x, outs = numbers(dtype, shape), [np.zeros(shape[1 - over], dtype.numpy) for _ in range(2)]
            for runner, out in zip((best, narrow), outs, strict=True):
                assert runner.run(number, [x, out], list(shape) if over else list(shape[::-1])) == 0
            assert outs[0].tobytes() == outs[1].tobytes()
