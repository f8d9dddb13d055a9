"""Bounds of formulas over sizes that only the run finds out, and what depends on whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dfc.ir.attributes import MeasuredAttributes
from dfc.ir.dims import Dim, Symbol, ceil_divide, dim, maximum, minimum
from dfc.ir.dtypes import I64
from dfc.ir.graph import Block, Node, Value
from dfc.ir.measured import Dependence, bounds_in, measured, upper, upper_elements
from dfc.ir.types import tensor

B, N, M = Symbol("B"), Symbol("N"), Symbol("M")
MOST = {N: dim(B), M: dim(B) * 2 + 1}


def formulas() -> st.SearchStrategy[Dim]:
    """Sizes as programs have them: sums, products, quotients by positive numbers, extremes."""
    leaves = st.sampled_from([dim(B), dim(N), dim(M), dim(0), dim(1), dim(3)])

    def grow(inner: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
        pairs, divisor = st.tuples(inner, inner), st.integers(1, 4)
        return st.one_of(
            pairs.map(lambda p: p[0] + p[1]),
            pairs.map(lambda p: p[0] * p[1]),
            pairs.map(lambda p: maximum(p[0] - p[1], dim(0))),
            pairs.map(lambda p: minimum(*p)),
            pairs.map(lambda p: maximum(*p)),
            st.tuples(inner, divisor).map(lambda p: p[0] // dim(p[1])),
            st.tuples(inner, divisor).map(lambda p: p[0] % dim(p[1])),
            st.tuples(inner, divisor).map(lambda p: ceil_divide(p[0], dim(p[1]))),
        )

    return st.recursive(leaves, grow, max_leaves=6)


@given(formulas(), st.integers(0, 7), st.data())
def test_a_bound_is_never_below_the_value(size: Dim, batch: int, data: st.DataObject) -> None:
    bound = upper(size, MOST)
    assert bound.symbols() <= {B}
    n, m = data.draw(st.integers(0, batch)), data.draw(st.integers(0, 2 * batch + 1))
    assert size.evaluate({B: batch, N: n, M: m}) <= bound.evaluate({B: batch})


@pytest.mark.parametrize(
    ("size", "bound"),
    [
        (dim(N) * 3 + 1, dim(B) * 3 + 1),
        (dim(B) - dim(N), dim(B)),
        (dim(N) - 2, dim(B) - 2),
        (dim(B) + 4, dim(B) + 4),
        (dim(N) // 2, dim(B) // 2),
    ],
)
def test_bounds_are_tight_where_that_is_easy(size: Dim, bound: Dim) -> None:
    assert upper(size, MOST) == bound


def test_memory_for_a_size_that_may_come_to_less_than_nothing_is_none() -> None:
    assert upper_elements((dim(N) - 2, dim(3)), MOST).evaluate({B: 1}) == 0


def measuring(size: Symbol, most: Dim) -> Node:
    count = Value(tensor(I64), "count")
    return Node("range", (count,), (tensor(I64, size),), attributes=MeasuredAttributes(dim(size), most), name=str(size))


def test_bounds_of_sizes_found_in_each_other_are_over_what_is_known_before() -> None:
    block = Block((), [measuring(N, dim(B) + 1), measuring(M, dim(N) * 2)])
    assert bounds_in(block) == {N: dim(B) + 1, M: dim(B) * 2 + 2}


def test_what_mentions_a_size_depends_on_the_node_that_measures_it() -> None:
    first, second = measuring(N, dim(B)), measuring(M, dim(B))
    user = Node("iota", (), (tensor(I64, N),), name="user")
    dependence = Dependence.within(Block((), [first, second, user]))
    assert dependence.of(user.result) == (first.result,)
    assert dependence.of(Value(tensor(I64, M), "parameter")) == (second.result,)
    assert measured(user) is None
