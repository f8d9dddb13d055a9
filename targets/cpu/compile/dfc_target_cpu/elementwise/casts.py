"""Conversions between element types inside kernel bodies.

Guarantees: float to integer truncates and saturates, NaN gives 0; anything to bool is "not zero"; to f16 and bf16
rounds once to nearest even, from f64 too.
"""

from dfc.ir.dtypes import DType
from dfc_target_cpu.elementwise.types import Conversions, is_signed, register_type
from dfc_target_cpu.llvm.text import FunctionText, Value
from dfc_target_cpu.llvm.values import constant, intrinsic_suffix, is_floating, like, zero


def cast(conversions: Conversions, f: FunctionText, value: Value, source: DType, target: DType) -> Value:
    """A computed value of one element type as one of another."""
    if source == target:
        return value
    if target.is_bool:
        return _truth(f, value)
    kind = like(value.type, register_type(target))
    if source.is_float:
        return _from_float(conversions, f, value, target, kind)
    if not target.is_float:
        return f.resize(value, kind, signed=is_signed(source)) if kind != value.type else value
    number = f.cast("sitofp" if is_signed(source) else "uitofp", value, kind)
    return conversions.round(f, number, target)


def _truth(f: FunctionText, value: Value) -> Value:
    if is_floating(value.type):
        return f.fcmp("une", value, zero(value.type))
    return f.icmp("ne", value, zero(value.type))


def _from_float(conversions: Conversions, f: FunctionText, value: Value, target: DType, kind: str) -> Value:
    if not target.is_float:
        name = "fptosi" if is_signed(target) else "fptoui"
        full = f"llvm.{name}.sat.{intrinsic_suffix(kind)}.{intrinsic_suffix(value.type)}"
        f.declare(full, kind, [value.type])
        return f.assign(kind, f"call {kind} @{full}({value})")
    if target.size == 2 and "double" in value.type:
        value = _single_rounded_to_odd(f, value)
    return conversions.round(f, f.resize(value, kind) if kind != value.type else value, target)


def _single_rounded_to_odd(f: FunctionText, value: Value) -> Value:
    """Double to single precision so that rounding again to half is as rounding once: where inexact, of the two
    neighbours the one whose last bit is set."""
    single = f.resize(value, like(value.type, "float"))
    back = f.resize(single, value.type)
    kind = like(value.type, "i32")
    bits = f.cast("bitcast", single, kind)
    larger = f.fcmp("ogt", f.intrinsic("fabs", back), f.intrinsic("fabs", value))
    truncated = f.select(larger, f.sub(bits, constant(kind, 1)), bits)
    inexact = f.fcmp("one", back, value)
    odd = f.select(inexact, f.bit_or(truncated, constant(kind, 1)), bits)
    return f.cast("bitcast", odd, single.type)
