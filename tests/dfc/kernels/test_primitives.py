"""Constants of kernels: the number that the bytes of each element type hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dfc.ir.dtypes import ALL, DType
from dfc.kernels.primitives import number_value

REAL = [dtype for dtype in ALL.values() if not dtype.is_complex]


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_numbers_are_those_of_numpy(dtype: DType) -> None:
    source = np.random.default_rng(7)
    words = source.integers(0, 2 if dtype.is_bool else 256, (200, dtype.size), np.uint8)
    for word in words:
        expected, value = word.view(dtype.numpy)[0], number_value(dtype, word.tobytes())
        if dtype.is_float and math.isnan(value):
            assert np.isnan(expected)
        else:
            assert value == expected
            assert math.copysign(1, value) == math.copysign(1, expected)


def test_numbers_have_the_type_of_their_kind() -> None:
    kinds = {"bool": bool, "signed": int, "unsigned": int, "float": float}
    assert all(type(number_value(dtype, bytes(dtype.size))) is kinds[dtype.kind] for dtype in REAL)
