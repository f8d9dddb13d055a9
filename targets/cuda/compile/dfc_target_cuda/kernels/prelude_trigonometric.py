"""sin and cos as functions of the prelude: the expansions of the CPU target, step by step.

Assumes the primitives of `prelude`. Guarantees the bits of the CPU target on a machine with fused multiply-add; the
method is explained there (`math_trigonometric.py`). The reduction of large arguments works on two 64-bit words where
the CPU has 128-bit integers.
"""

from dfc.kernels.math_coefficients import COS_F32, COS_F64, HALF_PI, SIN_F32, SIN_F64, TWO_OVER_PI
from dfc_target_cuda.kernels.prelude_elementary import DOUBLE, SINGLE, Format

_LARGE = 2.0**20


def trigonometric_text() -> str:
    """The functions for both formats."""
    return "".join([_reduction(), _single(), _double(), *(_circle(m) for m in (SINGLE, DOUBLE))])


def _reduction() -> str:
    return f"""
def turns_chunk(first: i64, shift: u64) -> u64:
    pair = u64(u64(two_over_pi_word(first) << u64(32)) | two_over_pi_word(i64(first + 1)))
    carried = u64(two_over_pi_word(i64(first + 2)) >> u64(u64(32) - shift))
    return u64(u64(pair << shift) | carried)

def reduce_half_pi(x: f64) -> (f64, i64):
    bits = u64(f64_bits(f64_abs(x)))
    exponent = i64(i64(u64(bits >> u64(52))) - i64(1075))
    mantissa = u64(u64(bits & u64({(1 << 52) - 1})) | u64({1 << 52}))
    position = i64(exponent + i64(62))
    first = i64(position >> i64(5))
    shift = u64(i64(position & i64(31)))
    left = turns_chunk(first, shift)
    middle = turns_chunk(i64(first + 2), shift)
    right = turns_chunk(i64(first + 4), shift)
    low = u64(mantissa * middle)
    rest = u64(low + mul_high_u64(mantissa, right))
    carry = u64(1) if rest < low else u64(0)
    high = u64(u64(u64(mantissa * left) + mul_high_u64(mantissa, middle)) + carry)
    low = rest
    quarters = u64(u64(high + u64({1 << 61})) >> u64(62))
    high = u64(high - u64(quarters << u64(62)))
    negative = high >= u64({1 << 63})
    if negative:
        high = u64(~high)
        low = u64(u64(~low) + u64(1))
        if low == u64(0):
            high = u64(high + u64(1))
    zeros = leading_zeros_u64(high)
    if high == u64(0):
        zeros = i64(i64(64) + leading_zeros_u64(low))
    zeros = zeros if zeros < i64(127) else i64(127)
    if zeros >= i64(64):
        top = u64(low << u64(i64(zeros - i64(64))))
    elif zeros > i64(0):
        top = u64(u64(high << u64(zeros)) | u64(low >> u64(i64(i64(64) - zeros))))
    else:
        top = high
    number = f64(i64(u64(top >> u64(1))))
    r = f64(f64(number * f64_power_of_two(i64(i64(-61) - zeros))) * f64({HALF_PI[0] + HALF_PI[1]!r}))
    n = i64(quarters)
    if (x < f64(0.0)) != negative:
        r = f64(-r)
    if x < f64(0.0):
        n = i64(-n)
    return r, n
"""


def _single() -> str:
    m = SINGLE
    return f"""
def f32_reduce(x: f32) -> (f32, f32, i32):
    wide = f64(x)
    whole, n = f64_nearest(wide, f64({TWO_OVER_PI!r}))
    r = f64_fma(whole, f64({-HALF_PI[0]!r}), wide)
    r = f64_fma(whole, f64({-(HALF_PI[1] + HALF_PI[2])!r}), r)
    size = f64_abs(wide)
    if size >= f64({_LARGE!r}) and size < f64(inf):
        r, n = reduce_half_pi(wide)
    return f32(r), f32(0.0), i32(n)

def f32_sine(r: f32, low: f32) -> f32:
    z = f32(r * r)
    return f32_fma(f32(z * r), {m.horner("z", SIN_F32)}, r)

def f32_cosine(r: f32, low: f32) -> f32:
    z = f32(r * r)
    tail = f32_fma(z, {m.horner("z", COS_F32)}, f32(-0.5))
    return f32_fma(z, tail, f32(1.0))
"""


def _double() -> str:
    m = DOUBLE
    return f"""
def f64_reduce(x: f64) -> (f64, f64, i64):
    whole, n = f64_nearest(x, f64({TWO_OVER_PI!r}))
    r = f64_fma(whole, f64({-HALF_PI[0]!r}), x)
    r, error = two_sum(r, f64(whole * f64({-HALF_PI[1]!r})))
    r, second = two_sum(r, f64(whole * f64({-HALF_PI[2]!r})))
    error = f64_fma(whole, f64({-HALF_PI[3]!r}), f64(error + second))
    high, low = two_sum(r, error)
    size = f64_abs(x)
    if size >= f64({_LARGE!r}) and size < f64(inf):
        high, n = reduce_half_pi(x)
        low = f64(0.0)
    return high, low, n

def f64_sine(high: f64, low: f64) -> f64:
    z = f64(high * high)
    slope = f64_fma(z, f64(-0.5), f64(1.0))
    small = f64_fma(low, slope, f64(f64(z * high) * {m.horner("z", SIN_F64)}))
    return f64(high + small)

def f64_cosine(high: f64, low: f64) -> f64:
    z = f64(high * high)
    half = f64(z * f64(0.5))
    first = f64(f64(1.0) - half)
    error = f64(f64(f64(1.0) - first) - half)
    tail = f64(f64(z * z) * {m.horner("z", COS_F64)})
    return f64(first + f64(error + f64(tail - f64(high * low))))
"""


def _circle(m: Format) -> str:
    f, i = m.name, m.integer
    return f"""
def {f}_shifted_sine(x: {f}, quadrants: {i}) -> {f}:
    high, low, n = {f}_reduce(x)
    n = {i}(n + quadrants)
    result = {f}_sine(high, low)
    if {i}(n & {i}(1)) != {i}(0):
        result = {f}_cosine(high, low)
    return {f}(-result) if {i}(n & {i}(2)) != {i}(0) else result

def {f}_sin(x: {f}) -> {f}:
    return x if x == {m.number(0.0)} else {f}_shifted_sine(x, {i}(0))

def {f}_cos(x: {f}) -> {f}:
    return {f}_shifted_sine(x, {i}(1))
"""
