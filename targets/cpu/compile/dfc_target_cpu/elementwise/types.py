"""Element types as LLVM sees them: in memory, in registers, and the way between.

Assumes no complex types (refused by `CodeGenerationError`). Guarantees that bool is one byte in memory and `i1` in
registers, that f16 and bf16 are `float` in registers, and that rounding to them is to nearest even.
"""

import struct

from dfc.ir.dtypes import DType
from dfc.kernels.errors import CodeGenerationError
from dfc_target_cpu.llvm.text import FunctionText, Value
from dfc_target_cpu.llvm.values import constant, like, splat_literal, vector_type
from dfc_target_cpu.machine import Machine

_REGISTER = {"bool": "i1", "f16": "float", "bf16": "float", "f32": "float", "f64": "double"}
_MEMORY = {"bool": "i8", "f16": "i16", "bf16": "i16", "f32": "float", "f64": "double"}


def register_type(dtype: DType) -> str:
    """The scalar type values of `dtype` are computed in."""
    return _known(_REGISTER, dtype)


def memory_type(dtype: DType) -> str:
    """The scalar type of one element in memory."""
    return _known(_MEMORY, dtype)


def _known(table: dict[str, str], dtype: DType) -> str:
    if dtype.is_complex:
        raise CodeGenerationError(f"the CPU target has no element type {dtype}")
    return table.get(dtype.name, f"i{8 * dtype.size}")


def register_bytes(dtype: DType) -> int:
    """Bytes of a value while it is computed with (a bool takes what its neighbours take: 1)."""
    return 4 if dtype.name in ("f16", "bf16") else dtype.size


def is_signed(dtype: DType) -> bool:
    return dtype.kind == "signed"


def number_literal(dtype: DType, bits: bytes) -> Value:
    """A constant from its little-endian bytes, as a value in a register."""
    kind = register_type(dtype)
    if dtype.name == "bf16":
        return constant(kind, struct.unpack("<f", b"\0\0" + bits)[0])
    if dtype.is_float:
        return constant(kind, struct.unpack({2: "<e", 4: "<f", 8: "<d"}[dtype.size], bits)[0])
    if dtype.is_bool:
        return constant(kind, bits != b"\0")
    return constant(kind, int.from_bytes(bits, "little", signed=is_signed(dtype)))


def splat_literal_value(value: Value, lanes: int) -> Value:
    """A scalar literal in all lanes, without an instruction."""
    kind = vector_type(lanes, value.type)
    return Value(kind, splat_literal(kind, value.text))


def is_literal(value: Value) -> bool:
    return not value.text.startswith(("%", "@"))


class Conversions:
    """Between memory and registers, for one machine."""

    def __init__(self, machine: Machine) -> None:
        self.has_half = "f16c" in machine.features or machine.name.startswith("aarch64")

    def widen(self, f: FunctionText, raw: Value, dtype: DType) -> Value:
        """Elements as loaded -> values to compute with."""
        if dtype.is_bool:
            return f.icmp("ne", raw, constant(raw.type, 0))
        if dtype.name == "bf16":
            return widen_bfloat(f, raw)
        if dtype.name == "f16":
            return self._widen_half(f, raw)
        return raw

    def narrow(self, f: FunctionText, value: Value, dtype: DType) -> Value:
        """Computed values -> elements to store."""
        if dtype.is_bool:
            return f.cast("zext", value, like(value.type, "i8"))
        if dtype.name == "bf16":
            return narrow_bfloat(f, value)
        if dtype.name == "f16":
            return self._narrow_half(f, value)
        return value

    def round(self, f: FunctionText, value: Value, dtype: DType) -> Value:
        """A computed value rounded to what memory of that type can hold."""
        if dtype.name in ("f16", "bf16"):
            return self.widen(f, self.narrow(f, value, dtype), dtype)
        return value

    def _widen_half(self, f: FunctionText, raw: Value) -> Value:
        if not self.has_half:
            return _widen_half_by_integers(f, raw)
        return f.cast("fpext", f.cast("bitcast", raw, like(raw.type, "half")), like(raw.type, "float"))

    def _narrow_half(self, f: FunctionText, value: Value) -> Value:
        if not self.has_half:
            return _narrow_half_by_integers(f, value)
        return f.cast("bitcast", f.cast("fptrunc", value, like(value.type, "half")), like(value.type, "i16"))


def widen_bfloat(f: FunctionText, raw: Value) -> Value:
    wide = f.cast("zext", raw, like(raw.type, "i32"))
    return f.cast("bitcast", f.shl(wide, constant(wide.type, 16)), like(raw.type, "float"))


def narrow_bfloat(f: FunctionText, value: Value) -> Value:
    """Round to nearest even on the bits; NaN stays NaN (quiet)."""
    bits = f.cast("bitcast", value, like(value.type, "i32"))
    odd = f.bit_and(f.lshr(bits, constant(bits.type, 16)), constant(bits.type, 1))
    rounded = f.add(bits, f.add(odd, constant(bits.type, 0x7FFF)))
    quiet = f.bit_or(bits, constant(bits.type, 0x400000))
    chosen = f.select(f.fcmp("uno", value, value), quiet, rounded)
    return f.cast("trunc", f.lshr(chosen, constant(bits.type, 16)), like(value.type, "i16"))


def _widen_half_by_integers(f: FunctionText, raw: Value) -> Value:
    """Exponent and fraction moved into place and rescaled by a product, which is exact and right for subnormals too."""
    wide = f.cast("zext", raw, like(raw.type, "i32"))
    magnitude = f.shl(f.bit_and(wide, constant(wide.type, 0x7FFF)), constant(wide.type, 13))
    float_type = like(raw.type, "float")
    scaled = f.fmul(f.cast("bitcast", magnitude, float_type), constant(float_type, 2.0**112))
    special = f.bit_or(magnitude, constant(wide.type, 0x7F800000))
    is_special = f.icmp("uge", magnitude, constant(wide.type, 0x7C00 << 13))
    bits = f.select(is_special, special, f.cast("bitcast", scaled, wide.type))
    sign = f.shl(f.bit_and(wide, constant(wide.type, 0x8000)), constant(wide.type, 16))
    return f.cast("bitcast", f.bit_or(bits, sign), float_type)


def _narrow_half_by_integers(f: FunctionText, value: Value) -> Value:
    """Normal numbers round on the bits; subnormal ones by adding a number whose last place is theirs."""
    kind = like(value.type, "i32")
    bits = f.cast("bitcast", value, kind)
    sign = f.lshr(f.bit_and(bits, constant(kind, -(1 << 31))), constant(kind, 16))
    magnitude = f.bit_and(bits, constant(kind, 0x7FFFFFFF))
    odd = f.bit_and(f.lshr(magnitude, constant(kind, 13)), constant(kind, 1))
    rebased = f.add(f.add(magnitude, constant(kind, 0xFFF - (112 << 23))), odd)
    normal = f.lshr(rebased, constant(kind, 13))
    sum_ = f.fadd(f.cast("bitcast", magnitude, value.type), constant(value.type, 0.5))
    small = f.sub(f.cast("bitcast", sum_, kind), constant(kind, 0x3F000000))
    finite = f.select(f.icmp("ult", magnitude, constant(kind, 113 << 23)), small, normal)
    limited = f.select(f.icmp("uge", magnitude, constant(kind, 0x477FF000)), constant(kind, 0x7C00), finite)
    fraction = f.bit_or(f.lshr(magnitude, constant(kind, 13)), constant(kind, 0x7E00))
    nan = f.bit_and(fraction, constant(kind, 0x7FFF))
    chosen = f.select(f.icmp("ugt", magnitude, constant(kind, 0x7F800000)), nan, limited)
    return f.cast("trunc", f.bit_or(chosen, sign), like(value.type, "i16"))
