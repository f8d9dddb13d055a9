"""The scalar functions of kernel bodies that are not expansions: integers, choices, roundings of types, remainders.

Assumes the primitives of `prelude`. Guarantees NumPy's meaning as `dfc.kernels.body` states it; integer division does
not trap (a zero divisor gives 0; reporting it is the caller's part), shift counts wrap at the width as on the CPU.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """An IEEE format: the names of its functions begin with `name`, its bits are an `integer`."""

    name: str
    integer: str
    mantissa: int

    def number(self, value: float) -> str:
        return f"{self.name}({value!r})"


SINGLE = Format("f32", "i32", 23)
DOUBLE = Format("f64", "i64", 52)

_INTEGERS = {f"{kind}{bits}": bits for kind in "iu" for bits in (8, 16, 32, 64)}


def scalar_text() -> str:
    """All functions, for all types."""
    integers = [part(name, bits) for name, bits in _INTEGERS.items() for part in (_integer, _division, _saturated)]
    floats = [part(m) for m in (SINGLE, DOUBLE) for part in (_floating, _remainder, _floor_division)]
    return "".join([*integers, *floats, _BOOLEAN, _HALVES])


def _integer(t: str, bits: int) -> str:
    signed = t[0] == "i"
    absolute = f"{t}(-x) if x < {t}(0) else x" if signed else "x"
    sign = f"{t}(1) if x > {t}(0) else " + (f"({t}(-1) if x < {t}(0) else {t}(0))" if signed else f"{t}(0)")
    return f"""
def {t}_neg(x: {t}) -> {t}:
    return {t}({t}(0) - x)

def {t}_abs(x: {t}) -> {t}:
    return {absolute}

def {t}_sign(x: {t}) -> {t}:
    return {sign}

def {t}_minimum(x: {t}, y: {t}) -> {t}:
    return x if x < y else y

def {t}_maximum(x: {t}, y: {t}) -> {t}:
    return x if x > y else y

def {t}_shift_left(x: {t}, count: {t}) -> {t}:
    return {t}(x << {t}(count & {t}({bits - 1})))

def {t}_shift_right(x: {t}, count: {t}) -> {t}:
    return {t}(x >> {t}(count & {t}({bits - 1})))

def {t}_pow(base: {t}, exponent: {t}) -> {t}:
    product = {t}(1)
    square = base
    left = u{bits}(exponent)
    while left != u{bits}(0):
        if u{bits}(left & u{bits}(1)) != u{bits}(0):
            product = {t}(product * square)
        square = {t}(square * square)
        left = u{bits}(left >> u{bits}(1))
    return product
"""


def _division(t: str, bits: int) -> str:
    """The smallest number / -1 wraps."""
    if t[0] == "u":
        return f"""
def {t}_floordiv(x: {t}, y: {t}) -> {t}:
    if y == {t}(0):
        return {t}(0)
    return {t}(x // y)

def {t}_mod(x: {t}, y: {t}) -> {t}:
    if y == {t}(0):
        return {t}(0)
    return {t}(x % y)
"""
    return f"""
def {t}_floordiv(x: {t}, y: {t}) -> {t}:
    if y == {t}(0):
        return {t}(0)
    if y == {t}(-1):
        return {t}({t}(0) - x)
    return {t}(x // y)

def {t}_mod(x: {t}, y: {t}) -> {t}:
    if y == {t}(0) or y == {t}(-1):
        return {t}(0)
    return {t}(x % y)
"""


def _saturated(t: str, bits: int) -> str:
    """Truncation towards zero; the limits are powers of two and so exact in both formats."""
    most = (1 << (bits - 1)) - 1 if t[0] == "i" else (1 << bits) - 1
    least = -most - 1 if t[0] == "i" else 0
    return "".join(
        f"""
def to_{t}_from_{m.name}(x: {m.name}) -> {t}:
    if x != x:
        return {t}(0)
    if x >= {m.number(float(most + 1))}:
        return {t}({most})
    if x <= {m.number(float(least))}:
        return {t}({least})
    {_truncated(t, m)}
"""
        for m in (SINGLE, DOUBLE)
    )


def _truncated(t: str, m: Format) -> str:
    """A number in range; u64 alone reaches beyond the numbers of i64."""
    if t != "u64":
        return f"return {t}(i64(x))"
    half = m.number(2.0**63)
    return f"return u64(i64(x)) if x < {half} else u64(u64(i64({m.name}(x - {half}))) | u64({1 << 63}))"


def _floating(m: Format) -> str:
    """A minimum or maximum is NaN if either is; of equal numbers (zeros) the first is taken where it beats."""
    f, one, zero = m.name, m.number(1.0), m.number(0.0)
    return f"""
def {f}_sign(x: {f}) -> {f}:
    return {one} if x > {zero} else ({m.number(-1.0)} if x < {zero} else x)

def {f}_minimum(x: {f}, y: {f}) -> {f}:
    kept = x if x != x else y
    return x if x < kept else kept

def {f}_maximum(x: {f}, y: {f}) -> {f}:
    kept = x if x != x else y
    return x if x > kept else kept

def {f}_is_finite(x: {f}) -> boolean:
    return {f}_abs(x) < {f}(inf)
"""


def _remainder(m: Format) -> str:
    """C's fmod by long division of significands: exact, sign of the dividend."""
    f, width, fraction = m.name, 64 if m is DOUBLE else 32, m.mantissa
    u = f"u{width}"
    return f"""
def {f}_remainder(x: {f}, y: {f}) -> {f}:
    size_x = {f}_abs(x)
    size_y = {f}_abs(y)
    if not size_x < {f}(inf) or y == {m.number(0.0)} or y != y:
        return {f}(nan)
    if size_x < size_y:
        return x
    a = {u}({f}_bits(size_x))
    b = {u}({f}_bits(size_y))
    exponent_a = i64({u}(a >> {u}({fraction})))
    exponent_b = i64({u}(b >> {u}({fraction})))
    a = {u}(a & {u}({(1 << fraction) - 1}))
    b = {u}(b & {u}({(1 << fraction) - 1}))
    if exponent_a == i64(0):
        exponent_a = i64(1)
    else:
        a = {u}(a | {u}({1 << fraction}))
    if exponent_b == i64(0):
        exponent_b = i64(1)
    else:
        b = {u}(b | {u}({1 << fraction}))
    rest = {u}(a % b)
    for _ in range(i64(exponent_a - exponent_b)):
        rest = {u}(rest << {u}(1))
        rest = rest if rest < b else {u}(rest - b)
    shift = i64(leading_zeros_u64(u64(rest)) - i64({63 - fraction}))
    shift = shift if shift < i64(exponent_b - i64(1)) else i64(exponent_b - i64(1))
    rest = {u}(rest << {u}(shift))
    if rest >= {u}({1 << fraction}):
        exponent = {u}(i64(exponent_b - shift))
        rest = {u}({u}(rest & {u}({(1 << fraction) - 1})) | {u}(exponent << {u}({fraction})))
    return {f}_copysign({f}_from_bits({m.integer}(rest)), x)

def {f}_mod(x: {f}, y: {f}) -> {f}:
    rest = {f}_remainder(x, y)
    if rest == {m.number(0.0)}:
        return {f}_copysign({m.number(0.0)}, y)
    return {f}(rest + y) if (y < {m.number(0.0)}) != (rest < {m.number(0.0)}) else rest
"""


def _floor_division(m: Format) -> str:
    f, zero, one = m.name, m.number(0.0), m.number(1.0)
    return f"""
def {f}_floordiv(x: {f}, y: {f}) -> {f}:
    plain = {f}(x / y)
    if y == {zero}:
        return plain
    rest = {f}_remainder(x, y)
    quotient = {f}({f}(x - rest) / y)
    if rest != {zero} and (y < {zero}) != (rest < {zero}):
        quotient = {f}(quotient - {one})
    if quotient == {zero}:
        return {f}_copysign({zero}, plain)
    down = {f}_floor(quotient)
    return {f}(down + {one}) if {f}(quotient - down) > {m.number(0.5)} else down
"""


_BOOLEAN = """
def boolean_minimum(x: boolean, y: boolean) -> boolean:
    return x and y

def boolean_maximum(x: boolean, y: boolean) -> boolean:
    return x or y
"""

_HALVES = """
def bf16_load(x: u16) -> f32:
    return f32_from_bits(i32(u32(u32(x) << u32(16))))

def bf16_store(x: f32) -> u16:
    bits = u32(f32_bits(x))
    rounded = u32(bits + u32(u32(u32(bits >> u32(16)) & u32(1)) + u32(32767)))
    rounded = u32(bits | u32(4194304)) if x != x else rounded
    return u16(u32(rounded >> u32(16)))

def f16_round(x: f32) -> f32:
    return f16_load(f16_store(x))

def bf16_round(x: f32) -> f32:
    return bf16_load(bf16_store(x))

def f32_to_odd(x: f64) -> f32:
    single = f32(x)
    back = f64(single)
    if back == x or back != back:
        return single
    bits = f32_bits(single)
    if f64_abs(back) > f64_abs(x):
        bits = i32(bits - i32(1))
    return f32_from_bits(i32(bits | i32(1)))

def f16_from_f64(x: f64) -> f32:
    return f16_round(f32_to_odd(x))

def bf16_from_f64(x: f64) -> f32:
    return bf16_round(f32_to_odd(x))
"""
