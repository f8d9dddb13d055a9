"""The error function.

|x| <= 1: x + x P(x^2). Beyond, single precision: 1 - exp(-Q(|x|)); double precision: 1 - exp(-x^2) G(t) with
t = (|x| - 2) / (|x| + 2). Beyond 4 (6) the result is 1.
"""

from __future__ import annotations

from dfc.kernels.math_coefficients import ERF_LARGE_F32, ERF_LARGE_F64, ERF_SMALL_F32, ERF_SMALL_F64
from dfc.kernels.terms import Term, multiply_add
from dfc.lower.legalise.exponential import exp_of_negative
from dfc.lower.legalise.formats import clamp, horner, is_single


def erf(x: Term) -> Term:
    magnitude = clamp(abs(x), None, 4.0 if is_single(x) else 6.0)
    inside = multiply_add(x, horner(x * x, ERF_SMALL_F32 if is_single(x) else ERF_SMALL_F64), x)
    far = magnitude.less(1.0).choose(1.0, magnitude)
    complement = _complement_single(far) if is_single(x) else _complement_double(far)
    outside = (1.0 - complement).with_sign_of(x)
    return magnitude.greater(1.0).choose(outside, inside)


def _complement_single(x: Term) -> Term:
    return exp_of_negative(-horner(x, ERF_LARGE_F32))


def _complement_double(x: Term) -> Term:
    t = (x - 2.0) / (x + 2.0)
    return exp_of_negative(-(x * x)) * horner(t, ERF_LARGE_F64)
