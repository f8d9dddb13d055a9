"""Comparisons of a row's index with a column's: where they are decided.

    column <= row            is false where column >= row + 1
    row + M - N >= column    is false where column >= row + M - N + 1

Assumes signed whole numbers of four bytes or more, and sizes and offsets below `MOST`, so that nothing wraps: whoever
uses a `Comparison` sees to it that `offsets` are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ZERO, Dim, dim
from dfc.ir.dtypes import DType
from dfc.kernels.body import COMPARISONS, Apply, AxisIndex, Instruction, Number, Size

MOST = 1 << 23
"""Rows, columns and offsets, at most."""
_LEAST_BYTES = 4


@dataclass(frozen=True, slots=True)
class Form:
    """Axes times 1 or -1 each, plus an offset."""

    axes: tuple[tuple[int, int], ...] = ()
    offset: Dim = ZERO

    def plus(self, other: Form, sign: int) -> Form | None:
        """The sum, or the difference; None if an axis would count more than once."""
        total = dict(self.axes)
        for axis, factor in other.axes:
            total[axis] = total.get(axis, 0) + sign * factor
        if any(abs(factor) > 1 for factor in total.values()):
            return None
        return Form(tuple(sorted(one for one in total.items() if one[1])), self.offset + sign * other.offset)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`sign * (row - column + offset)`, compared with 0 by `function`; `offsets` are those of the numbers compared."""

    function: str
    column: int
    sign: int
    offset: Dim
    offsets: tuple[Dim, Dim]

    @property
    def borders(self) -> tuple[Dim, Dim]:
        """Differences of column and row from which on it may be decided."""
        return self.offset, self.offset + dim(1)

    def beyond(self, first: Dim) -> bool | None:
        """What it is at all columns from row + first on; None if it is not the same there."""
        most = (self.offset - first).constant  # of row - column + offset
        if most is None or most > 0:
            return None
        below = {"less": True, "less_equal": True, "greater": False, "greater_equal": False}
        above = {"less": False, "less_equal": False, "greater": True, "greater_equal": True}
        sides = (below if self.sign > 0 else above) | {"equal": False, "not_equal": True}
        strict = {"greater", "less_equal"} if self.sign > 0 else {"less", "greater_equal"}
        return sides[self.function] if most < 0 or self.function in strict else None


def forms(body: Sequence[Instruction]) -> list[Form | None]:
    """Each instruction as a form; None of what is none."""
    result: list[Form | None] = []
    for one in body:
        result.append(_form(one, [result[argument] for argument in one.arguments]))
    return result


def _form(one: Instruction, arguments: Sequence[Form | None]) -> Form | None:
    if not _is_wide(one.dtype):
        return None
    match one.operation:
        case AxisIndex(axis):
            return Form(((axis, 1),))
        case Size(size):
            return Form((), size)
        case Number(bits):
            return Form((), dim(int(np.frombuffer(bits, one.dtype.numpy)[0])))
        case Apply("cast"):
            return arguments[0]
        case Apply("add" | "sub" as function):
            first, second = arguments
            return None if first is None or second is None else first.plus(second, 1 if function == "add" else -1)
        case _:
            return None


def _is_wide(dtype: DType) -> bool:
    return dtype.kind == "signed" and dtype.size >= _LEAST_BYTES


def comparison(one: Instruction, known: Sequence[Form | None], row: int) -> Comparison | None:
    """An instruction as a comparison of the row with another axis."""
    if not isinstance(one.operation, Apply) or one.operation.function not in COMPARISONS:
        return None
    first, second = (known[argument] for argument in one.arguments)
    difference = None if first is None or second is None else first.plus(second, -1)
    if first is None or second is None or difference is None or len(difference.axes) != 2:
        return None
    factors = dict(difference.axes)
    sign = factors.pop(row, 0)
    ((column, other),) = factors.items() if len(factors) == 1 else ((row, sign),)
    if sign + other or not sign or column == row:
        return None
    return Comparison(one.operation.function, column, sign, sign * difference.offset, (first.offset, second.offset))
