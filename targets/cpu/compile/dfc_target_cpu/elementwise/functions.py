"""The scalar functions of kernel bodies on values of any number of lanes.

Assumes operands of the types a verified body has. Guarantees NumPy's meaning as stated in `dfc.kernels.body`, and
integer division that cannot trap (a zero divisor gives 0; reporting it is the caller's part).
"""

from collections.abc import Callable, Sequence

from dfc.ir.dtypes import F32, F64, DType
from dfc.kernels.errors import CodeGenerationError
from dfc.kernels.primitives import COMPARISONS
from dfc.lower.legalise.elementary import ELEMENTARY, elementary
from dfc_target_cpu.elementwise.casts import cast
from dfc_target_cpu.elementwise.kernel_functions import KernelFunctions
from dfc_target_cpu.elementwise.primitives import compare
from dfc_target_cpu.elementwise.remainder import float_floor_divide, float_modulo, integer_power
from dfc_target_cpu.elementwise.types import Conversions, is_signed
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Value
from dfc_target_cpu.llvm.values import bit_width, constant, element_type, is_floating, like, zero
from dfc_target_cpu.machine import Machine

_ROUNDING = {"floor": "floor", "ceil": "ceil", "round": "roundeven", "trunc": "trunc"}


class Functions:
    """Emits scalar functions into functions of one module."""

    def __init__(self, module: ModuleText, machine: Machine) -> None:
        self.module = module
        self.machine = machine
        self.conversions = Conversions(machine)
        self.kernel_functions = KernelFunctions(module, machine)

    def apply(
        self, f: FunctionText, name: str, arguments: Sequence[Value], types: Sequence[DType], result: DType
    ) -> Value:
        """`types` are the element types of the arguments."""
        if name == "cast":
            return cast(self.conversions, f, arguments[0], types[0], result)
        if name == "select":
            return f.select(arguments[0], arguments[1], arguments[2])
        if name in COMPARISONS:
            return compare(f, name, arguments[0], arguments[1], types[0])
        if name in ELEMENTARY and types[0].is_float:
            return self.elementary(f, name, *arguments)
        if name == "fma":
            return self.fused(f, *arguments)
        table = _FLOAT if is_floating(arguments[0].type) else _INTEGRAL
        known = table.get(name)
        if known is None:
            raise CodeGenerationError(f"no scalar function {name} on {types[0]}")
        return known(self, f, arguments, types[0])

    def elementary(self, f: FunctionText, name: str, *arguments: Value) -> Value:
        dtype = F64 if element_type(arguments[0].type) == "double" else F32
        return self.kernel_functions.apply(f, elementary(name, dtype), *arguments)[0]

    def fused(self, f: FunctionText, a: Value, b: Value, c: Value) -> Value:
        """One rounding. Without the instruction: exactly in double precision, then rounded once."""
        if self.machine.fused_multiply_add:
            return f.fma(a, b, c)
        if not a.type.endswith("float") and "x float" not in a.type:
            raise CodeGenerationError("fma of f64 needs a machine with the instruction")
        wide = like(a.type, "double")
        product = f.fmul(f.resize(a, wide), f.resize(b, wide))
        return f.resize(sum_rounded_to_odd(f, product, f.resize(c, wide)), a.type)


def sum_rounded_to_odd(f: FunctionText, a: Value, b: Value) -> Value:
    """a + b in double precision; where inexact, the neighbour whose last bit is set, so that rounding once more to
    single precision is as rounding the exact sum."""
    total = f.fadd(a, b)
    part = f.fsub(total, a)
    error = f.fadd(f.fsub(a, f.fsub(total, part)), f.fsub(b, part))
    inexact = f.fcmp("one", error, zero(error.type))
    kind = like(total.type, "i64")
    bits = f.cast("bitcast", total, kind)
    even = f.icmp("eq", f.bit_and(bits, constant(kind, 1)), constant(kind, 0))
    away = f.icmp("slt", f.bit_xor(bits, f.cast("bitcast", error, kind)), constant(kind, 0))
    step = f.select(away, constant(kind, -1), constant(kind, 1))
    odd = f.select(f.bit_and(inexact, even), f.add(bits, step), bits)
    return f.cast("bitcast", odd, total.type)


def float_minimum(f: FunctionText, a: Value, b: Value) -> Value:
    """NaN if either is."""
    return _float_extreme(f, "olt", a, b)


def float_maximum(f: FunctionText, a: Value, b: Value) -> Value:
    return _float_extreme(f, "ogt", a, b)


def _float_extreme(f: FunctionText, beats: str, a: Value, b: Value) -> Value:
    """Written such that the second choice is one instruction, and the first does not wait for the last round of a fold,
    whose value is `b`."""
    kept = f.select(f.fcmp("uno", a, a), a, b)
    return f.select(f.fcmp(beats, a, kept), a, kept)


def integer_floor_divide(f: FunctionText, a: Value, b: Value, dtype: DType) -> tuple[Value, Value]:
    """Quotient and remainder, rounded down; (0, 0) for a zero divisor; the smallest number / -1 wraps."""
    none = f.icmp("eq", b, zero(b.type))
    one = constant(b.type, 1)
    if not is_signed(dtype):
        divisor = f.select(none, one, b)
        quotient = f.select(none, zero(a.type), f.udiv(a, divisor))
        return quotient, f.select(none, zero(a.type), f.urem(a, divisor))
    negates = f.icmp("eq", b, constant(b.type, -1))
    divisor = f.select(f.bit_or(none, negates), one, b)
    truncated = f.sdiv(a, divisor)
    rest = f.sub(a, f.mul(truncated, divisor))
    crosses = f.icmp("slt", f.bit_xor(rest, divisor), zero(b.type))
    adjust = f.bit_and(f.icmp("ne", rest, zero(b.type)), crosses)
    quotient = f.select(adjust, f.sub(truncated, one), truncated)
    quotient = f.select(negates, f.sub(zero(a.type), a), quotient)
    rest = f.select(adjust, f.add(rest, divisor), rest)
    return f.select(none, zero(a.type), quotient), f.select(none, zero(a.type), rest)


def _float_sign(f: FunctionText, a: Value) -> Value:
    positive = f.fcmp("ogt", a, zero(a.type))
    negative = f.fcmp("olt", a, zero(a.type))
    return f.select(positive, constant(a.type, 1.0), f.select(negative, constant(a.type, -1.0), a))


def _integer_sign(f: FunctionText, a: Value, dtype: DType) -> Value:
    positive = f.cast("zext", f.icmp("sgt" if is_signed(dtype) else "ne", a, zero(a.type)), a.type)
    if not is_signed(dtype):
        return positive
    return f.sub(positive, f.cast("zext", f.icmp("slt", a, zero(a.type)), a.type))


def _integer_absolute(f: FunctionText, a: Value, dtype: DType) -> Value:
    if not is_signed(dtype):
        return a
    return f.select(f.icmp("slt", a, zero(a.type)), f.sub(zero(a.type), a), a)


def _within_width(f: FunctionText, count: Value) -> Value:
    """A shift count that is in range, whatever it was: beyond the width LLVM promises nothing."""
    return f.bit_and(count, constant(count.type, bit_width(element_type(count.type)) - 1))


def _integer_extreme(f: FunctionText, a: Value, b: Value, dtype: DType, *, largest: bool) -> Value:
    if dtype.is_bool:
        return f.bit_or(a, b) if largest else f.bit_and(a, b)
    return (f.maximum if largest else f.minimum)(a, b, signed=is_signed(dtype))


_Emit = Callable[[Functions, FunctionText, Sequence[Value], DType], Value]

_FLOAT: dict[str, _Emit] = {
    "neg": lambda _, f, a, t: f.fneg(a[0]),
    "abs": lambda _, f, a, t: f.intrinsic("fabs", a[0]),
    "sign": lambda _, f, a, t: _float_sign(f, a[0]),
    "sqrt": lambda _, f, a, t: f.intrinsic("sqrt", a[0]),
    "is_finite": lambda _, f, a, t: f.fcmp("olt", f.intrinsic("fabs", a[0]), constant(a[0].type, float("inf"))),
    "add": lambda _, f, a, t: f.fadd(a[0], a[1]),
    "sub": lambda _, f, a, t: f.fsub(a[0], a[1]),
    "mul": lambda _, f, a, t: f.fmul(a[0], a[1]),
    "div": lambda _, f, a, t: f.fdiv(a[0], a[1]),
    "minimum": lambda _, f, a, t: float_minimum(f, a[0], a[1]),
    "maximum": lambda _, f, a, t: float_maximum(f, a[0], a[1]),
    "floordiv": lambda s, f, a, t: float_floor_divide(s.module, f, a[0], a[1]),
    "mod": lambda s, f, a, t: float_modulo(s.module, f, a[0], a[1]),
    **{name: lambda _, f, a, t, i=i: f.intrinsic(i, a[0]) for name, i in _ROUNDING.items()},
}

_INTEGRAL: dict[str, _Emit] = {
    "neg": lambda _, f, a, t: f.sub(zero(a[0].type), a[0]),
    "abs": lambda _, f, a, t: _integer_absolute(f, a[0], t),
    "sign": lambda _, f, a, t: _integer_sign(f, a[0], t),
    "not": lambda _, f, a, t: f.bit_xor(a[0], constant(a[0].type, True if t.is_bool else -1)),
    "add": lambda _, f, a, t: f.add(a[0], a[1]),
    "sub": lambda _, f, a, t: f.sub(a[0], a[1]),
    "mul": lambda _, f, a, t: f.mul(a[0], a[1]),
    "and": lambda _, f, a, t: f.bit_and(a[0], a[1]),
    "or": lambda _, f, a, t: f.bit_or(a[0], a[1]),
    "xor": lambda _, f, a, t: f.bit_xor(a[0], a[1]),
    "shift_left": lambda _, f, a, t: f.shl(a[0], _within_width(f, a[1])),
    "shift_right": lambda _, f, a, t: (f.ashr if is_signed(t) else f.lshr)(a[0], _within_width(f, a[1])),
    "minimum": lambda _, f, a, t: _integer_extreme(f, a[0], a[1], t, largest=False),
    "maximum": lambda _, f, a, t: _integer_extreme(f, a[0], a[1], t, largest=True),
    "floordiv": lambda _, f, a, t: integer_floor_divide(f, a[0], a[1], t)[0],
    "mod": lambda _, f, a, t: integer_floor_divide(f, a[0], a[1], t)[1],
    "pow": lambda s, f, a, t: integer_power(s.module, f, a[0], a[1]),
    **{name: lambda _, f, a, t: a[0] for name in _ROUNDING},
}
