"""sin and cos.

x = n pi/2 + r with |r| <= pi/4. Up to `LARGE`, n pi/2 is subtracted in parts of 31 bits whose products with n are exact
(in double precision also for single, with a low part of r for double). Beyond, lanes are reduced one by one with as
many bits of 2/pi as they need. Then sin or cos of r by the parity of n, negated by its second bit.
"""

from dfc.kernels.math_coefficients import (
    COS_F32,
    COS_F64,
    HALF_PI,
    SIN_F32,
    SIN_F64,
    TWO_OVER_PI,
    TWO_OVER_PI_WORDS,
)
from dfc_target_cpu.elementwise.math_text import MathText
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import constant, i64, lane_count

LARGE = 2.0**20
_SKIPPED_BITS = 64


def sin(m: MathText, x: Value) -> Value:
    """sin(-0) is -0, so zero is returned as it is."""
    return m.when_equal(x, m.number(0.0), x, _shifted_sine(m, x, 0))


def cos(m: MathText, x: Value) -> Value:
    return _shifted_sine(m, x, 1)


def _shifted_sine(m: MathText, x: Value, quadrants: int) -> Value:
    """sin(x + quadrants * pi/2)."""
    high, low, n = _reduce_single(m, x) if m.single else _reduce_double(m, x)
    n = m.f.add(n, m.whole(quadrants))
    odd = m.f.icmp("ne", m.f.bit_and(n, m.whole(1)), m.whole(0))
    sines = _sine_single(m, high) if m.single else _sine_double(m, high, low)
    cosines = _cosine_single(m, high) if m.single else _cosine_double(m, high, low)
    sign = m.f.shl(m.f.bit_and(n, m.whole(2)), m.whole(m.format.bits - 2))
    return m.from_bits(m.f.bit_xor(m.bits_of(m.f.select(odd, cosines, sines)), sign))


def _reduce_single(m: MathText, x: Value) -> tuple[Value, Value, Value]:
    """r rounded once from double precision, and n."""
    wide = m.of_type("double")
    x = m.f.cast("fpext", x, wide.type)
    whole, n = wide.nearest(x, TWO_OVER_PI)
    r = wide.muladd(whole, wide.number(-HALF_PI[0]), x)
    r = wide.muladd(whole, wide.number(-(HALF_PI[1] + HALF_PI[2])), r)
    r, low, n = _reduce_large_lanes(wide, x, r, wide.number(0.0), n)
    return m.f.cast("fptrunc", r, m.type), low, m.f.cast("trunc", n, m.integer)


def _reduce_double(m: MathText, x: Value) -> tuple[Value, Value, Value]:
    """r as high and low part, and n."""
    whole, n = m.nearest(x, TWO_OVER_PI)
    r = m.muladd(whole, m.number(-HALF_PI[0]), x)
    r, error = m.two_sum(r, m.mul(whole, m.number(-HALF_PI[1])))
    r, second = m.two_sum(r, m.mul(whole, m.number(-HALF_PI[2])))
    error = m.muladd(whole, m.number(-HALF_PI[3]), m.add(error, second))
    high, low = m.two_sum(r, error)
    return _reduce_large_lanes(m, x, high, low, n)


def _reduce_large_lanes(m: MathText, x: Value, high: Value, low: Value, n: Value) -> tuple[Value, Value, Value]:
    f, lanes = m.f, lane_count(m.type)
    magnitude = m.absolute(x)
    finite = f.fcmp("olt", magnitude, m.number(float("inf")))
    large = f.bit_and(f.fcmp("oge", magnitude, m.number(LARGE)), finite)
    values = (high, low, n)
    slow, after, before = f.label("large"), f.label("reduced"), f.current
    f.branch_if(f.reduce("or", large), slow, after)
    f.begin(slow)
    places = [f.alloca(m.type) for _ in range(4)]
    for value, place in zip((x, *values), places, strict=True):
        f.store(value, place)
    one_by_one = m.module.define("reduce_half_pi", lambda: _reduce_half_pi(m.module))
    with f.counted_loop(i64(0), i64(lanes)) as lane:
        f.call(one_by_one, "void", [f.gep("i64", place, lane.index) for place in places])
    reloaded = [f.load(value.type, place) for value, place in zip(values, places[1:], strict=True)]
    end = f.current
    f.branch(after)
    f.begin(after)
    phis = [f.phi(value.type) for value in values]
    for phi, value, changed in zip(phis, values, reloaded, strict=True):
        phi.add(value, before)
        phi.add(changed, end)
    return phis[0].value, phis[1].value, phis[2].value


def _reduce_half_pi(module: ModuleText) -> FunctionText:
    """`void (ptr x, ptr high, ptr low, ptr n)`: does nothing unless LARGE <= |x| < inf.

    With |x| = M 2^E, only the bits of 2/pi from 2^(2-E) on matter modulo 4. M times the next 192 of them, modulo 2^192,
    is x 2/pi modulo 4 in units of 2^-190; its upper 128 bits are kept.
    """
    names = ("x", "high", "low", "n")
    parameters = [Parameter("ptr", name) for name in names]
    f = module.function("reduce_half_pi", "void", parameters, attributes="nounwind noinline")
    m = MathText(module, f, "double", False)
    x = f.load("double", f.arguments[0])
    bits = m.bits_of(m.absolute(x))
    biased = f.lshr(bits, i64(52))
    skip, concern = f.label("skip"), f.label("concern")
    in_range = f.bit_and(f.icmp("uge", biased, i64(1023 + 20)), f.icmp("ult", biased, i64(2047)))
    f.branch_if(in_range, concern, skip)
    f.begin(concern)
    mantissa = f.bit_or(f.bit_and(bits, i64((1 << 52) - 1)), i64(1 << 52))
    turns = _turns(f, module, mantissa, f.sub(biased, i64(1075)))
    high, n = _from_turns(m, turns)
    negative = f.fcmp("olt", x, m.number(0.0))
    f.store(f.select(negative, f.fneg(high), high), f.arguments[1])
    f.store(m.number(0.0), f.arguments[2])
    f.store(f.select(negative, f.sub(i64(0), n), n), f.arguments[3])
    f.branch(skip)
    f.begin(skip)
    f.ret()
    return f


def _turns(f: FunctionText, module: ModuleText, mantissa: Value, exponent: Value) -> Value:
    """M 2^E 2/pi modulo 4, as an i128 in units of 2^-126."""
    table = module.table("i32", [0] * (_SKIPPED_BITS // 32) + [_signed(word) for word in TWO_OVER_PI_WORDS])
    position = f.add(exponent, i64(_SKIPPED_BITS - 2))
    first, shift = f.lshr(position, i64(5)), f.bit_and(position, i64(31))
    words = [f.cast("zext", f.load("i32", f.gep("i32", table, f.add(first, i64(i)))), "i64") for i in range(7)]
    chunks: list[Value] = []
    for i in (0, 2, 4):
        pair = f.bit_or(f.shl(words[i], i64(32)), words[i + 1])
        carried = f.lshr(words[i + 2], f.sub(i64(32), shift))
        chunks.append(f.bit_or(f.shl(pair, shift), carried))
    wide = [f.cast("zext", chunk, "i128") for chunk in chunks]
    factor, word = f.cast("zext", mantissa, "i128"), constant("i128", 64)
    products = [f.binary("mul", factor, chunk) for chunk in wide]
    total = f.binary("add", f.shl(products[0], word), products[1])
    return f.binary("add", total, f.lshr(products[2], word))


def _from_turns(m: MathText, turns: Value) -> tuple[Value, Value]:
    """r and n from the turns: the nearest quarter, and the signed rest times pi/2."""
    f = m.f
    quarters = f.lshr(f.binary("add", turns, constant("i128", 1 << 125)), constant("i128", 126))
    rest = f.binary("sub", turns, f.shl(quarters, constant("i128", 126)))
    negative = f.icmp("slt", rest, constant("i128", 0))
    size = f.select(negative, f.binary("sub", constant("i128", 0), rest), rest)
    module_name = "llvm.ctlz.i128"
    m.module.declare(module_name, "i128", ["i128", "i1"])
    zeros = f.assign("i128", f"call i128 @{module_name}({size}, i1 false)")
    safe = f.minimum(zeros, constant("i128", 127), signed=False)
    top = f.cast("trunc", f.lshr(f.shl(size, safe), constant("i128", 65)), "i64")
    number = f.cast("sitofp", top, "double")
    exponent = f.sub(i64(-126 + 65), f.cast("trunc", safe, "i64"))
    r = m.mul(m.mul(number, m.power_of_two(exponent)), m.number(HALF_PI[0] + HALF_PI[1]))
    return f.select(negative, f.fneg(r), r), f.cast("trunc", quarters, "i64")


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def _sine_single(m: MathText, r: Value) -> Value:
    z = m.mul(r, r)
    return m.muladd(m.mul(z, r), m.horner(z, SIN_F32), r)


def _cosine_single(m: MathText, r: Value) -> Value:
    z = m.mul(r, r)
    tail = m.muladd(z, m.horner(z, COS_F32), m.number(-0.5))
    return m.muladd(z, tail, m.number(1.0))


def _sine_double(m: MathText, high: Value, low: Value) -> Value:
    """sin(high) + low cos(high), the latter cut after its second term."""
    z = m.mul(high, high)
    slope = m.muladd(z, m.number(-0.5), m.number(1.0))
    small = m.muladd(low, slope, m.mul(m.mul(z, high), m.horner(z, SIN_F64)))
    return m.add(high, small)


def _cosine_double(m: MathText, high: Value, low: Value) -> Value:
    """1 - z/2 is kept as a sum of two."""
    z = m.mul(high, high)
    half = m.mul(z, m.number(0.5))
    first = m.sub(m.number(1.0), half)
    error = m.sub(m.sub(m.number(1.0), first), half)
    tail = m.mul(m.mul(z, z), m.horner(z, COS_F64))
    return m.add(first, m.add(error, m.sub(tail, m.mul(high, low))))
