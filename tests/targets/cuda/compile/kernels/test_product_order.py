"""Products in device code, run lane by lane, have the bits of the order that the kernel form states, run by NumPy.

Those of the CPU are compared with it in `tests/targets/cpu/test_product_order.py`."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dfc.ir.dtypes import F32, F64, DType
from dfc.lower.threads.schedule import SIMULATED, Schedule
from dfc.lower.threads.tiles import tiled
from dfc_target_cuda.kernels.write_kernel import write_kernel
from tests.support.kernel_texts import run_text
from tests.support.product_arrays import product_in_order
from tests.targets.cpu.compile.elementwise.test_kernels import sample
from tests.targets.cuda.compile.kernels.test_write_contract import fixed

MANY_BLOCKS = dataclasses.replace(SIMULATED, blocks=64)


@pytest.mark.parametrize(
    ("shape", "schedule", "parts"),
    [
        ((9, 17, 19), SIMULATED, 1),
        ((5, 7, 3), SIMULATED, 1),
        ((3, 5, 77), MANY_BLOCKS, 4),
        ((3, 5, 45), MANY_BLOCKS, 2),
    ],
)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_sums_are_chains_of_fused_multiply_adds_in_parts(
    dtype: DType, shape: tuple[int, int, int], schedule: Schedule, parts: int
) -> None:
    m, n, k = shape
    kernel = fixed(shape, dtype, dtype, False, False, False)
    product = tiled(kernel, schedule)
    assert product is not None
    assert product.splits.constant == parts
    a, b = sample(dtype, m * k, 1).reshape(m, k), sample(dtype, k * n, 2).reshape(k, n)
    out = np.zeros((m, n), dtype.numpy)
    run_text(write_kernel(kernel, "k0", schedule, guarded=True), [a, b, out], (), schedule)
    expected = product_in_order(a, b, dtype, parts=parts, step=product.tiling.k)
    assert out.tobytes() == expected.tobytes()
