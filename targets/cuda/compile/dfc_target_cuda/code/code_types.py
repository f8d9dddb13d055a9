"""Types and values of device code as it is compiled: scalars, pointers, tuples, and functions that may be called.

Assumes LLVM's terms as libNVVM reads them (typed pointers). Guarantees that a type is equal to another one only if
both are the same to the text and to the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number in a register. `kind` is that of NumPy: b, i, u or f; `llvm` its type there."""

    name: str
    kind: str
    bits: int
    llvm: str

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"


@dataclass(frozen=True, slots=True)
class Pointer:
    """The first of elements that follow each other in memory."""

    element: Scalar

    @property
    def name(self) -> str:
        return f"pointer to {self.element.name}"

    @property
    def llvm(self) -> str:
        return f"{self.element.llvm}*"


Type = Scalar | Pointer

BOOLEAN = Scalar("boolean", "b", 1, "i1")
F32, F64 = Scalar("f32", "f", 32, "float"), Scalar("f64", "f", 64, "double")
I8, I16, I32, I64 = (Scalar(f"i{bits}", "i", bits, f"i{bits}") for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (Scalar(f"u{bits}", "u", bits, f"i{bits}") for bits in (8, 16, 32, 64))
SCALARS = {one.name: one for one in (BOOLEAN, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64)}


@dataclass(frozen=True, slots=True)
class Value:
    """What a register or a constant holds. `number`: that of a constant; `literal`: it stands so in the text, and takes
    the type of what it meets."""

    type: Type
    text: str
    number: int | float | None = None
    literal: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """What a text may call: parameters and results (none, one, or several), and what writes the call: `emit` gets the
    code of the caller (`code.Code`, which stands on these types) and the values of the arguments."""

    name: str
    parameters: tuple[Type, ...]
    results: tuple[Scalar | Pointer, ...]
    emit: Callable[..., Sequence[Value]]


@dataclass(frozen=True, slots=True)
class Shared:
    """`shared_T(count)`: memory of the block, each call in a text its own."""

    element: Scalar


Name = Scalar | Function | Shared | Value
"""What a name of the prelude stands for; a scalar is a cast to it."""


def is_scalar(one: Type) -> TypeGuard[Scalar]:
    return isinstance(one, Scalar)
