"""exp, log, log1p, tanh, erf and pow as functions of the prelude: the expansions of the CPU target, step by step.

Assumes the primitives of `prelude` (a fused multiply-add, square root and division that round once). Guarantees the
bits of the CPU target on a machine with fused multiply-add; the comments on the method stand there (`math_*.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dfc.kernels.math_coefficients import (
    ERF_LARGE_F32,
    ERF_LARGE_F64,
    ERF_SMALL_F32,
    ERF_SMALL_F64,
    EXP_F32,
    EXP_F64,
    LN2_EXACT,
    LN2_F32,
    LN2_F64,
    LOG2_E,
    LOG_F32,
    LOG_F64,
    POW_F64,
    TWO_THIRDS,
)


@dataclass(frozen=True, slots=True)
class Format:
    """An IEEE format: the names of its functions begin with `name`, its bits are an `integer`."""

    name: str
    integer: str
    mantissa: int
    bias: int
    sqrt_half: int

    @property
    def magic(self) -> str:
        """Adding this leaves the nearest integer in the low bits of the mantissa."""
        return self.number(1.5 * 2.0**self.mantissa)

    def number(self, value: float) -> str:
        return f"{self.name}({value!r})"

    def horner(self, x: str, coefficients: Sequence[float]) -> str:
        """The polynomial with these coefficients, constant term first, as an expression."""
        total = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            total = f"{self.name}_fma({total}, {x}, {self.number(coefficient)})"
        return total


SINGLE = Format("f32", "i32", 23, 127, 0x3F3504F3)
DOUBLE = Format("f64", "i64", 52, 1023, 0x3FE6A09E667F3BCD)


def elementary_text() -> str:
    """The functions for both formats."""
    parts = [part(m) for m in (DOUBLE, SINGLE) for part in (_exponential, _logarithm, _log_of_one_plus, _error)]
    return "".join([*parts, _single_power(), _double_power(), *(_power(m) for m in (SINGLE, DOUBLE))])


def _exponential(m: Format) -> str:
    f, i = m.name, m.integer
    single = m is SINGLE
    high, low = LN2_F32 if single else LN2_F64
    least, most = (-104.0, 89.0) if single else (-746.0, 710.0)
    return f"""
def {f}_clamp(x: {f}, low: {f}, high: {f}) -> {f}:
    x = high if x > high else x
    return low if x < low else x

def {f}_power_of_two(e: {i}) -> {f}:
    return {f}_from_bits({i}({i}(e + {i}({m.bias})) << {i}({m.mantissa})))

def {f}_scale(x: {f}, e: {i}) -> {f}:
    half = {i}(e >> {i}(1))
    return {f}({f}(x * {f}_power_of_two(half)) * {f}_power_of_two({i}(e - half)))

def {f}_exp_minus_one(r: {f}) -> {f}:
    return {f}_fma({f}(r * r), {m.horner("r", EXP_F32 if single else EXP_F64)}, r)

def {f}_nearest(x: {f}, factor: {f}) -> ({f}, {i}):
    shifted = {f}_fma(x, factor, {m.magic})
    return {f}(shifted - {m.magic}), {i}({f}_bits(shifted) - {f}_bits({m.magic}))

def {f}_exp_reduced(x: {f}) -> ({f}, {i}):
    whole, e = {f}_nearest(x, {m.number(LOG2_E)})
    r = {f}_fma(whole, {m.number(-high)}, x)
    r = {f}_fma(whole, {m.number(-low)}, r)
    return {f}_exp_minus_one(r), e

def {f}_exp_within(x: {f}) -> {f}:
    tail, e = {f}_exp_reduced(x)
    return {f}_scale({f}(tail + {m.number(1.0)}), e)

def {f}_exp(x: {f}) -> {f}:
    return {f}_exp_within({f}_clamp(x, {m.number(least)}, {m.number(most)}))

def {f}_tanh(x: {f}) -> {f}:
    size = {f}_abs(x)
    size = {m.number(10.0 if single else 20.0)} if size > {m.number(10.0 if single else 20.0)} else size
    tail, e = {f}_exp_reduced({f}(size + size))
    half = {f}_power_of_two({i}(e - {i}(1)))
    t = {f}_fma(half, tail, {f}(half - {m.number(0.5)}))
    t = {f}(t + t)
    return {f}_copysign({f}(t / {f}(t + {m.number(2.0)})), x)
"""


def _logarithm(m: Format) -> str:
    f, i = m.name, m.integer
    scale = m.number(2.0 ** (m.mantissa + 2))
    return f"""
def {f}_split_exponent(x: {f}) -> ({f}, {f}):
    tiny = x < {m.number(2.0 ** (1 - m.bias))}
    bits = {f}_bits({f}(x * {scale}) if tiny else x)
    shifted = {i}(bits - {i}({m.sqrt_half}))
    exponent = {i}(shifted >> {i}({m.mantissa}))
    rest = {i}(shifted & {i}({(1 << m.mantissa) - 1}))
    part = {f}({f}_from_bits({i}(rest + {i}({m.sqrt_half}))) - {m.number(1.0)})
    return {f}({f}(exponent) + ({m.number(-(m.mantissa + 2.0))} if tiny else {m.number(0.0)})), part

def {f}_log_specials(x: {f}, result: {f}) -> {f}:
    result = x if x >= {f}(inf) else result
    result = x if x != x else result
    result = {f}(-inf) if x == {m.number(0.0)} else result
    return {f}(nan) if x < {m.number(0.0)} else result

def {f}_log(x: {f}) -> {f}:
    exponent, part = {f}_split_exponent(x)
    return {f}_log_specials(x, {f}_log_natural(exponent, part))

def {f}_log1p(x: {f}) -> {f}:
    one = {m.number(1.0)}
    u = {f}(one + x)
    lost = {f}(one - {f}(u - x)) if x > one else {f}(x - {f}(u - one))
    exponent, part = {f}_split_exponent(u)
    power = {i}(-{i}(exponent))
    power = power if power > {i}(-100) else {i}(-100)
    result = {f}_log_natural(exponent, {f}_fma(lost, {f}_power_of_two(power), part))
    result = x if x == {m.number(0.0)} else result
    return {f}_log_specials(u, result)
"""


def _log_of_one_plus(m: Format) -> str:
    f = m.name
    high, low = LN2_F32 if m is SINGLE else LN2_F64
    if m is SINGLE:
        body = f"""
    square = f32(part * part)
    tail = f32_fma(f32(square * part), {m.horner("part", LOG_F32)}, small)
    fraction = f32(part + f32_fma(square, f32(-0.5), tail))"""
    else:
        body = f"""
    square = f64(part * part)
    s = f64(part / f64(f64(2.0) + part))
    half = f64(square * f64(0.5))
    z = f64(s * s)
    tail = f64_fma(s, f64_fma(z, {m.horner("z", LOG_F64)}, half), small)
    fraction = f64(part - f64(half - tail))"""
    return f"""
def {f}_log_natural(exponent: {f}, part: {f}) -> {f}:
    small = {f}(exponent * {m.number(low)}){body}
    return {f}_fma(exponent, {m.number(high)}, fraction)
"""


def _error(m: Format) -> str:
    f, single = m.name, m is SINGLE
    t = ""
    if single:
        complement = f"f32_exp_within(f32(-{m.horner('far', ERF_LARGE_F32)}))"
    else:
        t = "f64(f64(far - f64(2.0)) / f64(far + f64(2.0)))"
        complement = f"f64(f64_exp_within(f64(-f64(far * far))) * {m.horner('t', ERF_LARGE_F64)})"
    return f"""
def {f}_erf(x: {f}) -> {f}:
    one = {m.number(1.0)}
    size = {f}_abs(x)
    size = {m.number(4.0 if single else 6.0)} if size > {m.number(4.0 if single else 6.0)} else size
    z = {f}(x * x)
    inside = {f}_fma(x, {m.horner("z", ERF_SMALL_F32 if single else ERF_SMALL_F64)}, x)
    far = one if size < one else size
    {"" if single else f"t = {t}"}
    outside = {f}_copysign({f}(one - {complement}), x)
    return outside if size > one else inside
"""


def _single_power() -> str:
    return """
def f32_pow_positive(x: f32, y: f32) -> f32:
    return f32(f64_exp(f64(f64(y) * f64_log(f64(x)))))
"""


def _double_power() -> str:
    return f"""
def two_sum(a: f64, b: f64) -> (f64, f64):
    total = f64(a + b)
    part = f64(total - a)
    return total, f64(f64(a - f64(total - part)) + f64(b - part))

def fast_two_sum(a: f64, b: f64) -> (f64, f64):
    total = f64(a + b)
    return total, f64(b - f64(total - a))

def two_product(a: f64, b: f64) -> (f64, f64):
    product = f64(a * b)
    return product, f64_fma(a, b, f64(-product))

def log_ratio(part: f64) -> (f64, f64):
    divisor, divisor_low = fast_two_sum(f64(2.0), part)
    s = f64(part / divisor)
    product, error = two_product(s, divisor)
    rest = f64(f64(f64(part - product) - error) - f64(s * divisor_low))
    return s, f64(rest / divisor)

def log_pair_of_one_plus(part: f64) -> (f64, f64):
    s, s_low = log_ratio(part)
    z, z_low = two_product(s, s)
    z_low = f64_fma(f64(s + s), s_low, z_low)
    c, c_low = two_sum(f64({TWO_THIRDS[0]!r}), f64(z * {DOUBLE.horner("z", POW_F64)}))
    c_low = f64(c_low + f64({TWO_THIRDS[1]!r}))
    cube, cube_low = two_product(s, z)
    cube_low = f64(cube_low + f64_fma(s, z_low, f64(s_low * z)))
    w, w_low = two_product(cube, c)
    w_low = f64(w_low + f64_fma(cube, c_low, f64(cube_low * c)))
    high, low = fast_two_sum(f64(s + s), w)
    return high, f64(low + f64(f64(s_low + s_low) + w_low))

def log_pair(x: f64) -> (f64, f64):
    exponent, part = f64_split_exponent(x)
    high, low = log_pair_of_one_plus(part)
    scaled, error = two_product(exponent, f64({LN2_EXACT[0]!r}))
    error = f64_fma(exponent, f64({LN2_EXACT[1]!r}), error)
    total, rest = two_sum(scaled, high)
    high, low = fast_two_sum(total, f64(rest + f64(error + low)))
    edge = x == f64(0.0) or x == f64(inf)
    high = f64(-inf) if x == f64(0.0) else (x if x == f64(inf) else high)
    return high, f64(0.0) if edge else low

def f64_pow_positive(x: f64, y: f64) -> f64:
    high, low = log_pair(x)
    product, error = two_product(y, high)
    error = f64_fma(y, low, error)
    error = error if f64_abs(product) < f64(800.0) else f64(0.0)
    product = f64_clamp(product, f64(-800.0), f64(800.0))
    whole, e = f64_nearest(product, f64({LOG2_E!r}))
    r = f64_fma(whole, f64({-LN2_F64[0]!r}), product)
    r = f64(r + f64_fma(whole, f64({-LN2_F64[1]!r}), error))
    return f64_scale(f64(f64_exp_minus_one(r) + f64(1.0)), e)
"""


def _power(m: Format) -> str:
    f, i = m.name, m.integer
    return f"""
def {f}_pow(x: {f}, y: {f}) -> {f}:
    one = {m.number(1.0)}
    size = {f}_abs(x)
    result = one if size == one else {f}_pow_positive(size, y)
    whole = {f}_trunc(y) == y
    half = {f}(y * {m.number(0.5)})
    odd = whole and not ({f}_trunc(half) == half)
    result = {f}(-result) if odd and {f}_bits(x) < {i}(0) else result
    below = x < {m.number(0.0)} and x != {f}(-inf)
    result = {f}(nan) if below and not whole else result
    result = {f}(x + y) if x != x or y != y else result
    return one if y == {m.number(0.0)} or x == one else result
"""
