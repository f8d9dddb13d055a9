"""The scalar primitives of `dfc.kernels.primitives` as LLVM instructions on any number of lanes.

Assumes operands of types that the primitive is for (`fits`). Guarantees the same bits for any number of lanes.
"""

from collections.abc import Callable, Sequence

from dfc.ir.dtypes import DType
from dfc.kernels.errors import CodeGenerationError
from dfc_target_cpu.elementwise.types import is_signed, register_type
from dfc_target_cpu.llvm.text import FunctionText, Value
from dfc_target_cpu.llvm.values import constant, intrinsic_suffix, is_floating, like, zero

_ORDERED = {"equal": "oeq", "not_equal": "une", "less": "olt", "less_equal": "ole", "greater": "ogt"}
_ORDERED["greater_equal"] = "oge"
_INTEGER = {"equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}


def primitive(f: FunctionText, name: str, a: Sequence[Value], source: DType, target: DType) -> Value:
    """One primitive of operands whose first has type `source`."""
    if name == "select":
        return f.select(a[0], a[1], a[2])
    if name in _INTEGER:
        return compare(f, name, a[0], a[1], source)
    if name == "convert":
        return _converted(f, a[0], source, target)
    if name == "bits":
        return f.cast("bitcast", a[0], like(a[0].type, register_type(target)))
    emit = (_FLOAT if source.is_float else _INTEGRAL).get(name)
    if emit is None:
        raise CodeGenerationError(f"no primitive {name} on {source}")
    return emit(f, a, source)


def compare(f: FunctionText, name: str, a: Value, b: Value, dtype: DType) -> Value:
    if is_floating(a.type):
        return f.fcmp(_ORDERED[name], a, b)
    predicate = _INTEGER[name]
    if predicate not in ("eq", "ne"):
        predicate = ("s" if is_signed(dtype) else "u") + predicate
    return f.icmp(predicate, a, b)


def _converted(f: FunctionText, value: Value, source: DType, target: DType) -> Value:
    kind = like(value.type, register_type(target))
    if source.is_float == target.is_float:
        return f.resize(value, kind, signed=is_signed(source)) if kind != value.type else value
    if target.is_float:
        return f.cast("sitofp" if is_signed(source) else "uitofp", value, kind)
    return f.cast("fptosi" if is_signed(target) else "fptoui", value, kind)


def _shift_right(f: FunctionText, a: Sequence[Value], dtype: DType) -> Value:
    return (f.ashr if is_signed(dtype) else f.lshr)(a[0], a[1])


def _quotient(f: FunctionText, a: Sequence[Value], dtype: DType) -> Value:
    if not is_signed(dtype):
        return f.udiv(a[0], a[1])
    truncated = f.sdiv(a[0], a[1])
    below = _rounding_up(f, f.sub(a[0], f.mul(truncated, a[1])), a[1])
    return f.select(below, f.sub(truncated, constant(a[0].type, 1)), truncated)


def _remainder(f: FunctionText, a: Sequence[Value], dtype: DType) -> Value:
    if not is_signed(dtype):
        return f.urem(a[0], a[1])
    rest = f.sub(a[0], f.mul(f.sdiv(a[0], a[1]), a[1]))
    return f.select(_rounding_up(f, rest, a[1]), f.add(rest, a[1]), rest)


def _rounding_up(f: FunctionText, rest: Value, divisor: Value) -> Value:
    """Whether truncation, which leaves this rest, is above rounding down."""
    crosses = f.icmp("slt", f.bit_xor(rest, divisor), zero(divisor.type))
    return f.bit_and(f.icmp("ne", rest, zero(rest.type)), crosses)


def _not(f: FunctionText, a: Sequence[Value], dtype: DType) -> Value:
    return f.bit_xor(a[0], constant(a[0].type, True if dtype.is_bool else -1))


def _mul_high(f: FunctionText, a: Sequence[Value], dtype: DType) -> Value:
    wide = like(a[0].type, "i128")
    product = f.binary("mul", f.cast("zext", a[0], wide), f.cast("zext", a[1], wide))
    return f.cast("trunc", f.lshr(product, constant(wide, 64)), a[0].type)


def _leading_zeros(f: FunctionText, a: Sequence[Value], dtype: DType) -> Value:
    name = f"llvm.ctlz.{intrinsic_suffix(a[0].type)}"
    f.declare(name, a[0].type, [a[0].type, "i1"])
    return f.assign(a[0].type, f"call {a[0].type} @{name}({a[0]}, i1 false)")


_Emit = Callable[[FunctionText, Sequence[Value], DType], Value]


def _intrinsic(name: str) -> _Emit:
    return lambda f, a, _: f.intrinsic(name, *a)


def _binary(opcode: str) -> _Emit:
    return lambda f, a, _: f.binary(opcode, a[0], a[1])


_FLOAT: dict[str, _Emit] = {
    "neg": lambda f, a, _: f.fneg(a[0]),
    "abs": _intrinsic("fabs"),
    "round": _intrinsic("roundeven"),
    **{name: _intrinsic(name) for name in ("sqrt", "floor", "ceil", "trunc", "copysign", "fma")},
    "multiply_add": _intrinsic("fmuladd"),
    **{name: _binary(f"f{name}") for name in ("add", "sub", "mul", "div")},
}

_INTEGRAL: dict[str, _Emit] = {
    "not": _not,
    "add": lambda f, a, _: f.add(a[0], a[1]),
    "sub": lambda f, a, _: f.sub(a[0], a[1]),
    "mul": lambda f, a, _: f.mul(a[0], a[1]),
    **{name: _binary(name) for name in ("and", "or", "xor")},
    "shift_left": _binary("shl"),
    "shift_right": _shift_right,
    "quotient": _quotient,
    "remainder": _remainder,
    "mul_high": _mul_high,
    "leading_zeros": _leading_zeros,
}
