"""The closed set of scalar instructions that a target implements. Everything else is a kernel function made of them.

Each has one meaning on every machine, to the bit. Types are the register types: bool, i8 .. u64, f32, f64 (a value of
f16 or bf16 is held in f32). Unless said otherwise the arguments and the result have one type.

  floats     neg abs copysign; add sub mul div sqrt (rounded once, to nearest even; subnormal numbers are kept);
             floor ceil trunc round (to whole numbers; round is half to even);
             fma (a * b + c, rounded once);
             multiply_add (a * b + c, rounded once where the machine has the instruction, else twice: a property of the
             variant that is compiled, never of the place)
  integers   add sub mul (they wrap); and or xor not;
             shift_left shift_right (by 0 .. width - 1, a count of the same type; the sign of a signed type fills in);
             quotient remainder (rounded down, so that the remainder has the sign of the divisor; the divisor is
             neither 0 nor -1)
  u64        mul_high (the upper 64 bits of a product), leading_zeros (64 for 0)
  bool       and or xor not
  any        equal not_equal less less_equal greater greater_equal -> bool (false with NaN but for not_equal; of bools
             only the first two); select (bool, a, b: both are computed)
  convert    integers to integers (wraps), integers to floats and floats to floats (rounded once, to nearest even),
             floats to integers (towards zero; only of numbers that the type holds: for others anything)
  bits       f32 to i32, f64 to i64 and back: the same bits

The payload and the sign of a NaN have no meaning.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from dfc.ir.dtypes import BOOL, F32, F64, I32, I64, U64, DType

FLOAT_UNARY = frozenset(("neg", "abs", "sqrt", "floor", "ceil", "trunc", "round"))
FLOAT_BINARY = frozenset(("add", "sub", "mul", "div", "copysign"))
FLOAT_TERNARY = frozenset(("fma", "multiply_add"))
INTEGER_BINARY = frozenset(("add", "sub", "mul", "quotient", "remainder", "shift_left", "shift_right"))
LOGIC = frozenset(("and", "or", "xor"))
WIDE_UNARY, WIDE_BINARY = frozenset(("leading_zeros",)), frozenset(("mul_high",))
EQUALITY = frozenset(("equal", "not_equal"))
ORDER = frozenset(("less", "less_equal", "greater", "greater_equal"))
COMPARISONS = EQUALITY | ORDER
PRIMITIVES = (
    FLOAT_UNARY
    | FLOAT_BINARY
    | FLOAT_TERNARY
    | INTEGER_BINARY
    | LOGIC
    | WIDE_UNARY
    | WIDE_BINARY
    | COMPARISONS
    | {"not", "select", "convert", "bits"}
)

_SAME_BITS = frozenset(((F32, I32), (I32, F32), (F64, I64), (I64, F64)))


def register_type(dtype: DType) -> DType:
    """What values of an element type are computed as."""
    return F32 if dtype.name in ("f16", "bf16") else dtype


def is_register_type(dtype: DType) -> bool:
    return dtype.name in ("bool", "f32", "f64") or dtype.is_integer


def fits(name: str, arguments: Sequence[DType], result: DType) -> bool:
    """Whether a primitive takes arguments of these types and gives one of that type."""
    return _fits(name, tuple(arguments), result)


@lru_cache(maxsize=4096)  # which are more than there are; each function that is made asks this of every instruction
def _fits(name: str, arguments: tuple[DType, ...], result: DType) -> bool:
    if not arguments or not all(map(is_register_type, (*arguments, result))):
        return False
    first, count = arguments[0], len(arguments)
    if name == "select":
        return first == BOOL and count == 3 and arguments[1] == arguments[2] == result
    if name == "convert":
        return count == 1 and not first.is_bool and not result.is_bool
    if name == "bits":
        return count == 1 and (first, result) in _SAME_BITS
    if any(other != first for other in arguments):
        return False
    if name in COMPARISONS:
        return count == 2 and result == BOOL and (name in EQUALITY or not first.is_bool)
    return result == first and name in _of_one_type(first, count)


def _of_one_type(dtype: DType, count: int) -> frozenset[str]:
    """The primitives whose arguments and result all have this type."""
    return _BY_KIND.get((dtype.kind, count), _NONE) | (_OF_WORDS.get(count, _NONE) if dtype == U64 else _NONE)


_NONE: frozenset[str] = frozenset()
_BY_KIND: dict[tuple[str, int], frozenset[str]] = {
    ("float", 1): FLOAT_UNARY,
    ("float", 2): FLOAT_BINARY,
    ("float", 3): FLOAT_TERNARY,
    **{(kind, 1): frozenset(("not",)) for kind in ("bool", "signed", "unsigned")},
    **{(kind, 2): LOGIC | INTEGER_BINARY for kind in ("signed", "unsigned")},
    ("bool", 2): LOGIC,
}
_OF_WORDS = {1: WIDE_UNARY, 2: WIDE_BINARY}


def number_value(dtype: DType, bits: bytes) -> bool | int | float:
    """A constant of an element type from its little-endian bytes; halves exactly, as the float they are computed as."""
    if dtype.name == "bf16":
        return struct.unpack("<f", b"\0\0" + bits)[0]
    if dtype.is_float:
        return struct.unpack({2: "<e", 4: "<f", 8: "<d"}[dtype.size], bits)[0]
    if dtype.is_bool:
        return bits != b"\0"
    return int.from_bytes(bits, "little", signed=dtype.kind == "signed")
