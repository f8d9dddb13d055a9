"""Typed operands of LLVM IR text: types, registers and constant literals.

Assumes nothing about the code that uses them. Guarantees that every literal is written exactly (floating-point
constants as bit patterns), so that text and meaning cannot drift apart.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

FLOAT_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


class Value(NamedTuple):
    """One operand: its LLVM type and the text that names it (a register, a global or a literal)."""

    type: str
    text: str

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


def vector_type(lanes: int, element: str) -> str:
    """`<lanes x element>`; one lane is the scalar itself, so code written for any width also serves scalars."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def lane_count(type_text: str) -> int:
    if not type_text.startswith("<"):
        return 1
    return int(type_text[1 : type_text.index(" ")])


def element_type(type_text: str) -> str:
    if not type_text.startswith("<"):
        return type_text
    return type_text[type_text.index("x") + 2 : -1]


def like(type_text: str, element: str) -> str:
    """The type with as many lanes as `type_text` but elements of another type."""
    return vector_type(lane_count(type_text), element)


def bit_width(element: str) -> int:
    """Bits of a scalar type."""
    if element == "ptr":
        return 64
    return FLOAT_BITS[element] if element in FLOAT_BITS else int(element[1:])


def byte_size(type_text: str) -> int:
    """Bytes of a scalar or vector type in memory (an `i1` takes one)."""
    return max(8, bit_width(element_type(type_text))) // 8 * lane_count(type_text)


def is_floating(type_text: str) -> bool:
    return element_type(type_text) in FLOAT_BITS


def intrinsic_suffix(type_text: str) -> str:
    """The type as it is mangled into names of overloaded intrinsics: `v16f32`, `f64`, `v8i32`."""
    element = element_type(type_text)
    short = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}.get(element, element)
    lanes = lane_count(type_text)
    return short if lanes == 1 else f"v{lanes}{short}"


def float_literal(element: str, value: float) -> str:
    """The exact literal of `value` rounded to `element`."""
    if element == "bfloat":
        return f"0xR{_bfloat_bits(value):04X}"
    if element == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if element == "float":
        value = round_to_float(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _bfloat_bits(value: float) -> int:
    bits = struct.unpack("<I", struct.pack("<f", round_to_float(value)))[0]
    if value != value:
        return 0x7FC0
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def round_to_float(value: float) -> float:
    """`value` rounded to single precision; too large becomes infinite, as IEEE rounding has it."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def splat_literal(type_text: str, scalar: str) -> str:
    """The scalar literal, repeated over all lanes where `type_text` is a vector."""
    if not type_text.startswith("<"):
        return scalar
    return f"splat ({element_type(type_text)} {scalar})"


def constant(type_text: str, value: float | int | bool) -> Value:
    """A literal of any scalar or vector type, the same in all lanes."""
    element = element_type(type_text)
    if element in FLOAT_BITS:
        return Value(type_text, splat_literal(type_text, float_literal(element, value)))
    if element == "i1":
        return Value(type_text, splat_literal(type_text, "true" if value else "false"))
    return Value(type_text, splat_literal(type_text, str(int(value))))


def vector_constant(element: str, values: Sequence[float]) -> Value:
    """A vector literal with a value of its own in each lane."""
    lanes = ", ".join(str(constant(element, value)) for value in values)
    if len(values) == 1:
        return constant(element, values[0])
    return Value(vector_type(len(values), element), f"<{lanes}>")


def zero(type_text: str) -> Value:
    return Value(type_text, "zeroinitializer" if type_text.startswith("<") else _scalar_zero(type_text))


def _scalar_zero(type_text: str) -> str:
    if type_text == "ptr":
        return "null"
    return constant(type_text, 0).text


def i64(value: int) -> Value:
    return Value("i64", str(value))


def i32(value: int) -> Value:
    return Value("i32", str(value))


def literal_int(value: Value) -> int | None:
    """The number behind an integer literal, None for a register."""
    text = value.text
    return int(text) if text[0].isdigit() or (text[0] == "-" and text[1:].isdigit()) else None


def poison(type_text: str) -> Value:
    return Value(type_text, "poison")


NULL = Value("ptr", "null")
TRUE = Value("i1", "true")
FALSE = Value("i1", "false")
