"""Reductions in device code, run lane by lane, have the bits of the order that kernels state, run by NumPy.

Those of the CPU are compared with it in `tests/targets/cpu/test_reduction_order.py`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dfc.ir.dims import Symbol
from dfc.ir.dtypes import BF16, F32, F64, DType
from dfc.kernels.body import Reduced
from dfc.kernels.form import LoopKernel, Reduction, Stage
from dfc.lower.threads.schedule import DEVICE, SIMULATED, Schedule
from dfc_target_cuda.kernels.write_kernel import write_kernel
from tests.support.kernel_arrays import run_loops
from tests.support.kernel_texts import run_text
from tests.support.programs import KernelMaker
from tests.support.sweeping import few
from tests.targets.cpu.compile.elementwise.test_reductions import reduction, softmax, whole
from tests.targets.cpu.test_reduction_order import numbers, short_rows

ROWS = [(2, length) for length in (0, 1, 7, 16, 63, 64, 65, 130)] + [(1, 600), (1, 8300)]
COLUMNS = [(length, 2) for length in (0, 1, 63, 64, 65, 130)] + [(1100, 1)]


def agree(
    kernel: LoopKernel,
    arrays: Sequence[np.ndarray],
    sizes: Sequence[int],
    shapes: Sequence[Sequence[int]],
    schedule: Schedule = SIMULATED,
) -> None:
    wanted, given = ([array.copy() for array in arrays] for _ in range(2))
    shaped = [array.reshape(shape) for array, shape in zip(wanted, shapes, strict=True)]
    run_loops(kernel, shaped, {Symbol(f"d{number}"): size for number, size in enumerate(sizes)})
    text = write_kernel(kernel, "k0", schedule, guarded=True)
    run_text(text, given, sizes, schedule)
    for found, expected in zip(given, wanted, strict=True):
        assert found.tobytes() == expected.tobytes(), f"{sizes}\n{text.source}"


def rows(combine: str, dtype: DType, over: int, shape: tuple[int, int], schedule: Schedule = SIMULATED) -> None:
    out = np.zeros(shape[1 - over], dtype.numpy)
    sizes = list(shape) if over == 1 else list(shape[::-1])
    agree(reduction(combine, dtype, over), [numbers(dtype, shape), out], sizes, [shape, out.shape], schedule)


@pytest.mark.parametrize("dtype", few([F32, F64, BF16], 2), ids=str)
def test_rows_and_columns(dtype: DType) -> None:
    for combine in ("add", "max"):
        for shape in ROWS:
            rows(combine, dtype, 1, shape)
        for shape in COLUMNS:
            rows(combine, dtype, 0, shape)


def test_rows_of_few_elements() -> None:
    for length in (2, 3, 5):
        for count in (1, 33):
            shape, out = (count, length), [np.zeros(count, np.float32) for _ in range(2)]
            agree(short_rows(F32, length), [numbers(F32, shape), *out], [count], [shape, (count,), (count,)])


def test_whole_arrays_by_one_block_and_by_several() -> None:
    for count in (0, 1, 100, 9000, 40_000):
        outs = [np.zeros(1, np.float32), np.zeros(1, np.float32)]
        agree(whole(("add", "max"), F32, 1), [numbers(F32, (count,)), *outs], [count], [(count,), (), ()])


@pytest.mark.parametrize("length", [1, 10, 12, 40, 64, 100])
def test_softmax_in_registers_and_in_passes(length: int) -> None:
    for kernel in (softmax(True, {1: length}), softmax(True), softmax(False)):
        shape = (3, length) if kernel != softmax(False) else (length, 3)
        x = numbers(F32, shape)
        agree(kernel, [x, np.zeros_like(x)], [3, length], [shape, shape])


def test_axes_that_are_not_neighbours() -> None:
    k = KernelMaker(3)
    x = k.load(F32, 1, 0, 2)
    fold = Stage((1, 2), k.take_body(), (Reduction("add", x, F32),))
    out = k.store(k.body.append(Reduced(0, 0), (), F32), 0)
    kernel = k.loops(1, fold, Stage((), k.take_body(), (), (out,)))
    for shape in ((2, 3, 4), (5, 1, 33), (9, 2, 64), (20, 2, 70), (0, 2, 3), (3, 2, 0)):
        sizes = [shape[1], shape[0], shape[2]]
        agree(kernel, [numbers(F32, shape), np.zeros(shape[1], np.float32)], sizes, [shape, (shape[1],)])


def test_warps_and_blocks_of_a_device() -> None:
    for shape in few(((3, 10), (2, 100), (1, 1000), (1, 9000)), 2):
        rows("add", F32, 1, shape, DEVICE)
    rows("add", F32, 0, (300, 3), DEVICE)
    for length in few((10, 100, 1000, 128), 2):
        x = numbers(F32, (2, length))
        agree(softmax(True, {1: length}), [x, np.zeros_like(x)], [2], [x.shape, x.shape], DEVICE)
    outs = [np.zeros(1, np.float32), np.zeros(1, np.float32)]
    agree(whole(("add", "max"), F32, 1), [numbers(F32, (20_000,)), *outs], [20_000], [(20_000,), (), ()], DEVICE)
