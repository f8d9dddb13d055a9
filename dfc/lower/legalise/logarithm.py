"""log, log2, log10 and log1p.

x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)). Single precision: f - f^2/2 + f^3 P(f). Double precision:
s = f / (2 + f) and log(1 + f) = f - f^2/2 + s (f^2/2 + s^2 P(s^2)), which loses nothing near 1.
"""

from __future__ import annotations

from dfc.kernels.math_coefficients import LN2_F32, LN2_F64, LOG_F32, LOG_F64
from dfc.kernels.terms import Term, multiply_add
from dfc.lower.legalise.formats import FORMATS, horner, integer_of, is_single, number_of, power_of_two

_SQRT_HALF_BITS = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}
_LOG2_E, _LOG10_E, _LOG10_2 = 1.4426950408889634, 0.4342944819032518, 0.3010299956639812
_INFINITY, _NAN = float("inf"), float("nan")


def log(x: Term) -> Term:
    exponent, f = split_exponent(x)
    return _specials(x, _natural(exponent, f))


def log2(x: Term) -> Term:
    exponent, f = split_exponent(x)
    return _specials(x, _log_of_one_plus(f, f.like(0.0)) * _LOG2_E + exponent)


def log10(x: Term) -> Term:
    exponent, f = split_exponent(x)
    fraction = _log_of_one_plus(f, f.like(0.0)) * _LOG10_E
    return _specials(x, multiply_add(exponent, _LOG10_2, fraction))


def log1p(x: Term) -> Term:
    """log(u + c) with u = 1 + x rounded and c what the rounding lost, scaled along with u."""
    u = 1.0 + x
    lost = x.greater(1.0).choose(1.0 - (u - x), x - (u - 1.0))
    exponent, f = split_exponent(u)
    power = integer_of(-exponent)
    scale = power_of_two(power.greater(-100).choose(power, -100), x.dtype)
    result = _natural(exponent, multiply_add(lost, scale, f))
    return _specials(u, x.equals(0.0).choose(x, result))


def split_exponent(x: Term) -> tuple[Term, Term]:
    """e (as a number) and f; for positive finite x, subnormal ones too. NaN goes in, anything comes out."""
    form = FORMATS[x.dtype]
    tiny = x.less(form.smallest_normal)
    half_root = _SQRT_HALF_BITS[form.bits]
    shifted = tiny.choose(x * 2.0 ** (form.mantissa + 2), x).bits() - half_root
    exponent = shifted >> form.mantissa
    mantissa = shifted & ((1 << form.mantissa) - 1)
    f = (mantissa + half_root).bits() - 1.0
    correction = tiny.choose(x.like(-(form.mantissa + 2.0)), 0.0)
    return number_of(exponent, x.dtype) + correction, f


def _natural(exponent: Term, f: Term) -> Term:
    high, low = LN2_F32 if is_single(f) else LN2_F64
    return multiply_add(exponent, high, _log_of_one_plus(f, exponent * low))


def _log_of_one_plus(f: Term, small: Term) -> Term:
    """log(1 + f) + small."""
    square = f * f
    if is_single(f):
        tail = multiply_add(square * f, horner(f, LOG_F32), small)
        return f + multiply_add(square, -0.5, tail)
    s = f / (2.0 + f)
    half_square = square * 0.5
    z = s * s
    tail = multiply_add(s, multiply_add(z, horner(z, LOG_F64), half_square), small)
    return f - (half_square - tail)


def _specials(x: Term, result: Term) -> Term:
    """log(+inf) = inf, log(NaN) = NaN, log(0) = -inf, log(negative) = NaN."""
    result = x.at_least(_INFINITY).choose(x, result)
    result = x.is_nan().choose(x, result)
    result = x.equals(0.0).choose(-_INFINITY, result)
    return x.less(0.0).choose(_NAN, result)
