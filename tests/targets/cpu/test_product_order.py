"""Native products have the bits of the order that the kernel form states, run by NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.ir.dtypes import F32, F64, DType
from dfc_target_cpu.machine import detect_host
from tests.support.product_arrays import product_in_order
from tests.support.programs import Runner
from tests.targets.cpu.compile.elementwise.test_kernels import sample
from tests.targets.cpu.compile.product.test_contraction import plain, turned

SIZES = ((5, 7, 3), (17, 33, 100), (8, 3, 2100), (5, 7, 0))
"""The third is deeper than any block of depth."""


HOST = detect_host()


@pytest.mark.skipif(
    HOST is None or "fma" not in HOST.llvm_features, reason="without fused multiply-add other bits are stated"
)
@pytest.mark.parametrize("isa", ["", "x86-64-v3"])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_each_sum_is_one_chain_of_fused_multiply_adds(dtype: DType, isa: str) -> None:
    layouts = [(a, b) for a in (False, True) for b in (False, True)]
    runner = Runner([plain(dtype, dtype, *layout) for layout in layouts], isa=isa)
    for m, n, k in SIZES:
        a, b = sample(dtype, m * k, 1).reshape(m, k), sample(dtype, k * n, 2).reshape(k, n)
        expected = product_in_order(a, b, dtype)
        for number, (a_turned, b_turned) in enumerate(layouts):
            for threads in (1, 2):
                out = np.zeros((m, n), dtype.numpy)
                arrays = [turned(a, a_turned), turned(b, b_turned), out]
                assert runner.run(number, arrays, [m, n, k], threads=threads) == 0
                assert out.tobytes() == expected.tobytes(), (m, n, k, layouts[number])
