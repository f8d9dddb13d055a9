"""Many elements at once, against the C library, which rounds each of them once."""

import numpy as np
import pytest
from numpy.typing import NDArray

from dfc.ir.dtypes import F32, F64, DType
from dfc.kernels.functions.fused_multiply_add import FEW, fused_multiply_add

COUNT = 4000
SPECIALS = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324, -1e-310, 1e-45, -1e-45, 3e38, -3e38, 1e308, -1e308]


def words(random: np.random.Generator, dtype: DType) -> list[NDArray]:
    """Any bits at all: most of them far apart, too large or too small."""
    return [random.integers(0, 256, COUNT * dtype.size, np.uint8).view(dtype.numpy) for _ in range(3)]


def specials(random: np.random.Generator, dtype: DType) -> list[NDArray]:
    drawn = [
        np.where(random.random(COUNT) < 0.4, random.choice(SPECIALS, COUNT), random.normal(size=COUNT)) for _ in "abc"
    ]
    return [one.astype(dtype.numpy) for one in drawn]


def cancelling(random: np.random.Generator, dtype: DType) -> list[NDArray]:
    """Of the product remains what its rounding would have lost."""
    a, b = (random.normal(size=COUNT).astype(dtype.numpy) for _ in range(2))
    return [a, b, -a * b]


def halfway(random: np.random.Generator, dtype: DType) -> list[NDArray]:
    """Products halfway between two numbers, and next to nothing that decides."""
    step = np.finfo(dtype.numpy).eps
    a = 1 + random.integers(0, 9, COUNT) * step
    b = 1 + 2.0 ** -random.integers(1, 9, COUNT)
    c = random.choice([-1, 1], COUNT) * 2.0 ** -random.integers(20, 120, COUNT)
    return [one.astype(dtype.numpy) for one in (a, b, c)]


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("draw", [words, specials, cancelling, halfway])
def test_many_elements_have_the_bits_of_few(draw, dtype: DType) -> None:
    with np.errstate(all="ignore"):
        operands = draw(np.random.default_rng(5), dtype)
        many = fused_multiply_add(*operands, dtype)
        pieces = [[one[first : first + FEW] for one in operands] for first in range(0, COUNT, FEW)]
        few = np.concatenate([fused_multiply_add(*piece, dtype) for piece in pieces])
    differs = (many.view(f"u{dtype.size}") != few.view(f"u{dtype.size}")) & ~(np.isnan(many) & np.isnan(few))
    where = np.flatnonzero(differs)[:3]
    assert not differs.any(), [(*(one[where] for one in operands), many[where], few[where])]


def test_operands_are_broadcast() -> None:
    column, row = np.arange(20.0)[:, None], np.arange(30.0)
    assert fused_multiply_add(column, row, 1.0, F64).tolist() == (column * row + 1).tolist()
