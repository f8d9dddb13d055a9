"""Random elements against their definition in NumPy."""

import numpy as np

from dfc.ir.dtypes import BF16, F16, F32, F64, U64, DType
from dfc.kernels.body import Philox
from dfc.kernels.form import LoopKernel
from dfc.ops.creation.philox import numbers
from tests.support.programs import KernelMaker, Runner

KEY = (0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210)
DRAW = 0x1_0000_0003


def draw(distribution: str, dtype: DType) -> LoopKernel:
    k = KernelMaker(1)
    words = [k.body.number(word, U64) for word in (*KEY, DRAW)]
    value = k.body.append(Philox(distribution), (k.body.axis(0), *words), dtype)
    return k.map(k.store(value, 0))


def test_uniform_numbers_are_bit_equal() -> None:
    types = (F32, F64, F16, BF16)
    runner = Runner([draw("uniform", d) for d in types])
    for number, dtype in enumerate(types):
        for count in (1, 7, 1001):
            out = np.zeros(count, dtype.numpy)
            assert runner.run(number, [out], [count]) == 0
            assert out.tobytes() == numbers("uniform", dtype, (count,), KEY, DRAW).tobytes(), dtype


def test_normal_numbers_are_close() -> None:
    types = (F32, F64, F16)
    runner = Runner([draw("normal", d) for d in types])
    for number, dtype in enumerate(types):
        out = np.zeros(5001, dtype.numpy)
        assert runner.run(number, [out], [5001]) == 0
        expected = numbers("normal", dtype, (5001,), KEY, DRAW).astype(np.float64)
        eps = float(np.finfo(dtype.numpy).eps)
        assert np.all(np.abs(out.astype(np.float64) - expected) <= 8 * eps * np.maximum(np.abs(expected), 1)), dtype
        assert abs(out.astype(np.float64).std() - 1) < 0.05
