"""pow, with the special cases of C99.

|x|^y = exp(y log|x|). Single precision computes it in double. Double precision carries log|x| and its product with y as
unevaluated sums of two numbers, to about 2^-64 relative.
"""

from dfc.kernels.math_coefficients import LN2_EXACT, LN2_F64, POW_F64, TWO_THIRDS
from dfc_target_cpu.elementwise.math_exponential import exp, exp_minus_one
from dfc_target_cpu.elementwise.math_logarithm import log, split_exponent
from dfc_target_cpu.elementwise.math_text import MathText, Pair
from dfc_target_cpu.llvm.text import Value
from dfc_target_cpu.llvm.values import like

_LIMIT = 800.0


def power(m: MathText, x: Value, y: Value) -> Value:
    magnitude = m.absolute(x)
    result = _single(m, magnitude, y) if m.single else _double(m, magnitude, y)
    result = m.when_equal(magnitude, m.number(1.0), m.number(1.0), result)
    return _signs_and_nan(m, x, y, result)


def _single(m: MathText, magnitude: Value, y: Value) -> Value:
    wide = m.of_type("double")
    base, exponent = (m.f.cast("fpext", v, wide.type) for v in (magnitude, y))
    result = exp(wide, wide.mul(exponent, log(wide, base)))
    return m.f.cast("fptrunc", result, m.type)


def _double(m: MathText, magnitude: Value, y: Value) -> Value:
    high, low = _logarithm(m, magnitude)
    product, error = m.two_product(y, high)
    error = m.muladd(y, low, error)
    within = m.f.fcmp("olt", m.absolute(product), m.number(_LIMIT))
    error = m.f.select(within, error, m.number(0.0))
    return _exp_of_sum(m, m.clamp(product, -_LIMIT, _LIMIT), error)


def _exp_of_sum(m: MathText, high: Value, low: Value) -> Value:
    whole, exponent = m.nearest(high, 1.4426950408889634)
    r = m.muladd(whole, m.number(-LN2_F64[0]), high)
    r = m.add(r, m.muladd(whole, m.number(-LN2_F64[1]), low))
    return m.scale(m.add(exp_minus_one(m, r), m.number(1.0)), whole, exponent)


def _logarithm(m: MathText, x: Value) -> Pair:
    """log of a non-negative number: 0 and infinity give infinities without a low part."""
    exponent, f = split_exponent(m, x)
    high, low = _log_of_one_plus(m, f)
    scaled, error = m.two_product(exponent, m.number(LN2_EXACT[0]))
    error = m.muladd(exponent, m.number(LN2_EXACT[1]), error)
    total, rest = m.two_sum(scaled, high)
    high, low = m.fast_two_sum(total, m.add(rest, m.add(error, low)))
    zero, infinity = m.f.fcmp("oeq", x, m.number(0.0)), m.f.fcmp("oeq", x, m.number(float("inf")))
    high = m.f.select(zero, m.number(float("-inf")), m.f.select(infinity, x, high))
    return high, m.f.select(m.f.bit_or(zero, infinity), m.number(0.0), low)


def _log_of_one_plus(m: MathText, f: Value) -> Pair:
    """2 s + s^3 (2/3 + s^2 P(s^2)) with s = f / (2 + f), as a sum of two."""
    s, s_low = _ratio(m, f)
    z, z_low = m.two_product(s, s)
    z_low = m.muladd(m.add(s, s), s_low, z_low)
    c, c_low = m.two_sum(m.number(TWO_THIRDS[0]), m.mul(z, m.horner(z, POW_F64)))
    c_low = m.add(c_low, m.number(TWO_THIRDS[1]))
    cube, cube_low = m.two_product(s, z)
    cube_low = m.add(cube_low, m.muladd(s, z_low, m.mul(s_low, z)))
    w, w_low = m.two_product(cube, c)
    w_low = m.add(w_low, m.muladd(cube, c_low, m.mul(cube_low, c)))
    high, low = m.fast_two_sum(m.add(s, s), w)
    return high, m.add(low, m.add(m.add(s_low, s_low), w_low))


def _ratio(m: MathText, f: Value) -> Pair:
    """f / (2 + f)."""
    divisor, divisor_low = m.fast_two_sum(m.number(2.0), f)
    s = m.f.fdiv(f, divisor)
    product, error = m.two_product(s, divisor)
    rest = m.sub(m.sub(m.sub(f, product), error), m.mul(s, divisor_low))
    return s, m.f.fdiv(rest, divisor)


def _signs_and_nan(m: MathText, x: Value, y: Value, result: Value) -> Value:
    f, one = m.f, m.number(1.0)
    whole = f.fcmp("oeq", f.intrinsic("trunc", y), y)
    half = m.mul(y, m.number(0.5))
    even_half = f.fcmp("oeq", f.intrinsic("trunc", half), half)
    odd = f.bit_and(whole, f.bit_xor(even_half, _all_true(m)))
    negative = f.icmp("slt", m.bits_of(x), m.whole(0))
    result = f.select(f.bit_and(odd, negative), f.fneg(result), result)
    below = f.bit_and(f.fcmp("olt", x, m.number(0.0)), f.fcmp("one", x, m.number(float("-inf"))))
    result = f.select(f.bit_and(below, f.fcmp("une", f.intrinsic("trunc", y), y)), m.number(float("nan")), result)
    result = f.select(f.fcmp("uno", x, y), m.add(x, y), result)
    return f.select(f.bit_or(f.fcmp("oeq", y, m.number(0.0)), f.fcmp("oeq", x, one)), one, result)


def _all_true(m: MathText) -> Value:
    type_text = like(m.type, "i1")
    return Value(type_text, "true" if type_text == "i1" else "splat (i1 true)")
