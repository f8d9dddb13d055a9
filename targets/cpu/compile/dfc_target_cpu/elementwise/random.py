"""Counter-based random numbers as vector code: the definition in `dfc.ops.creation.philox`, an element a lane.

Assumes arguments as i64: element number, key0, key1, draw. Guarantees the same words as the definition; uniform numbers
are bit-equal to it, normal ones within the bounds of the logarithm and the circle functions.
"""

import math
from collections.abc import Sequence

from dfc.ir.dtypes import DType
from dfc_target_cpu.elementwise.functions import Functions
from dfc_target_cpu.llvm.text import FunctionText, Value
from dfc_target_cpu.llvm.values import constant, like

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_UNIFORM_BITS = {"f32": 24, "f16": 11, "bf16": 8}


def random_element(
    functions: Functions, f: FunctionText, distribution: str, arguments: Sequence[Value], dtype: DType
) -> Value:
    """One element of a draw in each lane, in the register type of `dtype`."""
    code = _Random(functions, f, arguments)
    if distribution == "uniform":
        return code.uniform_double() if dtype.name == "f64" else code.uniform_single(_UNIFORM_BITS[dtype.name])
    value = code.normal_double() if dtype.name == "f64" else code.normal_single()
    return functions.conversions.round(f, value, dtype)


class _Random:
    """Words are held in 64-bit lanes, where their products fit."""

    def __init__(self, functions: Functions, f: FunctionText, arguments: Sequence[Value]) -> None:
        self.functions = functions
        self.f = f
        self.element, self.key0, self.key1, self.draw = arguments
        self.kind = self.element.type

    def number(self, value: int) -> Value:
        return constant(self.kind, value - (1 << 64) if value >= 1 << 63 else value)

    def low(self, value: Value) -> Value:
        return self.f.bit_and(value, self.number(0xFFFFFFFF))

    def high(self, value: Value) -> Value:
        return self.f.lshr(value, self.number(32))

    def words(self, per_block: int) -> list[Value]:
        """The four words of the block that holds the element."""
        f = self.f
        block = f.lshr(self.element, self.number(per_block.bit_length() - 1))
        key = f.bit_xor(self.key0, self.key1)
        c = [self.low(block), self.high(block), self.low(self.draw), self.high(self.draw)]
        k = [self.low(key), self.high(key)]
        for _ in range(_ROUNDS):
            first = f.binary("mul", c[0], self.number(_MULTIPLIERS[0]))
            second = f.binary("mul", c[2], self.number(_MULTIPLIERS[1]))
            left = f.bit_xor(f.bit_xor(self.high(second), c[1]), k[0])
            right = f.bit_xor(f.bit_xor(self.high(first), c[3]), k[1])
            c = [left, self.low(second), right, self.low(first)]
            k = [self.low(f.binary("add", k[i], self.number(_WEYL[i]))) for i in range(2)]
        return c

    def bit(self, number: int) -> Value:
        """Whether a bit of the element number is set."""
        return self.f.icmp("ne", self.f.bit_and(self.element, self.number(1 << number)), self.number(0))

    def uniform_single(self, bits: int) -> Value:
        w = self.words(4)
        f, odd, upper = self.f, self.bit(0), self.bit(1)
        word = f.select(upper, f.select(odd, w[3], w[2]), f.select(odd, w[1], w[0]))
        return self._single(f.lshr(word, self.number(32 - bits)), 2.0**-bits)

    def _single(self, whole: Value, scale: float) -> Value:
        """A whole number below 2^31, scaled."""
        narrow = self.f.cast("trunc", whole, like(self.kind, "i32"))
        value = self.f.cast("sitofp", narrow, like(self.kind, "float"))
        return self.f.fmul(value, constant(value.type, scale))

    def _double(self, whole: Value) -> Value:
        value = self.f.cast("sitofp", whole, like(self.kind, "double"))
        return self.f.fmul(value, constant(value.type, 2.0**-53))

    def _wide(self, low: Value, high: Value) -> Value:
        """The upper 53 bits of two words."""
        return self.f.lshr(self.f.bit_or(low, self.f.shl(high, self.number(32))), self.number(11))

    def uniform_double(self) -> Value:
        w = self.words(2)
        odd = self.bit(0)
        low, high = self.f.select(odd, w[2], w[0]), self.f.select(odd, w[3], w[1])
        return self._double(self._wide(low, high))

    def normal_single(self) -> Value:
        w = self.words(4)
        f, upper, eight, scale = self.f, self.bit(1), self.number(8), 2.0**-24
        first = f.lshr(f.select(upper, w[2], w[0]), eight)
        second = f.lshr(f.select(upper, w[3], w[1]), eight)
        # the sum is made of whole numbers: 2^24 is exact in single precision
        return self._box_muller(self._single(f.add(first, self.number(1)), scale), self._single(second, scale))

    def normal_double(self) -> Value:
        w = self.words(2)
        first = self.f.add(self._wide(w[0], w[1]), self.number(1))
        return self._box_muller(self._double(first), self._double(self._wide(w[2], w[3])))

    def _box_muller(self, u: Value, t: Value) -> Value:
        f, kind, elementary = self.f, u.type, self.functions.elementary
        log = elementary(f, "log", u)
        radius = f.intrinsic("sqrt", f.fmul(log, constant(kind, -2.0)))
        angle = f.fmul(t, constant(kind, 2 * math.pi))
        circle = f.select(self.bit(0), elementary(f, "sin", angle), elementary(f, "cos", angle))
        return f.fmul(radius, circle)
