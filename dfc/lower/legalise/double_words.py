"""Unevaluated sums: numbers of twice the precision as a high and a low part, and sums and products without an error.

Sources: Dekker, "A floating-point technique for extending the available precision" (1971); Knuth, TAOCP 2, 4.2.2.
"""

from __future__ import annotations

from functools import cache

from dfc.ir.dtypes import F32, F64, DType
from dfc.kernels.functions import Function
from dfc.kernels.terms import Term, call, fma, function
from dfc.lower.legalise.formats import FORMATS

Pair = tuple[Term, Term]
"""High and low part."""


def two_sum(a: Term, b: Term) -> Pair:
    """a + b exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fast_two_sum(a: Term, b: Term) -> Pair:
    """a + b exactly, for |a| >= |b|."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Term, b: Term) -> Pair:
    """a * b exactly (no overflow, no underflow)."""
    product = a * b
    return product, call(product_error_function(a.dtype), a, b, product)[0]


@cache
def product_error_function(dtype: DType) -> Function:
    """a * b - product, where `product` is a * b rounded."""
    return function(f"{dtype}_product_error", lambda a, b, product: fma(a, b, -product), dtype, dtype, dtype)


@cache
def split_product_error_function(dtype: DType) -> Function:
    """The same for machines without fused multiply-add, by factors cut in two (Dekker): to 2^-104 of the product."""

    def product_error(a: Term, b: Term, product: Term) -> Term:
        (a1, a0), (b1, b0) = _halves(a), _halves(b)
        error = a1 * b1 - product
        return error + a1 * b0 + a0 * b1 + a0 * b0

    return function(f"{dtype}_split_product_error", product_error, dtype, dtype, dtype)


def _halves(x: Term) -> Pair:
    """x cut into two numbers of half the mantissa."""
    low_bits = (FORMATS[x.dtype].mantissa + 1) // 2 + 1
    high = (x.bits() & -(1 << low_bits)).bits()
    return high, x - high


@cache
def fma_by_doubles_function() -> Function:
    """fma of f32 for machines without the instruction: the product is exact in f64, the sum is rounded such that
    rounding it once more is as rounding the exact one."""

    def fused(a: Term, b: Term, c: Term) -> Term:
        return _sum_rounded_to_odd(a.to(F64) * b.to(F64), c.to(F64)).to(F32)

    return function("f32_fma_by_doubles", fused, F32, F32, F32)


def _sum_rounded_to_odd(a: Term, b: Term) -> Term:
    """a + b; where inexact, the neighbour whose last bit is set (Boldo and Melquiond 2008)."""
    total, error = two_sum(a, b)
    bits = total.bits()
    inexact = error.less(0.0) | error.greater(0.0)
    even = (bits & 1).equals(0)
    step = (bits ^ error.bits()).less(0).choose(bits.like(-1), 1)
    return (inexact & even).choose(bits + step, bits).bits()
