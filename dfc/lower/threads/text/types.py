"""Element types in device code: how they lie in memory, what they are computed as, constants, and the way between.

Assumes no complex types. Guarantees that bool is u8 in memory and a bool in registers, that f16 and bf16 are u16 in
memory and f32 in registers, and that rounding to them is to nearest even.
"""

from __future__ import annotations

import math

from dfc.ir.dtypes import DType
from dfc.kernels.primitives import number_value


class DeviceCodeError(ValueError):
    """A kernel holds what device code cannot say; the compiler refuses such programs before."""


def memory_type(dtype: DType) -> str:
    """The prelude's name of one element in memory."""
    if dtype.is_complex:
        raise DeviceCodeError(f"the target cuda has no element type {dtype}")
    return {"bool": "u8", "f16": "u16", "bf16": "u16"}.get(dtype.name, dtype.name)


def computing_type(dtype: DType) -> str:
    """The prelude's name of what values are computed as (`bool` is no prelude type: a truth value)."""
    if dtype.is_complex:
        raise DeviceCodeError(f"the target cuda has no element type {dtype}")
    return {"f16": "f32", "bf16": "f32"}.get(dtype.name, dtype.name)


def shuffle_type(dtype: DType) -> str:
    """The prelude's name of the computing type where lanes exchange it."""
    return "boolean" if dtype.is_bool else computing_type(dtype)


def is_half(dtype: DType) -> bool:
    return dtype.name in ("f16", "bf16")


def widened(raw: str, dtype: DType) -> str:
    """An element as loaded -> the value to compute with."""
    if dtype.is_bool:
        return f"boolean({raw})"
    return f"{dtype.name}_load({raw})" if is_half(dtype) else raw


def narrowed(value: str, dtype: DType) -> str:
    """A computed value -> the element to store."""
    if dtype.is_bool:
        return f"u8({value})"
    return f"{dtype.name}_store({value})" if is_half(dtype) else value


def rounded(value: str, dtype: DType) -> str:
    """A computed value as it reads after it was stored."""
    return f"{dtype.name}_round({value})" if is_half(dtype) else value


def number(dtype: DType, bits: bytes) -> str:
    """A constant from its little-endian bytes, as a value to compute with."""
    value = number_value(dtype, bits)
    if dtype.is_float:
        return float_literal(computing_type(dtype), value)
    return str(value) if dtype.is_bool else f"{dtype.name}({value})"


def float_literal(kind: str, value: float) -> str:
    if math.isnan(value):
        return f"{kind}(nan)"
    if math.isinf(value):
        return f"{kind}({'inf' if value > 0 else '-inf'})"
    return f"{kind}({value!r})"


def zero(dtype: DType) -> str:
    """Any harmless value of the computing type."""
    if dtype.is_bool:
        return "False"
    return f"{computing_type(dtype)}({'0.0' if dtype.is_float else '0'})"


def zero_in_memory(dtype: DType) -> str:
    """Any harmless element as it lies in memory."""
    return f"{memory_type(dtype)}({'0.0' if memory_type(dtype) in ('f32', 'f64') else '0'})"
