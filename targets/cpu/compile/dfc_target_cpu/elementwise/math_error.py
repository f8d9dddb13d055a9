"""The error function.

|x| <= 1: x + x P(x^2). Beyond, single precision: 1 - exp(-Q(|x|)); double precision: 1 - exp(-x^2) G(t) with
t = (|x| - 2) / (|x| + 2). Beyond 4 (6) the result is 1.
"""

from dfc.kernels.math_coefficients import ERF_LARGE_F32, ERF_LARGE_F64, ERF_SMALL_F32, ERF_SMALL_F64
from dfc_target_cpu.elementwise.math_exponential import exp_within
from dfc_target_cpu.elementwise.math_text import MathText
from dfc_target_cpu.llvm.text import Value


def erf(m: MathText, x: Value) -> Value:
    one = m.number(1.0)
    magnitude = m.clamp(m.absolute(x), None, 4.0 if m.single else 6.0)
    inside = m.muladd(x, m.horner(m.mul(x, x), ERF_SMALL_F32 if m.single else ERF_SMALL_F64), x)
    far = m.when_less(magnitude, one, one, magnitude)
    complement = _complement_single(m, far) if m.single else _complement_double(m, far)
    outside = m.with_sign_of(m.sub(one, complement), x)
    return m.when_greater(magnitude, one, outside, inside)


def _complement_single(m: MathText, x: Value) -> Value:
    return exp_within(m, m.f.fneg(m.horner(x, ERF_LARGE_F32)))


def _complement_double(m: MathText, x: Value) -> Value:
    two = m.number(2.0)
    t = m.f.fdiv(m.sub(x, two), m.add(x, two))
    return m.mul(exp_within(m, m.f.fneg(m.mul(x, x))), m.horner(t, ERF_LARGE_F64))
