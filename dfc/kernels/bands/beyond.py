"""What the instructions of a body are beyond the border of a band: at all columns from `row + first` on.

    select(row >= column, score, -1e9)      -1e9
    exp(score - most)                       exp(-1e9 - most): the same in a whole row, which the row alone computes
    probability * anything                  0, where the probability is 0

A value that is the same at all these columns of a row is an instruction of `row`, a body of the row; every other one is
None. A product with 0 is 0: what infinities and NaN would do there is left out (`dfc.kernels.orders.product`).

Assumes `Comparison`s that do not wrap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim
from dfc.ir.dtypes import BOOL
from dfc.kernels.bands.comparisons import Comparison, comparison, forms
from dfc.kernels.body import (
    Accumulated,
    Affine,
    Apply,
    AxisIndex,
    BodyBuilder,
    Instruction,
    Load,
    Number,
    Philox,
    Reduced,
    Size,
)


@dataclass(frozen=True, slots=True)
class Border:
    """Where a band ends: axes of rows and batch are those before `axes`, the last of them the rows; a row needs the
    columns below row + `first`."""

    axes: int
    first: Dim


def beyond(
    body: Sequence[Instruction], border: Border, column: int, held: Mapping[int, int | None], row: BodyBuilder
) -> list[int | None]:
    """Each instruction of a body as one of `row`, or None. `held` says so of the operands that are read in the column
    at hand."""
    known = forms(body)
    values: list[int | None] = []
    for one in body:
        compared = comparison(one, known, border.axes - 1)
        arguments = [values[argument] for argument in one.arguments]
        values.append(_value(one, arguments, compared, border, column, held, row))
    return values


def _value(
    one: Instruction, arguments: Sequence[int | None], compared: Comparison | None, border: Border, column: int,
    held: Mapping[int, int | None], row: BodyBuilder,
) -> int | None:  # fmt: skip
    match one.operation:
        case Load() as load:
            if load.operand in held:
                return held[load.operand]
            return row.append(load, (), one.dtype) if _is_of_row(load, border.axes) else None
        case AxisIndex(axis):
            return row.append(one.operation, (), one.dtype) if axis < border.axes else None
        case Number() | Size() | Reduced():
            return row.append(one.operation, (), one.dtype)
        case Accumulated() | Philox():
            return None
        case Apply():
            decided = compared.beyond(border.first) if compared is not None and compared.column == column else None
            return _applied(one, one.operation, arguments, row) if decided is None else row.number(decided, BOOL)


def _is_of_row(load: Load, axes: int) -> bool:
    return load.mask is None and all(
        isinstance(index, Affine) and all(axis < axes for axis, _ in index.terms) for index in load.index
    )


def _applied(one: Instruction, apply: Apply, arguments: Sequence[int | None], row: BodyBuilder) -> int | None:
    match apply.function:
        case "select":
            mask, first, second = arguments
            chosen = None if mask is None else constant(row, mask)
            if chosen is not None:
                return first if chosen else second
            if first is not None and first == second:
                return first
        case "mul" if any(argument is not None and is_zero(row, argument) for argument in arguments):
            return row.number(0, one.dtype)
        case "div" if _divides_zero(row, *arguments):
            return row.number(0, one.dtype)
        case "cast" if arguments[0] is not None and one.dtype.is_float and row.dtype(arguments[0]).is_float:
            number = constant(row, arguments[0])
            if number is not None:
                return row.number(number, one.dtype)
        case "and" | "or" as function if one.dtype == BOOL:
            absorbing = function == "or"
            truths = [None if argument is None else constant(row, argument) for argument in arguments]
            if absorbing in truths:
                return row.number(absorbing, BOOL)
            if (not absorbing) in truths:
                return arguments[1 - truths.index(not absorbing)]
        case "not" if arguments[0] is not None and constant(row, arguments[0]) is not None and one.dtype == BOOL:
            return row.number(not constant(row, arguments[0]), BOOL)
        case _:
            pass
    operands = [argument for argument in arguments if argument is not None]
    return None if len(operands) < len(arguments) or apply.fault >= 0 else row.append(apply, operands, one.dtype)


def _divides_zero(row: BodyBuilder, first: int | None, second: int | None) -> bool:
    if first is None or second is None or not is_zero(row, first):
        return False
    divisor = constant(row, second)
    return row.dtype(second).is_float and divisor is not None and abs(divisor) > 0


def constant(row: BodyBuilder, position: int) -> float | int | bool | None:
    """The number that an instruction is, if it is one."""
    one = row.instructions[position]
    return np.frombuffer(one.operation.bits, one.dtype.numpy)[0].item() if isinstance(one.operation, Number) else None


def is_zero(row: BodyBuilder, position: int) -> bool:
    """Whether an instruction is the number 0."""
    value = constant(row, position)
    return value is not None and value == 0
