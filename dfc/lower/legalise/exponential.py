"""exp and its relatives: exp2, expm1, sigmoid, tanh.

x = n log 2 + r with |r| <= log(2) / 2; exp(r) = 1 + r + r^2 P(r); then the exponent is put back in two steps, which
makes subnormal results right. Limits are chosen such that overflow and underflow come out of that multiplication.
A division takes as long as all the rest of a function in single precision, so sigmoid has none there.
"""

from __future__ import annotations

from dfc.kernels.math_coefficients import EXP_F32, EXP_F64, LN2_EXACT, LN2_F32, LN2_F64, LOG2_E
from dfc.kernels.terms import Term, multiply_add
from dfc.lower.legalise.formats import (
    FORMATS,
    clamp,
    horner,
    is_single,
    power_of_word,
    rounded,
    rounded_to_scale,
    scale,
)


def exp(x: Term) -> Term:
    low, high = (-104.0, 89.0) if is_single(x) else (-746.0, 710.0)
    x = clamp(x, low, high)
    whole, word = rounded_to_scale(x, LOG2_E)
    return scale(exp_reduced(_reduced(x, whole)), whole, word)


def exp_of_negative(x: Term) -> Term:
    """exp for arguments known to lie between the lower limit of `exp` and 0, to the bit: with exp(r) in units that are
    large enough for one multiplication by a power of two to reach subnormal numbers. The units lie in the coefficients,
    so a shift and a multiplication are left of `scale`."""
    form, shift = FORMATS[x.dtype], 25 if is_single(x) else 55  # odd, as the bias is
    whole, word = rounded(x, LOG2_E, form.bias + shift)
    return exp_reduced(_reduced(x, whole), 2.0**-shift) * power_of_word(word, x.dtype)


def exp_of_nonpositive(x: Term) -> Term:
    """exp for arguments known not to be positive, to the bit: what is below the lower limit has the same result, 0."""
    return exp_of_negative(clamp(x, -104.0 if is_single(x) else -746.0, None))


def exp2(x: Term) -> Term:
    low, high = (-151.0, 129.0) if is_single(x) else (-1076.0, 1025.0)
    x = clamp(x, low, high)
    whole, word = rounded_to_scale(x, 1.0)
    return scale(exp_reduced((x - whole) * LN2_EXACT[0]), whole, word)


def expm1(x: Term) -> Term:
    low, high = (-30.0, 89.0) if is_single(x) else (-60.0, 710.0)
    return x.equals(0.0).choose(x, _expm1_within(clamp(x, low, high)))


def _expm1_within(x: Term) -> Term:
    """2 (2^(n-1) p + (2^(n-1) - 1/2)): halved so that the largest results do not overflow early."""
    whole, word = rounded(x, LOG2_E, FORMATS[x.dtype].bias - 1)
    half = power_of_word(word, x.dtype)
    total = multiply_add(half, exp_minus_one(_reduced(x, whole)), half - 0.5)
    return total + total


def sigmoid(x: Term) -> Term:
    """1 / (1 + exp(-x)), as exp(x) / (1 + exp(x)) for negative x: never overflows, subnormal where it should be."""
    e = exp_of_nonpositive(-abs(x))
    if is_single(x):
        inverse = _inverse_of_one_plus(e)
        return x.less(0.0).choose(e * inverse, inverse)
    return x.less(0.0).choose(e, 1.0) / (1.0 + e)


_INVERSE = [576 / 577, -544 / 577, 384 / 577, -128 / 577]
"""(1 - T(2 e - 1) / 577) / (1 + e) with Chebyshev's polynomial T of degree 4, which is 577 where 1 + e is 0: of all
polynomials of degree 3 that which differs least from 1 / (1 + e) for 0 <= e <= 1, by 1 part in 577."""


def _inverse_of_one_plus(e: Term) -> Term:
    """1 / (1 + e) for 0 <= e <= 1: y / (1 - d) = y (1 + d + d^2 + ...) with d = 1 - (1 + e) y, whose third power
    is below what single precision sees. 1 + e is never rounded."""
    y = horner(e, _INVERSE)
    d = multiply_add(-e, y, 1.0 - y)
    return multiply_add(y, multiply_add(d, d, d), y)


def tanh(x: Term) -> Term:
    """t / (t + 2) with t = expm1(2 |x|); 1 from where it rounds to 1."""
    magnitude = clamp(abs(x), None, 10.0 if is_single(x) else 20.0)
    t = _expm1_of_double(magnitude) if is_single(x) else _expm1_within(magnitude + magnitude)
    return (t / (t + 2.0)).with_sign_of(x)


def _expm1_of_double(x: Term) -> Term:
    """expm1(2 x) for 0 <= x <= 10 in single precision, for tanh: where n is not small, it does not see that log 2 is
    rounded."""
    whole, word = rounded(x, 2 * LOG2_E, FORMATS[x.dtype].bias + 1)
    r = multiply_add(whole, -LN2_EXACT[0] / 2, x)
    half = multiply_add(r * r, horner(r, [c * 2.0 ** (k + 1) for k, c in enumerate(EXP_F32)]), r)  # of exp(2 r) - 1
    power = power_of_word(word, x.dtype)
    return multiply_add(power, half, multiply_add(power, 0.5, -1.0))


def _reduced(x: Term, whole: Term) -> Term:
    """r for n."""
    high, low = LN2_F32 if is_single(x) else LN2_F64
    return multiply_add(whole, -low, multiply_add(whole, -high, x))


def exp_reduced(r: Term, unit: float = 1.0) -> Term:
    """exp(r) * unit, a power of two, for |r| <= log(2) / 2."""
    return horner(r, [c * unit for c in (1.0, 1.0, *(EXP_F32 if is_single(r) else EXP_F64))])


def exp_minus_one(r: Term) -> Term:
    """exp(r) - 1 for |r| <= log(2) / 2."""
    return multiply_add(r * r, horner(r, EXP_F32 if is_single(r) else EXP_F64), r)
