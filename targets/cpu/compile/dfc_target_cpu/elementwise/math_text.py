"""What the elementary functions are written with: constants, polynomials, exponent bits, exact sums and products.

Assumes IEEE single or double in any number of lanes. Guarantees the same operations in each lane, so that bits do not
depend on the width. Where a machine lacks fused multiply-add, `multiply_add` rounds twice and the exact product splits
its factors: results stay within their bounds, but may differ in the last bit from other variants.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Value
from dfc_target_cpu.llvm.values import constant, element_type, lane_count, like


@dataclass(frozen=True, slots=True)
class Format:
    """An IEEE format by its numbers."""

    bits: int
    mantissa: int
    bias: int

    @property
    def sign_mask(self) -> int:
        return -(1 << (self.bits - 1))

    @property
    def round_magic(self) -> float:
        """Adding this leaves the nearest integer in the low bits of the mantissa."""
        return 1.5 * 2.0**self.mantissa

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)


FORMATS = {"float": Format(32, 23, 127), "double": Format(64, 52, 1023)}

Pair = tuple[Value, Value]
"""An unevaluated sum: high and low part."""


class MathText:
    """Arithmetic on one floating-point type inside a function."""

    def __init__(self, module: ModuleText, f: FunctionText, type_text: str, fused: bool, scales: bool = False) -> None:
        self.module, self.f, self.type, self.fused = module, f, type_text, fused
        self.scales = scales  # whether the machine multiplies vectors by powers of two in one instruction
        self.format = FORMATS[element_type(type_text)]
        self.integer = like(type_text, f"i{self.format.bits}")

    @property
    def single(self) -> bool:
        return self.format.bits == 32

    def of_type(self, element: str) -> "MathText":
        """The same lanes in the other format."""
        return MathText(self.module, self.f, like(self.type, element), self.fused, self.scales)

    def number(self, value: float) -> Value:
        return constant(self.type, value)

    def whole(self, value: int) -> Value:
        return constant(self.integer, value)

    # --- plain arithmetic, in short

    def add(self, a: Value, b: Value) -> Value:
        return self.f.fadd(a, b)

    def sub(self, a: Value, b: Value) -> Value:
        return self.f.fsub(a, b)

    def mul(self, a: Value, b: Value) -> Value:
        return self.f.fmul(a, b)

    def muladd(self, a: Value, b: Value, c: Value) -> Value:
        return self.f.multiply_add(a, b, c)

    def horner(self, x: Value, coefficients: Sequence[float]) -> Value:
        """The polynomial with these coefficients, constant term first."""
        total = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            total = self.muladd(total, x, self.number(coefficient))
        return total

    # --- choice; a NaN is neither above nor below anything

    def when_greater(self, a: Value, b: Value, yes: Value, no: Value) -> Value:
        return self.f.select(self.f.fcmp("ogt", a, b), yes, no)

    def when_less(self, a: Value, b: Value, yes: Value, no: Value) -> Value:
        return self.f.select(self.f.fcmp("olt", a, b), yes, no)

    def when_equal(self, a: Value, b: Value, yes: Value, no: Value) -> Value:
        return self.f.select(self.f.fcmp("oeq", a, b), yes, no)

    def clamp(self, x: Value, low: float | None, high: float | None) -> Value:
        """NaN stays NaN."""
        if high is not None:
            x = self.when_greater(x, self.number(high), self.number(high), x)
        if low is not None:
            x = self.when_less(x, self.number(low), self.number(low), x)
        return x

    # --- bits

    def bits_of(self, x: Value) -> Value:
        return self.f.cast("bitcast", x, self.integer)

    def from_bits(self, bits: Value) -> Value:
        return self.f.cast("bitcast", bits, self.type)

    def absolute(self, x: Value) -> Value:
        return self.f.intrinsic("fabs", x)

    def with_sign_of(self, magnitude: Value, sign: Value) -> Value:
        return self.f.intrinsic("copysign", magnitude, sign)

    def power_of_two(self, exponent: Value) -> Value:
        """2 ** exponent for an integer in the range of normal numbers."""
        biased = self.f.add(exponent, self.whole(self.format.bias))
        return self.from_bits(self.f.shl(biased, self.whole(self.format.mantissa)))

    def scale(self, x: Value, whole: Value, exponent: Value) -> Value:
        """x * 2 ** exponent, rounded once, so that results may be subnormal: by one instruction, or in two steps of
        which the first is exact. `whole` and `exponent` are the same integer."""
        bits = lane_count(x.type) * self.format.bits
        if self.scales and bits in (128, 256, 512) and lane_count(x.type) > 1:
            return self._scaled_at_once(x, whole, bits)
        half = self.f.ashr(exponent, self.whole(1))
        first = self.mul(x, self.power_of_two(half))
        return self.mul(first, self.power_of_two(self.f.sub(exponent, half)))

    def _scaled_at_once(self, x: Value, whole: Value, bits: int) -> Value:
        lanes = lane_count(x.type)
        name = f"llvm.x86.avx512.mask.scalef.p{'s' if self.single else 'd'}.{bits}"
        mask = f"i{max(lanes, 8)}"
        rounding = [Value("i32", "4")] if bits == 512 else []  # 4: as the machine rounds at the time
        self.f.declare(name, x.type, [x.type, x.type, x.type, mask, *(each.type for each in rounding)])
        arguments = [x, whole, x, Value(mask, "-1"), *rounding]
        return self.f.assign(x.type, f"call {x.type} @{name}({', '.join(map(str, arguments))})")

    def nearest(self, x: Value, factor: float) -> tuple[Value, Value]:
        """The integer nearest to x * factor, as a number and as an integer. Meaningless, but harmless, for NaN."""
        magic = self.number(self.format.round_magic)
        shifted = self.muladd(x, self.number(factor), magic)
        return self.sub(shifted, magic), self.f.sub(self.bits_of(shifted), self.bits_of(magic))

    # --- unevaluated sums

    def two_sum(self, a: Value, b: Value) -> Pair:
        """a + b exactly."""
        total = self.add(a, b)
        part = self.sub(total, a)
        return total, self.add(self.sub(a, self.sub(total, part)), self.sub(b, part))

    def fast_two_sum(self, a: Value, b: Value) -> Pair:
        """a + b exactly, for |a| >= |b|."""
        total = self.add(a, b)
        return total, self.sub(b, self.sub(total, a))

    def two_product(self, a: Value, b: Value) -> Pair:
        """a * b exactly (no overflow, no underflow)."""
        product = self.mul(a, b)
        if self.fused:
            return product, self.f.fma(a, b, self.f.fneg(product))
        (a1, a0), (b1, b0) = self.halves(a), self.halves(b)
        error = self.sub(self.mul(a1, b1), product)
        error = self.add(self.add(error, self.mul(a1, b0)), self.mul(a0, b1))
        return product, self.add(error, self.mul(a0, b0))

    def halves(self, x: Value) -> Pair:
        """x cut into two numbers of half the mantissa."""
        low_bits = (self.format.mantissa + 1) // 2 + 1
        high = self.from_bits(self.f.bit_and(self.bits_of(x), self.whole(-(1 << low_bits))))
        return high, self.sub(x, high)
