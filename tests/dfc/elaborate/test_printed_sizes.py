"""Sizes as messages, printed graphs and the run side write them: read again, they are the same sizes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dfc.bundle.formulas import formula, name_symbols
from dfc.ir.dims import FUNCTIONS, Dim, Symbol, dim
from dfc.ops.control.iterations import size_of
from dfc.ops.layout.shape import elements_text
from tests.support.building import graph_of, messages

A, B = dim(Symbol("A")), dim(Symbol("B"))
BUILDERS = {"+": Dim.__add__, "-": Dim.__sub__, "*": Dim.__mul__, **FUNCTIONS}
sizes = st.recursive(
    st.sampled_from([A, B, dim(1), dim(2), dim(3)]),
    lambda inner: st.builds(lambda f, x, y: BUILDERS[f](x, y), st.sampled_from(sorted(BUILDERS)), inner, inner),
    max_leaves=6,
)


def read(text: str) -> Dim:
    """The size that a text in a program stands for."""
    (size,) = (
        graph_of(f"readonly entry f[A, B](a: f32[A], b: f32[B]) -> i64 {{ return {text} }}").entries["f"].block.outputs
    )
    found = size_of(size)
    assert found is not None
    return found


def has_meaning(size: Dim) -> bool:
    return not any(isinstance(each, ZeroDivisionError) for each in [_value(size)])


def _value(size: Dim) -> object:
    try:
        return size.evaluate({Symbol("A"): 5, Symbol("B"): 7})
    except ZeroDivisionError as problem:
        return problem


@given(sizes)
def test_a_printed_size_is_read_as_the_same_size(size: Dim) -> None:
    if has_meaning(size):
        assert read(str(size)) == size


@given(sizes)
def test_a_formula_of_the_run_side_is_read_as_the_same_size(size: Dim) -> None:
    if has_meaning(size):
        text = str(formula(size, name_symbols(size.symbols())))
        assert read(text) == size, text


@given(st.lists(sizes, min_size=1, max_size=3))
def test_a_number_of_elements_is_read_as_the_product(shape: list[Dim]) -> None:
    if all(map(has_meaning, shape)):
        product = dim(1)
        for size in shape:
            product = product * size
        assert read(elements_text(shape)) == product


def test_a_reshape_that_does_not_fit_counts_with_parentheses() -> None:
    text = messages("fn f[B, N](x: f32[B, N + 1]) -> f32[B, 8] = reshape(x, [B, 8])")
    assert "has B * (N + 1)" in text
    assert "the last axis is N + 1" in text
