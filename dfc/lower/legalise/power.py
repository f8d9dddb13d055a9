"""pow of floats, with the special cases of C99.

|x|^y = exp(y log|x|). Single precision computes it in double. Double precision carries log|x| and its product with y as
unevaluated sums of two numbers, to about 2^-64 relative.
"""

from __future__ import annotations

from dfc.ir.dtypes import F32, F64
from dfc.kernels.math_coefficients import LN2_EXACT, LN2_F64, LOG2_E, POW_F64, TWO_THIRDS
from dfc.kernels.terms import Term, multiply_add
from dfc.lower.legalise.double_words import Pair, fast_two_sum, two_product, two_sum
from dfc.lower.legalise.exponential import exp, exp_minus_one
from dfc.lower.legalise.formats import clamp, horner, is_single, rounded_to_scale, scale
from dfc.lower.legalise.logarithm import log, split_exponent

_LIMIT = 800.0
_INFINITY, _NAN = float("inf"), float("nan")


def power(x: Term, y: Term) -> Term:
    magnitude = abs(x)
    result = _single(magnitude, y) if is_single(x) else _double(magnitude, y)
    return _signs_and_nan(x, y, magnitude.equals(1.0).choose(1.0, result))


def _single(magnitude: Term, y: Term) -> Term:
    return exp(y.to(F64) * log(magnitude.to(F64))).to(F32)


def _double(magnitude: Term, y: Term) -> Term:
    high, low = _logarithm(magnitude)
    product, error = two_product(y, high)
    error = multiply_add(y, low, error)
    error = abs(product).less(_LIMIT).choose(error, 0.0)
    return _exp_of_sum(clamp(product, -_LIMIT, _LIMIT), error)


def _exp_of_sum(high: Term, low: Term) -> Term:
    whole, word = rounded_to_scale(high, LOG2_E)
    r = multiply_add(whole, -LN2_F64[0], high)
    r = r + multiply_add(whole, -LN2_F64[1], low)
    return scale(exp_minus_one(r) + 1.0, whole, word)


def _logarithm(x: Term) -> Pair:
    """log of a non-negative number: 0 and infinity give infinities without a low part."""
    exponent, f = split_exponent(x)
    high, low = _log_of_one_plus(f)
    scaled, error = two_product(exponent, x.like(LN2_EXACT[0]))
    error = multiply_add(exponent, LN2_EXACT[1], error)
    total, rest = two_sum(scaled, high)
    high, low = fast_two_sum(total, rest + (error + low))
    zero, infinity = x.equals(0.0), x.equals(_INFINITY)
    return zero.choose(-_INFINITY, infinity.choose(x, high)), (zero | infinity).choose(0.0, low)


def _log_of_one_plus(f: Term) -> Pair:
    """2 s + s^3 (2/3 + s^2 P(s^2)) with s = f / (2 + f), as a sum of two."""
    s, s_low = _ratio(f)
    z, z_low = two_product(s, s)
    z_low = multiply_add(s + s, s_low, z_low)
    c, c_low = two_sum(f.like(TWO_THIRDS[0]), z * horner(z, POW_F64))
    c_low = c_low + TWO_THIRDS[1]
    cube, cube_low = two_product(s, z)
    cube_low = cube_low + multiply_add(s, z_low, s_low * z)
    w, w_low = two_product(cube, c)
    w_low = w_low + multiply_add(cube, c_low, cube_low * c)
    high, low = fast_two_sum(s + s, w)
    return high, low + ((s_low + s_low) + w_low)


def _ratio(f: Term) -> Pair:
    """f / (2 + f)."""
    divisor, divisor_low = fast_two_sum(f.like(2.0), f)
    s = f / divisor
    product, error = two_product(s, divisor)
    rest = ((f - product) - error) - s * divisor_low
    return s, rest / divisor


def _signs_and_nan(x: Term, y: Term, result: Term) -> Term:
    whole = y.primitive("trunc").equals(y)
    half = y * 0.5
    odd = whole & ~half.primitive("trunc").equals(half)
    result = (odd & x.bits().less(0)).choose(-result, result)
    below = x.less(0.0) & x.greater(-_INFINITY)
    result = (below & ~whole).choose(_NAN, result)
    result = (x.is_nan() | y.is_nan()).choose(x + y, result)
    return (y.equals(0.0) | x.equals(1.0)).choose(1.0, result)
