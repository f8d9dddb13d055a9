"""Element types as LLVM sees them: in memory, in registers, and the way between.

Assumes no complex types (refused by `CodeGenerationError`). Guarantees that bool is one byte in memory and `i1` in
registers, and that f16 and bf16 are `float` in registers.
"""

from dfc.ir.dtypes import DType
from dfc.kernels.errors import CodeGenerationError
from dfc.kernels.primitives import number_value
from dfc_target_cpu.llvm.text import Value
from dfc_target_cpu.llvm.values import constant, splat_literal, vector_type

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
    return constant(register_type(dtype), number_value(dtype, bits))


def splat_literal_value(value: Value, lanes: int) -> Value:
    """A scalar literal in all lanes, without an instruction."""
    kind = vector_type(lanes, value.type)
    return Value(kind, splat_literal(kind, value.text))


def is_literal(value: Value) -> bool:
    return not value.text.startswith(("%", "@"))
