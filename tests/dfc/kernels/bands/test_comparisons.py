"""Where comparisons of a row's index with a column's are decided, against trying them all."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import product

import pytest

from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import BOOL, F32, I16, I32, I64, DType
from dfc.kernels.bands.comparisons import Comparison, comparison, forms
from dfc.kernels.body import BodyBuilder

ROW, COLUMN = 1, 2
FUNCTIONS: dict[str, Callable[[int, int], bool]] = {
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt,
    "greater_equal": operator.ge, "equal": operator.eq, "not_equal": operator.ne,
}  # fmt: skip


def compared(function: str, axes: Sequence[int], offset: int = 0, dtype: DType = I32) -> Comparison | None:
    """`axes[0] + offset` and `axes[1]` compared."""
    body = BodyBuilder()
    first, second = (body.cast(body.axis(axis), dtype) for axis in axes)
    body.apply(function, body.apply("add", first, body.number(offset, dtype)), second)
    return comparison(body.instructions[-1], forms(body.instructions), ROW)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_comparison_is_known_beyond_a_border_if_it_is_the_same_there(function: str) -> None:
    for offset, is_turned, first in product((-2, 0, 3), (False, True), range(-6, 7)):
        axes = (COLUMN, ROW) if is_turned else (ROW, COLUMN)
        one = compared(function, axes, offset)
        assert one is not None and one.column == COLUMN
        beyond = ((row, column) for row in range(9) for column in range(row + first, row + first + 20))
        pairs = ((column, row) if is_turned else (row, column) for row, column in beyond)
        values = {FUNCTIONS[function](a + offset, b) for a, b in pairs}
        assert one.beyond(dim(first)) == (values.pop() if len(values) == 1 else None), (offset, is_turned, first)


def test_one_of_its_borders_is_the_first_one() -> None:
    for function, offset in product(FUNCTIONS, (-2, 0, 3)):
        one = compared(function, (ROW, COLUMN), offset)
        assert one is not None
        least = next(first for first in range(-9, 9) if one.beyond(dim(first)) is not None)
        assert dim(least) in one.borders


def test_sizes_are_offsets() -> None:
    body = BodyBuilder()
    n, m = dim(Symbol("N")), dim(Symbol("M"))
    last = body.apply("sub", body.apply("add", body.axis(ROW), body.size(m)), body.size(n))
    body.apply("greater_equal", last, body.axis(COLUMN))
    one = comparison(body.instructions[-1], forms(body.instructions), ROW)
    assert one is not None and one.offsets == (m - n, dim(0))
    assert one.beyond(m - n + dim(1)) is False and one.beyond(m - n) is None and one.beyond(n) is None


def test_what_is_no_comparison_of_a_row_with_a_column() -> None:
    assert compared("less", (ROW, ROW)) is None
    assert compared("less", (COLUMN, 3)) is None
    assert compared("less", (ROW, COLUMN), dtype=I16) is None
    assert compared("less", (ROW, COLUMN), dtype=F32) is None
    assert compared("less", (ROW, COLUMN), dtype=I64) is not None
    body = BodyBuilder()
    row, column = body.axis(ROW), body.axis(COLUMN)
    body.apply("less", body.apply("add", row, row), column)
    body.apply("less", body.apply("mul", row, column), column)
    body.apply("and", body.number(True, BOOL), body.number(True, BOOL))
    known = forms(body.instructions)
    assert all(comparison(one, known, ROW) is None for one in body.instructions)
