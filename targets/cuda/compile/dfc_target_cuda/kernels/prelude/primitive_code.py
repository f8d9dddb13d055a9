"""The primitive instructions of kernel functions as LLVM code of the device.

Assumes numba-cuda; only what makes code for devices imports this. Guarantees the meaning that `dfc.kernels.primitives`
states: one instruction or a few each, square root, division and conversions round once, subnormal numbers are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dfc.ir.dtypes import DType
from dfc.kernels.primitives import COMPARISONS, number_value
from dfc_target_cuda.kernels.prelude.intrinsics import LONG, WORD, call, ir

_REAL = {"f32": ir.FloatType(), "f64": ir.DoubleType()}
_ORDERS = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_INTEGER = {
    "and": "and_",
    "or": "or_",
    "shift_left": "shl",
    "neg": "neg",
    "not": "not_",
}
"""Of integers and truth values, where LLVM's builder has another name."""
_OF_FLOATS = {
    **{name: f"llvm.{name}.f{{bits}}" for name in ("floor", "ceil", "trunc", "copysign", "fma")},
    "multiply_add": "llvm.fma.f{bits}",
    "round": "llvm.nvvm.round.{letter}",
    "abs": "llvm.nvvm.fabs.{letter}",
    "sqrt": "llvm.nvvm.sqrt.rn.{letter}",
}


def machine_type(dtype: DType) -> Any:
    """What a register of this type is."""
    return _REAL.get(dtype.name) or ir.IntType(1 if dtype.is_bool else 8 * dtype.size)


def number(dtype: DType, bits: bytes) -> Any:
    return ir.Constant(machine_type(dtype), number_value(dtype, bits))


def primitive(builder: Any, name: str, operands: Sequence[Any], source: DType, target: DType) -> Any:
    """The value of a primitive; `source` is the type of its first operand."""
    x = operands[0]
    match name:
        case "select":
            return builder.select(*operands)
        case "convert":
            return _converted(builder, x, source, target)
        case "bits":
            return builder.bitcast(x, machine_type(target))
        case "mul_high":
            return call(builder, "llvm.nvvm.mulhi.ull", LONG, operands)
        case "leading_zeros":
            return call(builder, "llvm.ctlz.i64", LONG, [x, ir.Constant(ir.IntType(1), 0)])
        case _ if name in COMPARISONS:
            return _compared(builder, _ORDERS[name], operands, source)
        case _ if source.is_float:
            return _of_floats(builder, name, operands, source)
        case "quotient" | "remainder":
            return _divided(builder, name, operands, source)
        case "shift_right":
            return (builder.ashr if source.kind == "signed" else builder.lshr)(*operands)
        case _:
            return getattr(builder, _INTEGER.get(name, name))(*operands)


def _compared(builder: Any, order: str, operands: Sequence[Any], dtype: DType) -> Any:
    if dtype.is_float:
        return (builder.fcmp_unordered if order == "!=" else builder.fcmp_ordered)(order, *operands)
    return (builder.icmp_signed if dtype.kind == "signed" else builder.icmp_unsigned)(order, *operands)


def _of_floats(builder: Any, name: str, operands: Sequence[Any], dtype: DType) -> Any:
    if name == "neg":
        return builder.fsub(ir.Constant(machine_type(dtype), -0.0), *operands)
    form = _OF_FLOATS.get(name)
    if form is None:
        return getattr(builder, f"f{name}")(*operands)
    function = form.format(bits=8 * dtype.size, letter="f" if dtype.size == 4 else "d")
    return call(builder, function, machine_type(dtype), operands)


def _divided(builder: Any, name: str, operands: Sequence[Any], dtype: DType) -> Any:
    """Rounded down; the divisor is neither 0 nor -1."""
    x, y = operands
    if dtype.kind == "unsigned":
        return builder.udiv(x, y) if name == "quotient" else builder.urem(x, y)
    zero, one = (ir.Constant(x.type, value) for value in (0, 1))
    rest = builder.srem(x, y)
    differ = builder.icmp_signed("<", builder.xor(rest, y), zero)
    below = builder.and_(builder.icmp_signed("!=", rest, zero), differ)
    if name == "remainder":
        return builder.select(below, builder.add(rest, y), rest)
    quotient = builder.sdiv(x, y)
    return builder.select(below, builder.sub(quotient, one), quotient)


def _converted(builder: Any, x: Any, source: DType, target: DType) -> Any:
    kind = machine_type(target)
    if source.is_float and target.is_float:
        return x if source == target else (builder.fpext if source.size < target.size else builder.fptrunc)(x, kind)
    if target.is_float:
        return (builder.sitofp if source.kind == "signed" else builder.uitofp)(x, kind)
    if not source.is_float:
        if source.size >= target.size:
            return builder.trunc(x, kind) if source.size > target.size else x
        return (builder.sext if source.kind == "signed" else builder.zext)(x, kind)
    if target.size < WORD.width // 8:  # there are no conversions to less
        return builder.trunc(builder.fptosi(x, WORD), kind)
    return (builder.fptosi if target.kind == "signed" else builder.fptoui)(x, kind)
