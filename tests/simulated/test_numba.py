"""Kernel texts in numba's own simulator, whose lanes run in threads as they please: the same bits as lane by lane."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest

from dfc.ir.dtypes import F32, I32, I64
from dfc.kernels.form import LoopKernel
from dfc.lower.threads.schedule import SIMULATED
from dfc_target_cuda.kernels.write_kernel import write_kernel
from tests.simulated.numba_lanes import in_numba
from tests.support.kernel_texts import run_text
from tests.support.sweeping import WHOLE
from tests.targets.cpu.compile.elementwise.test_kernels import binary, sample
from tests.targets.cpu.compile.elementwise.test_reductions import reduction, whole
from tests.targets.cpu.test_lower_ordered import scan, scatter
from tests.targets.cuda.compile.kernels.test_write_staged import softmax


@pytest.fixture(autouse=True)
def switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


X = sample(F32, 600)
IDS = np.random.default_rng(1).integers(-9, 9, 12).astype(np.int32)
KERNELS: dict[str, tuple[LoopKernel, list[np.ndarray], list[int]]] = {
    "map": (binary("mul", F32), [X, X[::-1].copy(), np.zeros(600, np.float32)], [600]),
    "rows in registers": (softmax(True, {1: 16}), [X, np.zeros(600, np.float32)], [37]),
    "rows in passes": (softmax(True), [X, np.zeros(600, np.float32)], [6, 100]),
    "columns": (reduction("add", F32, 0), [X, np.zeros(6, np.float32)], [6, 100]),
    "several blocks": (whole(("add", "max"), F32, 1), [X, np.zeros((), np.float32), np.zeros((), np.float32)], [600]),
    "a search": (whole(("argmax",), F32, 1, I64), [X, np.zeros((), np.int64)], [600]),
    "a scan": (scan((0, 1)), [X, np.zeros(600, np.float32)], [20, 30]),
    "a scatter": (scatter(I32, True), [IDS, X, np.zeros((9, 50), np.float32)], [50, 12, 9]),
}


@pytest.mark.parametrize("name", KERNELS)
def test_threads_in_any_order_give_the_same_bits(name: str) -> None:
    kernel, arrays, sizes = KERNELS[name]
    text = write_kernel(kernel, "k0", SIMULATED, guarded=True)
    expected = [array.copy() for array in arrays]
    assert not run_text(text, expected, sizes).any()
    for _ in range(3 if WHOLE else 1):
        found = [array.copy() for array in arrays]
        assert not run_text(text, found, sizes, run=in_numba).any()
        for a, b in zip(found, expected, strict=True):
            assert a.tobytes() == b.tobytes()
