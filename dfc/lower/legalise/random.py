"""Counter-based random numbers: the definition in `dfc.ops.creation.philox`, one element at a time.

Guarantees the same words as the definition; uniform numbers are equal to it to the bit, normal ones within the bounds
of the logarithm and the circle functions. Numbers of f16 and bf16 come as the f32 that holds them.
"""

from __future__ import annotations

import math
from functools import cache

from dfc.ir.dtypes import F32, F64, I32, I64, U64, DType
from dfc.kernels.functions import Function
from dfc.kernels.terms import Term, call, function, repeat
from dfc.lower.legalise.formats import FORMATS
from dfc.lower.legalise.halves import rounded
from dfc.lower.legalise.logarithm import log
from dfc.lower.legalise.trigonometric import shifted_sine

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_PHILOX_ROUNDS = 10
_LOW = 0xFFFFFFFF
_UNIFORM_BITS = {"f32": 24, "f16": 11, "bf16": 8}


@cache
def random_function(distribution: str, dtype: DType) -> Function:
    """`uniform` or `normal`: (element i64, key0, key1, draw u64) -> the number, in the register type."""
    wide = dtype == F64

    def draw(element: Term, key0: Term, key1: Term, draw: Term) -> Term:
        number = element.to(U64)
        words = call(_words(), number >> (1 if wide else 2), key0, key1, draw)
        if distribution == "uniform":
            return _uniform_double(number, words) if wide else _uniform_single(number, words, _UNIFORM_BITS[dtype.name])
        return _normal_double(number, words) if wide else rounded(_normal_single(number, words), dtype)

    return function(f"philox_{distribution}_{dtype}", draw, I64, U64, U64, U64)


@cache
def _words() -> Function:
    """The four words of a block, each below 2^32."""

    def words(block: Term, key0: Term, key1: Term, draw: Term) -> tuple[Term, ...]:
        key = key0 ^ key1
        state = [block & _LOW, block >> 32, draw & _LOW, draw >> 32, key & _LOW, key >> 32]
        return repeat(_PHILOX_ROUNDS, _round(), state)[:4]

    return function("philox_words", words, U64, U64, U64, U64)


@cache
def _round() -> Function:
    """Words are held in 64 bits, where their products fit."""

    def advance(c0: Term, c1: Term, c2: Term, c3: Term, k0: Term, k1: Term) -> tuple[Term, ...]:
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        left, right = (second >> 32) ^ c1 ^ k0, (first >> 32) ^ c3 ^ k1
        return left, second & _LOW, right, first & _LOW, (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW

    return function("philox_advance", advance, U64, U64, U64, U64, U64, U64)


def _bit(number: Term, bit: int) -> Term:
    return (number & (1 << bit)).differs(0)


def _single(whole: Term, bits: int) -> Term:
    """A whole number below 2^31, divided by 2^bits."""
    return whole.to(I32).to(F32) * 2.0**-bits


def _double(whole: Term) -> Term:
    return whole.to(I64).to(F64) * 2.0**-53


def _wide(low: Term, high: Term) -> Term:
    """The upper 53 bits of two words."""
    return (low | (high << 32)) >> 11


def _uniform_single(number: Term, w: tuple[Term, ...], bits: int) -> Term:
    odd, upper = _bit(number, 0), _bit(number, 1)
    word = upper.choose(odd.choose(w[3], w[2]), odd.choose(w[1], w[0]))
    return _single(word >> (32 - bits), bits)


def _uniform_double(number: Term, w: tuple[Term, ...]) -> Term:
    odd = _bit(number, 0)
    return _double(_wide(odd.choose(w[2], w[0]), odd.choose(w[3], w[1])))


def _normal_single(number: Term, w: tuple[Term, ...]) -> Term:
    upper = _bit(number, 1)
    first, second = upper.choose(w[2], w[0]) >> 8, upper.choose(w[3], w[1]) >> 8
    # the sum is made of whole numbers: 2^24 is exact in single precision
    return _box_muller(number, _single(first + 1, 24), _single(second, 24))


def _normal_double(number: Term, w: tuple[Term, ...]) -> Term:
    return _box_muller(number, _double(_wide(w[0], w[1]) + 1), _double(_wide(w[2], w[3])))


def _box_muller(number: Term, u: Term, t: Term) -> Term:
    """Even elements take the cosine, odd ones the sine: it is one function, a quarter of a turn apart."""
    radius = (log(u) * -2.0).primitive("sqrt")
    quarter = _bit(number, 0).choose(number.builder.number(0, FORMATS[u.dtype].integer), 1)
    return radius * shifted_sine(t * (2 * math.pi), quarter, large=False)
