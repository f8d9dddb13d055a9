"""exp and its relatives: exp2, expm1, sigmoid, tanh.

x = n log 2 + r with |r| <= log(2) / 2; exp(r) - 1 = r + r^2 P(r); then the exponent is put back in two steps, which
makes subnormal results right. Limits are chosen such that overflow and underflow come out of that multiplication.
"""

from dfc.kernels.math_coefficients import EXP_F32, EXP_F64, LN2_EXACT, LN2_F32, LN2_F64, LOG2_E
from dfc_target_cpu.elementwise.math_text import MathText
from dfc_target_cpu.llvm.text import Value


def exp(m: MathText, x: Value) -> Value:
    low, high = (-104.0, 89.0) if m.single else (-746.0, 710.0)
    return exp_within(m, m.clamp(x, low, high))


def exp_within(m: MathText, x: Value) -> Value:
    """exp for arguments known to lie within the limits of `exp`."""
    whole, exponent, tail = _reduced(m, x)
    return m.scale(m.add(tail, m.number(1.0)), whole, exponent)


def exp2(m: MathText, x: Value) -> Value:
    low, high = (-151.0, 129.0) if m.single else (-1076.0, 1025.0)
    x = m.clamp(x, low, high)
    whole, exponent = m.nearest(x, 1.0)
    r = m.mul(m.sub(x, whole), m.number(LN2_EXACT[0]))
    return m.scale(m.add(exp_minus_one(m, r), m.number(1.0)), whole, exponent)


def expm1(m: MathText, x: Value) -> Value:
    low, high = (-30.0, 89.0) if m.single else (-60.0, 710.0)
    return m.when_equal(x, m.number(0.0), x, _expm1_within(m, m.clamp(x, low, high)))


def _expm1_within(m: MathText, x: Value) -> Value:
    """2 (2^(n-1) p + (2^(n-1) - 1/2)): halved so that the largest results do not overflow early."""
    _, exponent, tail = _reduced(m, x)
    half = m.power_of_two(m.f.sub(exponent, m.whole(1)))
    total = m.muladd(half, tail, m.sub(half, m.number(0.5)))
    return m.add(total, total)


def sigmoid(m: MathText, x: Value) -> Value:
    """1 / (1 + exp(-x)), as exp(x) / (1 + exp(x)) for negative x: never overflows, subnormal where it should be."""
    magnitude = m.clamp(m.absolute(x), None, 104.0 if m.single else 746.0)
    e = exp_within(m, m.f.fneg(magnitude))
    numerator = m.when_less(x, m.number(0.0), e, m.number(1.0))
    return m.f.fdiv(numerator, m.add(m.number(1.0), e))


def tanh(m: MathText, x: Value) -> Value:
    """t / (t + 2) with t = expm1(2 |x|); 1 from where it rounds to 1."""
    magnitude = m.clamp(m.absolute(x), None, 10.0 if m.single else 20.0)
    t = _expm1_within(m, m.add(magnitude, magnitude))
    return m.with_sign_of(m.f.fdiv(t, m.add(t, m.number(2.0))), x)


def _reduced(m: MathText, x: Value) -> tuple[Value, Value, Value]:
    """n as a number and as an integer, and exp(r) - 1."""
    high, low = LN2_F32 if m.single else LN2_F64
    whole, exponent = m.nearest(x, LOG2_E)
    r = m.muladd(whole, m.number(-high), x)
    r = m.muladd(whole, m.number(-low), r)
    return whole, exponent, exp_minus_one(m, r)


def exp_minus_one(m: MathText, r: Value) -> Value:
    """exp(r) - 1 for |r| <= log(2) / 2."""
    tail = m.horner(r, EXP_F32 if m.single else EXP_F64)
    return m.muladd(m.mul(r, r), tail, r)
