"""Kernel functions: what one scalar means in terms of others, written once for all targets.

A function is straight code in SSA order over `primitives`, with types given: an instruction names earlier ones by
position. Control flow has three forms only, whose bodies are functions themselves, so that a machine of vectors and a
machine of threads may each run them in its own way:

- `Call`: the results of another function;
- `Where(function)`: its first argument is a condition; where that holds, the results of the function, elsewhere the
  arguments that follow the condition, one for each result;
- `Repeat(function, count, carried)`: the function so many times, its results fed back as its first arguments (the
  `carried` ones), the rest as they are. Without a `count` the first argument is the number of times (i64; none if it is
  not positive).

An instruction with several results is named by `Part` alone. Functions are equal only to themselves: make each once.

In: terms (`dfc.kernels.terms`). Out: functions that are verified, printed and run here. Read first:
`verify_function`, which says what holds of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Number:
    """A constant; `bits` is its little-endian byte pattern in the instruction's dtype."""

    bits: bytes


@dataclass(frozen=True, slots=True)
class Argument:
    """The value of a parameter, by its number."""

    number: int


@dataclass(frozen=True, slots=True)
class Primitive:
    """One of `primitives.PRIMITIVES`."""

    name: str


@dataclass(frozen=True, slots=True)
class Table:
    """Read-only words of 32 bits."""

    name: str
    words: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Lookup:
    """The word of a table at an index (i64, within the table), as u64."""

    table: Table


@dataclass(frozen=True, slots=True)
class Call:
    function: Function


@dataclass(frozen=True, slots=True)
class Where:
    function: Function


@dataclass(frozen=True, slots=True)
class Repeat:
    function: Function
    count: int | None
    carried: int


@dataclass(frozen=True, slots=True)
class Part:
    """One result of an instruction that has several."""

    number: int


Operation: TypeAlias = "Number | Argument | Primitive | Lookup | Call | Where | Repeat | Part"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One value (or, of a call, several: `dtype` is that of the first)."""

    operation: Operation
    arguments: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """`name` stands for one meaning, types included, in all of a program."""

    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[Instruction, ...]
    results: tuple[int, ...]

    @property
    def result_types(self) -> tuple[DType, ...]:
        return tuple(self.body[position].dtype for position in self.results)

    def called(self) -> Iterator[Function]:
        """The functions that it names, in order, some of them several times."""
        for one in self.body:
            if isinstance(one.operation, Call | Where | Repeat):
                yield one.operation.function


def with_callees(function: Function) -> list[Function]:
    """The function behind all that it calls, each after those it calls itself."""
    ordered: dict[Function, None] = {}

    def add(one: Function) -> None:
        for callee in one.called():
            if callee not in ordered:
                add(callee)
        ordered[one] = None

    add(function)
    return list(ordered)
