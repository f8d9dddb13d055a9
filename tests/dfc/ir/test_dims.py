"""Dimensions: canonical forms mean what the arithmetic they were written as means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dfc.ir import dims
from dfc.ir.dims import Dim, Symbol, dim

A, B, H = Symbol("A"), Symbol("B"), Symbol("H")

FUNCTIONS = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "min": min,
    "max": max,
    "ceil_div": lambda x, y: -(-x // y),
}
BUILDERS = {"+": Dim.__add__, "-": Dim.__sub__, "*": Dim.__mul__, **dims.FUNCTIONS}

leaves = st.one_of(st.integers(0, 6), st.sampled_from([A, B]))
expressions = st.recursive(
    leaves, lambda inner: st.tuples(st.sampled_from(sorted(FUNCTIONS)), inner, inner), max_leaves=6
)


def build(expression: object) -> Dim:
    if isinstance(expression, tuple):
        function, left, right = expression
        return BUILDERS[function](build(left), build(right))
    assert isinstance(expression, int | Symbol)
    return dim(expression)


def plain(expression: object, values: dict[Symbol, int]) -> int:
    if isinstance(expression, tuple):
        function, left, right = expression
        return FUNCTIONS[function](plain(left, values), plain(right, values))
    return values[expression] if isinstance(expression, Symbol) else int(expression)  # type: ignore[call-overload]


@given(expressions, st.integers(1, 9), st.integers(1, 9))
def test_a_canonical_form_has_the_value_of_the_expression(expression: object, a: int, b: int) -> None:
    values = {A: a, B: b}
    try:
        expected = plain(expression, values)
    except ZeroDivisionError:
        return
    assert build(expression).evaluate(values) == expected


@given(expressions, expressions)
def test_addition_and_multiplication_commute(left: object, right: object) -> None:
    x, y = build(left), build(right)
    assert x + y == y + x
    assert x * y == y * x
    assert x - x == dims.ZERO


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (4 * dim(H) // 4, "H"),
        ((2 * dim(B) + 5) // 2, "B + 2"),
        (dim(B) + dim(B), "2 * B"),
        (dim(B) * (dim(A) // dim(H)), "(A // H) * B"),
        (dim(H) - 1 - 1, "H - 2"),
        ((dim(B) + 3) % 2, "((B + 3) % 2)"),
        (-dim(B), "0 - B"),
        (dims.minimum(dim(A), dim(A) + 2), "A"),
        (dims.maximum(dims.maximum(dim(A), dim(B)), dim(A) + 1), "max(A + 1, B)"),
        (dims.maximum(dims.maximum(dim(A), dim(B)), dims.maximum(dim(B), dim(A))), "max(A, B)"),
        (dims.maximum(4 * dim(A), 512 * dim(A)), "512 * A"),
        (dims.minimum(dim(A) * dim(B), 0 * dim(A)), "0"),
        (dims.maximum(dim(A) - 1, dim(B)), "max(A - 1, B)"),
        (dims.ceil_divide(6 * dim(A), dim(3)), "2 * A"),
    ],
)
def test_forms_are_reduced(form: Dim, text: str) -> None:
    assert str(form) == text


def test_two_different_symbols_are_not_equal() -> None:
    assert dim(A) != dim(B)
    assert dim(Symbol("A", 1)) != dim(A)


def test_a_division_by_zero_is_an_error_not_a_number() -> None:
    with pytest.raises(ZeroDivisionError):
        (dim(A) // dim(B)).evaluate({A: 1, B: 0})


def test_an_unknown_symbol_is_named() -> None:
    with pytest.raises(KeyError, match="B"):
        (dim(A) + dim(B)).evaluate({A: 1})


def test_values_are_unbounded() -> None:
    assert (dim(A) * dim(A)).evaluate({A: 2**63}) == 2**126
