"""Long folds down columns, done by whole rows, have the bits of the order that kernels state: written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.ir.dtypes import F32, F64, I64, DType
from dfc.kernels.body import Apply, Reduced
from dfc.kernels.form import LoopKernel, Reduction, Stage
from dfc_target_cpu.elementwise.columns import done_by_whole_rows
from dfc_target_cpu.elementwise.loop_schedule import plan_loops
from dfc_target_cpu.machine import machine_named
from tests.support.programs import KernelMaker, Runner, axis_index
from tests.targets.cpu.compile.elementwise.test_reductions import reduction
from tests.targets.cpu.test_reduction_order import numbers


def normalised(dtype: DType, width: int, length: int) -> LoopKernel:
    """Sums and places of the largest, then sums of squares that need the former, then every element by both."""
    k = KernelMaker(2, {0: width, 1: length})
    x = k.load(dtype, 1, 0)
    sums = Stage((1,), k.take_body(), (Reduction("add", x, dtype), Reduction("argmax", x, I64)))
    difference = k.body.append(
        Apply("sub"), (k.load_at(0, axis_index(1, 0)), k.body.append(Reduced(0, 0), (), dtype)), dtype
    )
    square = k.body.append(Apply("mul"), (difference, difference), dtype)
    squares = Stage((1,), k.take_body(), (Reduction("add", square, dtype),))
    product = k.body.append(
        Apply("mul"), (k.load_at(0, axis_index(1, 0)), k.body.append(Reduced(1, 0), (), dtype)), dtype
    )
    elements = Stage((1,), (out := k.store(product, 1, 0), k.take_body())[1], (), (out,))
    stores = tuple(k.store(k.body.append(Reduced(*one), (), kind), 0) for *one, kind in ((0, 0, dtype), (0, 1, I64)))
    return k.loops(1, sums, squares, elements, Stage((), k.take_body(), (), stores))


def column_sums(x: np.ndarray) -> np.ndarray:
    """Chains of 64 rows, sixteen of these to a part; the parts in order."""
    blocks = [np.zeros(x.shape[1], x.dtype) for _ in range(0, len(x), 64)]
    for row, values in enumerate(x):
        blocks[row // 64] = blocks[row // 64] + values
    total = np.zeros(x.shape[1], x.dtype)
    for first in range(0, len(blocks), 16):
        part = np.zeros_like(total)
        for block in blocks[first : first + 16]:
            part = part + block
        total = total + part
    return total


def expected(x: np.ndarray) -> list[np.ndarray]:
    sums = column_sums(x)
    squares = column_sums((x - sums) * (x - sums))
    return [x * squares, sums, np.argmax(x, axis=0)]


CASES = [(F32, 70, 4100), (F32, 513, 3080), (F64, 64, 4096), (F32, 3, 20_000)]


@pytest.mark.parametrize(("dtype", "width", "length"), CASES, ids=str)
def test_whole_rows_have_the_bits_of_the_order(dtype: DType, width: int, length: int) -> None:
    kernel = normalised(dtype, width, length)
    machine = machine_named("x86-64-v3")
    assert machine is not None
    assert done_by_whole_rows(plan_loops(kernel, machine))
    runner = Runner([kernel])
    x = numbers(dtype, (length, width))
    wanted = expected(x)
    for threads in (1, 2, 8):
        found = [np.zeros_like(one) for one in wanted]
        assert runner.run(0, [x.copy(), *found], [], threads=threads) == 0
        for one, another in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one.view(np.uint8), another.view(np.uint8))


def test_short_columns_and_unknown_sizes_stay_column_by_column() -> None:
    machine = machine_named("x86-64-v3")
    assert machine is not None
    kernels = [normalised(F32, 512, 3072), normalised(F32, 1, 4100), reduction("add", F32, 0)]
    assert [done_by_whole_rows(plan_loops(kernel, machine)) for kernel in kernels] == [False] * 3
