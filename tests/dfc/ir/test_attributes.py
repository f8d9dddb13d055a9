"""Literals of single numbers beside what NumPy makes of the same numbers."""

from __future__ import annotations

import math
import random
import struct
import warnings

import numpy as np
import pytest

from dfc.ir.attributes import Literal
from dfc.ir.dtypes import ALL, BF16, BOOL, F32, F64, I32, DType

NUMBERS = [
    *(0, 1, -1, 127, -128, 128, 255, 2**31 - 1, 2**31, 2**53, 2**53 + 1, 2**24 + 1, -(2**63), 2**63 - 1),
    *(0.0, -0.0, 0.1, -0.5, 1e-45, 5e-324, 3.4028235e38, 3.5e38, 1e300, math.inf, -math.inf, math.nan),
    *(True, False, 65504.0, 65520.0, 1.0000000596046448, 16777217.0),
]


def by_numpy(number: float, dtype: DType) -> Literal:
    return Literal(np.asarray(number).astype(dtype.numpy))


@pytest.mark.parametrize("dtype", ALL.values(), ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_number_has_the_bits_that_numpy_gives_it(dtype: DType) -> None:
    chance = random.Random(20261)
    bits = [struct.unpack("<d", chance.randbytes(8))[0] for _ in range(300)]
    whole = [chance.getrandbits(chance.randrange(1, 63)) * chance.choice((1, -1)) for _ in range(300)]
    near = [chance.uniform(-3, 3) for _ in range(300)]
    for number in [*NUMBERS, *bits, *whole, *near]:
        made, expected = Literal.scalar(number, dtype), by_numpy(number, dtype)
        assert made == expected and hash(made) == hash(expected), number
        assert made.array.tobytes() == expected.array.tobytes(), number
        assert (made.array.dtype, made.array.shape, made.shape) == (dtype.numpy, (), ()), number


def test_the_array_of_a_number_may_not_be_changed() -> None:
    array = Literal.scalar(1.5, F32).array
    assert array is not None and not array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        array[()] = 2


def test_types_and_signs_of_numbers_are_told_apart() -> None:
    assert Literal.scalar(1, F32) != Literal.scalar(1, F64)
    assert Literal.scalar(0.0, F32) != Literal.scalar(-0.0, F32)
    assert Literal.scalar(1, I32) == Literal(np.array(1, np.int32))
    assert repr(Literal.scalar(True, BOOL)) == repr(by_numpy(True, BOOL))
    assert Literal.scalar(0.1, BF16) == by_numpy(0.1, BF16)


def test_what_does_not_fit_is_as_loud_as_in_numpy() -> None:
    for number, dtype in ((1e300, F32), (math.nan, I32)):
        with warnings.catch_warnings(record=True) as expected:
            warnings.simplefilter("always")
            by_numpy(number, dtype)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            Literal.scalar(number, dtype)
        assert [str(each.message) for each in found] == [str(each.message) for each in expected] != []
