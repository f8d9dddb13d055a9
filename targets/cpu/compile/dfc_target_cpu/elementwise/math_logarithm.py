"""log, log2, log10 and log1p.

x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)). Single precision: f - f^2/2 + f^3 P(f). Double precision:
s = f / (2 + f) and log(1 + f) = f - f^2/2 + s (f^2/2 + s^2 P(s^2)), which loses nothing near 1.
"""

from dfc.kernels.math_coefficients import LN2_F32, LN2_F64, LOG_F32, LOG_F64
from dfc_target_cpu.elementwise.math_text import MathText
from dfc_target_cpu.llvm.text import Value

_SQRT_HALF_BITS = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}
_LOG2_E, _LOG10_E, _LOG10_2 = 1.4426950408889634, 0.4342944819032518, 0.3010299956639812


def log(m: MathText, x: Value) -> Value:
    exponent, f = split_exponent(m, x)
    return _specials(m, x, _natural(m, exponent, f))


def log2(m: MathText, x: Value) -> Value:
    exponent, f = split_exponent(m, x)
    fraction = m.mul(_log_of_one_plus(m, f, m.number(0.0)), m.number(_LOG2_E))
    return _specials(m, x, m.add(fraction, exponent))


def log10(m: MathText, x: Value) -> Value:
    exponent, f = split_exponent(m, x)
    fraction = m.mul(_log_of_one_plus(m, f, m.number(0.0)), m.number(_LOG10_E))
    return _specials(m, x, m.muladd(exponent, m.number(_LOG10_2), fraction))


def log1p(m: MathText, x: Value) -> Value:
    """log(u + c) with u = 1 + x rounded and c what the rounding lost, scaled along with u."""
    one = m.number(1.0)
    u = m.add(one, x)
    lost = m.when_greater(x, one, m.sub(one, m.sub(u, x)), m.sub(x, m.sub(u, one)))
    exponent, f = split_exponent(m, u)
    scale = m.power_of_two(m.f.maximum(_integer(m, m.f.fneg(exponent)), m.whole(-100)))
    result = _natural(m, exponent, m.muladd(lost, scale, f))
    result = m.when_equal(x, m.number(0.0), x, result)
    return _specials(m, u, result)


def split_exponent(m: MathText, x: Value) -> tuple[Value, Value]:
    """e (as a number) and f; for positive finite x, subnormal ones too. NaN goes in, anything comes out."""
    scale = 2.0 ** (m.format.mantissa + 2)
    tiny = m.f.fcmp("olt", x, m.number(m.format.smallest_normal))
    bits = m.bits_of(m.f.select(tiny, m.mul(x, m.number(scale)), x))
    half_root = _SQRT_HALF_BITS[m.format.bits]
    shifted = m.f.sub(bits, m.whole(half_root))
    exponent = m.f.ashr(shifted, m.whole(m.format.mantissa))
    mantissa = m.f.bit_and(shifted, m.whole((1 << m.format.mantissa) - 1))
    f = m.sub(m.from_bits(m.f.add(mantissa, m.whole(half_root))), m.number(1.0))
    number = _number(m, exponent)
    correction = m.f.select(tiny, m.number(-(m.format.mantissa + 2.0)), m.number(0.0))
    return m.add(number, correction), f


def _number(m: MathText, integer: Value) -> Value:
    """A small integer as a floating-point number, by way of the mantissa (there is no 64-bit conversion in AVX2)."""
    magic = m.number(m.format.round_magic)
    return m.sub(m.from_bits(m.f.add(integer, m.bits_of(magic))), magic)


def _integer(m: MathText, number: Value) -> Value:
    magic = m.number(m.format.round_magic)
    return m.f.sub(m.bits_of(m.add(number, magic)), m.bits_of(magic))


def _natural(m: MathText, exponent: Value, f: Value) -> Value:
    high, low = LN2_F32 if m.single else LN2_F64
    fraction = _log_of_one_plus(m, f, m.mul(exponent, m.number(low)))
    return m.muladd(exponent, m.number(high), fraction)


def _log_of_one_plus(m: MathText, f: Value, small: Value) -> Value:
    """log(1 + f) + small."""
    square = m.mul(f, f)
    if m.single:
        tail = m.muladd(m.mul(square, f), m.horner(f, LOG_F32), small)
        return m.add(f, m.muladd(square, m.number(-0.5), tail))
    s = m.f.fdiv(f, m.add(m.number(2.0), f))
    half_square = m.mul(square, m.number(0.5))
    z = m.mul(s, s)
    tail = m.muladd(s, m.muladd(z, m.horner(z, LOG_F64), half_square), small)
    return m.sub(f, m.sub(half_square, tail))


def _specials(m: MathText, x: Value, result: Value) -> Value:
    """log(+inf) = inf, log(NaN) = NaN, log(0) = -inf, log(negative) = NaN."""
    infinity, zero = m.number(float("inf")), m.number(0.0)
    result = m.f.select(m.f.fcmp("ult", x, infinity), result, x)
    result = m.f.select(m.f.fcmp("uno", x, x), x, result)
    result = m.when_equal(x, zero, m.number(float("-inf")), result)
    return m.when_less(x, zero, m.number(float("nan")), result)
