"""Scans in device code, run lane by lane, have the bits of the order that kernels state, run by NumPy.

Those of the CPU are compared with it in `tests/targets/cpu/compile/elementwise/test_scans.py`."""

from __future__ import annotations

import pytest

from dfc.ir.dtypes import BF16, F16, F32, F64, I32, DType
from dfc.lower.threads.schedule import DEVICE, SIMULATED, Schedule
from dfc_target_cuda.kernels.write_kernel import write_kernel
from tests.support.kernel_texts import run_text
from tests.targets.cpu.compile.elementwise.test_scans import START, arrays_for, prefixes, wanted

LENGTHS = {1: (0, 1, 31, 32, 33, 70), 0: (0, 1, 13)}
"""Of what is scanned: rows, columns."""


def agree(
    function: str, dtype: DType, axis: int, shape: tuple[int, int], schedule: Schedule, *, element_first: bool = False
) -> None:
    kernel = prefixes(function, dtype, (0, 1) if axis == 1 else (1, 0), element_first=element_first)
    arrays = arrays_for(dtype, shape, axis)
    sizes = [shape[1 - axis], shape[axis]]
    expected = wanted(kernel, arrays, sizes)
    text = write_kernel(kernel, "k0", schedule, guarded=True)
    run_text(text, arrays, sizes, schedule)
    assert arrays[-1].tobytes() == expected.tobytes(), f"{function} {sizes}\n{text.source}"


@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16, I32], ids=str)
@pytest.mark.parametrize("axis", [1, 0])
def test_rows_and_columns(dtype: DType, axis: int) -> None:
    for function in START:
        for length in LENGTHS[axis]:
            agree(function, dtype, axis, (2, length) if axis == 1 else (length, 2), SIMULATED)
        agree(function, dtype, axis, (2, 45) if axis == 1 else (45, 2), SIMULATED, element_first=True)


def test_warps_of_a_device() -> None:
    for length in (33, 300):
        agree("add", F32, 1, (2, length), DEVICE)
    agree("add", F32, 0, (40, 3), DEVICE)
