"""Kernel functions that a machine does in another way than they are written: with an instruction of its own, or for
want of one.

Guarantees the bits of the function on every machine that has fused multiply-add (tests compare them). A machine without
it has bits of its own wherever that is used.
"""

from collections.abc import Callable, Sequence

from dfc.ir.dtypes import F64
from dfc.kernels.functions import Function
from dfc.lower.legalise.double_words import split_product_error_function
from dfc_target_cpu.llvm.text import FunctionText, Value
from dfc_target_cpu.llvm.values import bit_width, element_type, lane_count, like
from dfc_target_cpu.machine import Machine

Form = Callable[[FunctionText, Sequence[Value]], Value | Function | None]
"""The result; or a function to be written out instead; or none, where the function itself is."""


def machine_form(machine: Machine, name: str) -> Form | None:
    """How this machine does the function of that name, if otherwise than it is written."""
    if name in ("f32_scale", "f64_scale") and "+avx512vl" in machine.features.split(","):
        return _scaled_at_once
    if name == "f64_product_error" and not machine.fused_multiply_add:
        return lambda f, operands: split_product_error_function(F64)
    if name in ("f16_load", "f16_store") and ("f16c" in machine.features or machine.name.startswith("aarch64")):
        return _load_half if name == "f16_load" else _store_half
    return None


def _load_half(f: FunctionText, operands: Sequence[Value]) -> Value:
    raw = operands[0]
    return f.cast("fpext", f.cast("bitcast", raw, like(raw.type, "half")), like(raw.type, "float"))


def _store_half(f: FunctionText, operands: Sequence[Value]) -> Value:
    value = operands[0]
    return f.cast("bitcast", f.cast("fptrunc", value, like(value.type, "half")), like(value.type, "i16"))


def _scaled_at_once(f: FunctionText, operands: Sequence[Value]) -> Value | None:
    """x * 2 ** whole by one instruction on whole registers; the third operand is the same number as an integer."""
    x, whole, _ = operands
    lanes, width = lane_count(x.type), bit_width(element_type(x.type))
    if lanes == 1 or lanes * width not in (128, 256, 512):
        return None
    name = f"llvm.x86.avx512.mask.scalef.p{'s' if width == 32 else 'd'}.{lanes * width}"
    mask = f"i{max(lanes, 8)}"
    rounding = [Value("i32", "4")] if lanes * width == 512 else []  # 4: as the machine rounds at the time
    arguments = [x, whole, x, Value(mask, "-1"), *rounding]
    f.declare(name, x.type, [each.type for each in arguments])
    return f.assign(x.type, f"call {x.type} @{name}({', '.join(map(str, arguments))})")
