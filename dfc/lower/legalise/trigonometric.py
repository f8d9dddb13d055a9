"""sin and cos.

x = n pi/2 + r with |r| <= pi/4. Up to `LARGE`, n pi/2 is subtracted in parts of 31 bits whose products with n are exact
(in double precision also for single, with a low part of r for double). Beyond, as many bits of 2/pi are multiplied as
the argument needs (Payne and Hanek 1983). Then sin or cos of r by the parity of n, negated by its second bit.
"""

from __future__ import annotations

from functools import cache

from dfc.ir.dtypes import F32, F64, I32, I64, U64
from dfc.kernels.functions import Function, Table
from dfc.kernels.math_coefficients import (
    COS_F32,
    COS_F64,
    HALF_PI,
    SIN_F32,
    SIN_F64,
    TWO_OVER_PI,
    TWO_OVER_PI_WORDS,
)
from dfc.kernels.terms import Term, function, multiply_add, where
from dfc.lower.legalise.double_words import two_sum
from dfc.lower.legalise.formats import FORMATS, horner, is_single, nearest, power_of_two

LARGE = 2.0**20
_SKIPPED_BITS = 64
TWO_OVER_PI_TABLE = Table("two_over_pi", (0,) * (_SKIPPED_BITS // 32) + tuple(TWO_OVER_PI_WORDS))
"""Words of zeros stand before the point, for arguments whose bits begin there."""


def sin(x: Term) -> Term:
    """sin(-0) is -0, so zero is returned as it is."""
    return x.equals(0.0).choose(x, shifted_sine(x, x.builder.number(0, FORMATS[x.dtype].integer)))


def cos(x: Term) -> Term:
    return shifted_sine(x, x.builder.number(1, FORMATS[x.dtype].integer))


def shifted_sine(x: Term, quadrants: Term, *, large: bool = True) -> Term:
    """sin(x + quadrants * pi/2), but +0 for x = -0. `large`: whether |x| may be `LARGE` or more."""
    if is_single(x):
        r, n = _reduce_single(x, large)
        n = n + quadrants
        sines, cosines = _sine_single(r), _cosine_single(r)
    else:
        high, low, n = _reduce_double(x, large)
        n = n + quadrants
        sines, cosines = _sine_double(high, low), _cosine_double(high, low)
    odd = (n & 1).differs(0)
    sign = (n & 2) << (FORMATS[x.dtype].bits - 2)
    return (odd.choose(cosines, sines).bits() ^ sign).bits()


def _reduce_single(x: Term, large: bool) -> tuple[Term, Term]:
    """r rounded once from double precision, and n."""
    x = x.to(F64)
    whole, n = nearest(x, TWO_OVER_PI)
    r = multiply_add(whole, -HALF_PI[0], x)
    r = multiply_add(whole, -(HALF_PI[1] + HALF_PI[2]), r)
    if large:
        r, n = where(_is_large(x), reduce_half_pi(), [x], [r, n])
    return r.to(F32), n.to(I32)


def _reduce_double(x: Term, large: bool) -> tuple[Term, Term, Term]:
    """r as high and low part, and n."""
    whole, n = nearest(x, TWO_OVER_PI)
    r = multiply_add(whole, -HALF_PI[0], x)
    r, error = two_sum(r, whole * -HALF_PI[1])
    r, second = two_sum(r, whole * -HALF_PI[2])
    error = multiply_add(whole, -HALF_PI[3], error + second)
    high, low = two_sum(r, error)
    if not large:
        return high, low, n
    beyond = _is_large(x)
    high, n = where(beyond, reduce_half_pi(), [x], [high, n])
    return high, beyond.choose(0.0, low), n


def _is_large(x: Term) -> Term:
    magnitude = abs(x)
    return magnitude.at_least(LARGE) & magnitude.less(float("inf"))


@cache
def reduce_half_pi() -> Function:
    """r and n of a finite number of at least `LARGE`.

    With |x| = M 2^E, only the bits of 2/pi from 2^(2-E) on matter modulo 4. M times the next 192 of them, modulo 2^192,
    is x 2/pi modulo 4 in units of 2^-190; its upper 128 bits are kept, in two words.
    """

    def reduce(x: Term) -> tuple[Term, Term]:
        bits = abs(x).bits().to(U64)
        mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
        position = (bits >> 52).to(I64) + (_SKIPPED_BITS - 2 - 1075)
        high, low = _turns(mantissa, position >> 5, (position & 31).to(U64))
        size, quarters, negative = _from_turns(high, low)
        n, below = quarters.to(I64), x.less(0.0)
        return (below ^ negative).choose(-size, size), below.choose(0 - n, n)

    return function("reduce_half_pi", reduce, F64)


def _turns(mantissa: Term, first: Term, shift: Term) -> tuple[Term, Term]:
    """M 2^E 2/pi modulo 4, in units of 2^-126. 64 bits of 2/pi each begin `shift` bits behind a word."""
    words = [(first + number if number else first).look_up(TWO_OVER_PI_TABLE) for number in range(7)]
    chunks: list[Term] = []
    for number in (0, 2, 4):
        pair = (words[number] << 32) | words[number + 1]
        chunks.append((pair << shift) | (words[number + 2] >> (32 - shift)))
    product = mantissa * chunks[1]
    low = product + mantissa.primitive("mul_high", chunks[2])
    carry = low.less(product).choose(low.like(1), 0)
    return mantissa * chunks[0] + mantissa.primitive("mul_high", chunks[1]) + carry, low


def _from_turns(high: Term, low: Term) -> tuple[Term, Term, Term]:
    """From the turns: |r|, the nearest quarter, and whether it lies above: the rest times pi/2."""
    quarters = (high + (1 << 61)) >> 62
    high = high - (quarters << 62)
    negative = high.at_least(1 << 63)
    minus = ~low + 1
    high = negative.choose(~high + minus.equals(0).choose(low.like(1), 0), high)
    low = negative.choose(minus, low)
    upper = high.primitive("leading_zeros")
    zeros = high.equals(0).choose(low.primitive("leading_zeros") + 64, upper)
    zeros = zeros.less(127).choose(zeros, 127)
    number = (_upper_word(high, low, zeros) >> 1).to(I64).to(F64)
    scaled = number * power_of_two(-61 - zeros.to(I64), F64)
    return scaled * (HALF_PI[0] + HALF_PI[1]), quarters, negative


def _upper_word(high: Term, low: Term, shift: Term) -> Term:
    """The upper 64 bits of a number of 128 shifted left by 0 .. 127."""
    within = shift & 63
    carried = within.equals(0).choose(low.like(0), low >> ((64 - within) & 63))
    return shift.at_least(64).choose(low << within, (high << within) | carried)


def _sine_single(r: Term) -> Term:
    z = r * r
    return multiply_add(z * r, horner(z, SIN_F32), r)


def _cosine_single(r: Term) -> Term:
    z = r * r
    return multiply_add(z, multiply_add(z, horner(z, COS_F32), -0.5), 1.0)


def _sine_double(high: Term, low: Term) -> Term:
    """sin(high) + low cos(high), the latter cut after its second term."""
    z = high * high
    cosine = multiply_add(z, -0.5, 1.0)
    return high + multiply_add(low, cosine, z * high * horner(z, SIN_F64))


def _cosine_double(high: Term, low: Term) -> Term:
    """1 - z/2 is kept as a sum of two."""
    z = high * high
    half = z * 0.5
    first = 1.0 - half
    error = (1.0 - first) - half
    tail = z * z * horner(z, COS_F64)
    return first + (error + (tail - high * low))
