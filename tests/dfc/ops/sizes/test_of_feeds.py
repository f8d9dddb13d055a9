"""Sizes of a call follow from the shapes of its feeds."""

import pytest

from dfc.diagnostics.source import NOWHERE
from dfc.ir.dims import DimLike, Symbol, dim
from dfc.ir.dtypes import F32
from dfc.ir.graph import DimCheck, Entry, Value
from dfc.ir.types import tensor
from dfc.ops.sizes.of_feeds import bind_sizes
from dfc_runtime.errors import FeedError
from tests.support.graphs import entry

N, M = Symbol("N"), Symbol("M")


def made(*shapes: tuple[DimLike, ...]) -> Entry:
    return entry("e", [Value(tensor(F32, *shape), f"x{i}") for i, shape in enumerate(shapes)], (), (), dims=[N, M])


def test_symbols_and_linear_forms_are_solved_in_any_order() -> None:
    assert bind_sizes(made((dim(N) * M,), (dim(M) * 2 + 1, N)), [(6,), (5, 3)], {}) == {N: 3, M: 2}


def test_sizes_that_no_feed_decides_are_given() -> None:
    assert bind_sizes(made((N,)), [(4,)], {"M": 9}) == {N: 4, M: 9}
    with pytest.raises(FeedError, match="size M"):
        bind_sizes(made((N,)), [(4,)], {})


@pytest.mark.parametrize("shapes", [[(2,), (3, 1)], [(2, 2), (2, 1)]])
def test_shapes_that_disagree_are_refused(shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(FeedError):
        bind_sizes(made((N,), (N, M)), shapes, {})


def test_a_size_that_solves_nothing_is_refused() -> None:
    with pytest.raises(FeedError, match="a size of 4 is not"):
        bind_sizes(made((dim(N) * 2 + 1, M)), [(4, 1)], {})


def test_checks_of_the_entry_hold() -> None:
    checked = made((N, M))
    checked.checks = (DimCheck(dim(N), ">=", dim(M) + 1, "", NOWHERE),)
    assert bind_sizes(checked, [(3, 2)], {}) == {N: 3, M: 2}
    with pytest.raises(FeedError, match="N >= M \\+ 1"):
        bind_sizes(checked, [(2, 2)], {})
