"""Kernel functions in the notation of arithmetic: `function("f32_half", lambda x: x * 0.5, F32)`.

A `Term` is an instruction of the function in the making. Numbers adapt to the type of the term they meet; equal
instructions are made once. Comparisons are methods, because `==` of two terms must stay equality of terms.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dtypes import BOOL, F32, F64, I32, I64, U64, DType
from dfc.kernels.functions import (
    Argument,
    Call,
    Function,
    Instruction,
    Lookup,
    Number,
    Operation,
    Parameter,
    Part,
    Primitive,
    Repeat,
    Table,
    Where,
)
from dfc.kernels.functions.verify_function import verify_function
from dfc.kernels.primitives import COMPARISONS

TermLike: TypeAlias = "Term | float | int | bool"

_SAME_BITS = {F32: I32, I32: F32, F64: I64, I64: F64}


class Builder:
    """Appends instructions, sharing equal ones."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self._known: dict[Instruction, int] = {}

    def append(self, operation: Operation, arguments: Sequence[int], dtype: DType) -> Term:
        instruction = Instruction(operation, tuple(arguments), dtype)
        position = self._known.setdefault(instruction, len(self.instructions))
        if position == len(self.instructions):
            self.instructions.append(instruction)
        return Term(self, position, dtype)

    def number(self, value: float, dtype: DType) -> Term:
        """A constant; of a float rounded to its type, of an integer taken modulo its width."""
        if dtype.is_integer:
            value = int(value) & ((1 << 8 * dtype.size) - 1)
            return self.append(Number(value.to_bytes(dtype.size, "little")), (), dtype)
        return self.append(Number(dtype.numpy.type(value).tobytes()), (), dtype)


@dataclass(frozen=True, slots=True)
class Term:
    builder: Builder
    position: int
    dtype: DType

    def like(self, other: TermLike) -> Term:
        """The other term, or a number in the type of this one."""
        return other if isinstance(other, Term) else self.builder.number(other, self.dtype)

    def primitive(self, name: str, *others: TermLike, dtype: DType | None = None) -> Term:
        """`name(self, *others)`; `dtype` is the type of the result where it is not that of this term."""
        terms = [self, *map(self.like, others)]
        result = dtype or (BOOL if name in COMPARISONS else self.dtype)
        return self.builder.append(Primitive(name), [one.position for one in terms], result)

    def __add__(self, other: TermLike) -> Term:
        return self.primitive("add", other)

    def __radd__(self, other: float) -> Term:
        return self.like(other) + self

    def __sub__(self, other: TermLike) -> Term:
        return self.primitive("sub", other)

    def __rsub__(self, other: float) -> Term:
        return self.like(other) - self

    def __mul__(self, other: TermLike) -> Term:
        return self.primitive("mul", other)

    def __truediv__(self, other: TermLike) -> Term:
        return self.primitive("div", other)

    def __rtruediv__(self, other: float) -> Term:
        return self.like(other) / self

    def __neg__(self) -> Term:
        return self.primitive("neg")

    def __abs__(self) -> Term:
        return self.primitive("abs")

    def __and__(self, other: TermLike) -> Term:
        return self.primitive("and", other)

    def __or__(self, other: TermLike) -> Term:
        return self.primitive("or", other)

    def __xor__(self, other: TermLike) -> Term:
        return self.primitive("xor", other)

    def __invert__(self) -> Term:
        return self.primitive("not")

    def __lshift__(self, count: TermLike) -> Term:
        return self.primitive("shift_left", count)

    def __rshift__(self, count: TermLike) -> Term:
        return self.primitive("shift_right", count)

    def equals(self, other: TermLike) -> Term:
        return self.primitive("equal", other)

    def differs(self, other: TermLike) -> Term:
        return self.primitive("not_equal", other)

    def less(self, other: TermLike) -> Term:
        return self.primitive("less", other)

    def greater(self, other: TermLike) -> Term:
        return self.primitive("greater", other)

    def at_least(self, other: TermLike) -> Term:
        return self.primitive("greater_equal", other)

    def is_nan(self) -> Term:
        return self.differs(self)

    def with_sign_of(self, other: Term) -> Term:
        return self.primitive("copysign", other)

    def choose(self, yes: TermLike, no: TermLike) -> Term:
        """`yes` where this condition holds, else `no`: terms, of which one may be a number."""
        kind = yes if isinstance(yes, Term) else no
        assert isinstance(kind, Term), "one of two choices gives the type"
        terms = [self, kind.like(yes), kind.like(no)]
        return self.builder.append(Primitive("select"), [one.position for one in terms], kind.dtype)

    def to(self, dtype: DType) -> Term:
        """`convert`, where the type is another one."""
        return self if dtype == self.dtype else self.primitive("convert", dtype=dtype)

    def bits(self) -> Term:
        """A float as the integer with its bits, and back."""
        known = self.builder.instructions[self.position].operation
        if isinstance(known, Number):
            return self.builder.append(known, (), _SAME_BITS[self.dtype])
        return self.primitive("bits", dtype=_SAME_BITS[self.dtype])

    def look_up(self, table: Table) -> Term:
        return self.builder.append(Lookup(table), (self.position,), U64)


def fma(a: Term, b: TermLike, c: TermLike) -> Term:
    """a * b + c, rounded once on every machine."""
    return a.primitive("fma", b, c)


def multiply_add(a: Term, b: TermLike, c: TermLike) -> Term:
    """a * b + c, rounded once where the machine has the instruction."""
    return a.primitive("multiply_add", b, c)


def call(callee: Function, *arguments: Term) -> tuple[Term, ...]:
    """The results of another function."""
    return _results(Call(callee), callee, arguments)


def where(condition: Term, callee: Function, arguments: Sequence[Term], otherwise: Sequence[Term]) -> tuple[Term, ...]:
    """The results of a function where a condition holds, for which alone it is run."""
    return _results(Where(callee), callee, (condition, *otherwise, *arguments))


def repeat(
    count: Term | int, callee: Function, carried: Sequence[Term], fixed: Sequence[Term] = ()
) -> tuple[Term, ...]:
    """What a function makes of `carried` after so many iterations."""
    if isinstance(count, int):
        return _results(Repeat(callee, count, len(carried)), callee, (*carried, *fixed))
    return _results(Repeat(callee, None, len(carried)), callee, (count, *carried, *fixed))


def _results(operation: Operation, callee: Function, arguments: Sequence[Term]) -> tuple[Term, ...]:
    builder, types = arguments[0].builder, callee.result_types
    whole = builder.append(operation, [one.position for one in arguments], types[0])
    if len(types) == 1:
        return (whole,)
    return tuple(builder.append(Part(number), (whole.position,), dtype) for number, dtype in enumerate(types))


Results: TypeAlias = Term | Sequence[Term]
Build: TypeAlias = (
    Callable[[Term], Results]
    | Callable[[Term, Term], Results]
    | Callable[[Term, Term, Term], Results]
    | Callable[[Term, Term, Term, Term], Results]
    | Callable[[Term, Term, Term, Term, Term, Term], Results]
)
"""What makes the results of a function of its parameters."""


def function(name: str, build: Build, *types: DType) -> Function:
    """The function that `build` makes of one term for each type, under the names of its parameters."""
    names = list(inspect.signature(build).parameters)
    assert len(names) == len(types), f"{name}: {len(types)} types for the parameters {names}"
    builder = Builder()
    terms = [builder.append(Argument(number), (), dtype) for number, dtype in enumerate(types)]
    outputs: Results = build(*terms)  # as many as it has names
    results = (outputs,) if isinstance(outputs, Term) else tuple(outputs)
    parameters = tuple(Parameter(each, dtype) for each, dtype in zip(names, types, strict=True))
    complete = Function(name, parameters, tuple(builder.instructions), tuple(one.position for one in results))
    verify_function(complete)
    return complete
