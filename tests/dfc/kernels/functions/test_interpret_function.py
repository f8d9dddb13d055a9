"""Primitives and the three forms of control flow, run by NumPy, against Python's exact numbers."""

from fractions import Fraction

import numpy as np
import pytest

from dfc.ir.dtypes import F32, F64, I64, U64
from dfc.kernels.functions import Table
from dfc.kernels.functions.interpret_function import run
from dfc.kernels.terms import Term, fma, function, repeat, where

WORDS = [0, 1, 2, 3, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


def test_products_have_their_upper_half() -> None:
    high = function("high", lambda a, b: a.primitive("mul_high", b), U64, U64)
    a, b = (grid.ravel() for grid in np.meshgrid(np.array(WORDS, np.uint64), np.array(WORDS, np.uint64)))
    assert run(high, a, b)[0].tolist() == [int(x) * int(y) >> 64 for x, y in zip(a, b, strict=True)]


def test_leading_zeros_are_counted() -> None:
    zeros = function("zeros", lambda a: a.primitive("leading_zeros"), U64)
    values = [*WORDS, *(1 << shift for shift in range(64))]
    assert run(zeros, np.array(values, np.uint64))[0].tolist() == [64 - value.bit_length() for value in values]


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_a_fused_multiply_add_rounds_once(dtype) -> None:
    random = np.random.default_rng(3)
    a, b, c = (random.standard_normal(200).astype(dtype.numpy) for _ in range(3))
    c = np.where(np.arange(200) % 2, c, -a * b)  # cancels all but what the rounding lost
    found = run(function("f", lambda a, b, c: fma(a, b, c), dtype, dtype, dtype), a, b, c)[0]
    exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c, strict=True)]
    nearest = np.array([float(value) for value in exact])
    if dtype == F64:
        assert found.tolist() == nearest.tolist()
    else:
        half = np.spacing(np.abs(found)).astype(float) / 2
        assert all(
            abs(Fraction(float(f)) - e) <= Fraction(float(h)) for f, e, h in zip(found, exact, half, strict=True)
        )


def test_where_runs_its_function_only_where_it_is_asked_to() -> None:
    inverse = function("inverse", lambda x: (12 / x.to(F64)).to(I64), I64)
    safe = function("safe", lambda x: where(x.differs(0), inverse, [x], [x - 1])[0], I64)
    assert run(safe, np.array([0, 1, 3, 0, -4], np.int64))[0].tolist() == [-1, 12, 4, -1, -3]


def test_repeat_counts_for_each_element() -> None:
    def step(low: Term, high: Term, factor: Term) -> tuple[Term, Term]:
        return high, low + high * factor

    one = function("step", step, I64, I64, I64)
    many = function("many", lambda n, x: repeat(n, one, [x, x + 1], [x])[0], I64, I64)

    def expected(count: int, x: int) -> int:
        low, high = x, x + 1
        for _ in range(count):
            low, high = high, low + high * x
        return low

    counts, values = np.array([0, 1, 5, -2, 7], np.int64), np.array([3, 1, 2, 9, -1], np.int64)
    assert run(many, counts, values)[0].tolist() == [
        expected(int(n), int(x)) for n, x in zip(counts, values, strict=True)
    ]
    fixed = function("fixed", lambda x: repeat(5, one, [x, x + 1], [x])[1], I64)
    assert run(fixed, values)[0].tolist() == [expected(6, int(x)) for x in values]


def test_tables_are_looked_up() -> None:
    table = Table("primes", (2, 3, 0xFFFFFFFF))
    look = function("look", lambda i: i.look_up(table), I64)
    assert run(look, np.array([2, 0, 1], np.int64))[0].tolist() == [0xFFFFFFFF, 2, 3]
