from __future__ import annotations

import pytest

from dfc_runtime.calls.sizes import CallSizes, plan
from dfc_runtime.errors import FeedError, LimitError, RunError
from tests.support.bundles import entry, formula

GIB = 1 << 30


def sizes(made, *shapes: tuple[int, ...], limit: int = GIB, **given: int) -> CallSizes:
    return plan(made, shapes, given, limit, 0)


def test_dims_come_from_shapes_and_feeds() -> None:
    made = entry("f", {"x": "f32[B, N]"}, {"y": "f32[N, M]"}, dims=["B", "N", "M"], dim_feeds=["M"])
    assert sizes(made, (2, 3), M=5) == CallSizes((2, 3, 5), ((3, 5),), 0)


def test_a_dim_is_found_through_a_linear_size() -> None:
    made = entry("f", {"x": "f32[2 * N + 1]"}, {"y": "f32[N]"}, dims=["N"])
    assert sizes(made, (7,)).dims == (3,)
    with pytest.raises(FeedError, match="N"):
        sizes(made, (8,))


def test_contradictions_name_both_feeds() -> None:
    made = entry("train", {"images": "f32[B, 784]", "labels": "i32[B]"}, dims=["B"])
    with pytest.raises(FeedError, match="`B` is 32 in images but 31 in labels"):
        sizes(made, (32, 784), (31,))


def test_a_size_that_follows_from_others_is_compared() -> None:
    made = entry("f", {"x": "f32[N]", "y": "f32[2 * N]"}, dims=["N"])
    assert sizes(made, (3,), (6,)).dims == (3,)
    with pytest.raises(FeedError, match=r"a size of 2 \* N in y, which is 6 with N = 3, but got 7"):
        sizes(made, (3,), (7,))


def test_checks_say_why_and_where() -> None:
    made = entry(
        "f", {"x": "f32[N]"}, dims=["N"], checks=[(formula("$N", 4, "%"), "==", formula(0), "heads divide the width")]
    )
    assert sizes(made, (8,)).dims == (8,)
    with pytest.raises(FeedError, match=r"N % 4 == 0, but N = 6: heads divide the width\n  model.dfg:31:7") as caught:
        sizes(made, (6,))
    assert caught.value.spans[0].line == 31


@pytest.mark.parametrize(("relation", "good", "bad"), [(">=", 4, 3), (">", 5, 4), ("!=", 5, 4), ("==", 4, 5)])
def test_every_relation_is_checked(relation: str, good: int, bad: int) -> None:
    made = entry("f", {"x": "f32[N]"}, dims=["N"], checks=[(formula("$N"), relation, formula(4), "")])
    assert sizes(made, (good,)).dims == (good,)
    with pytest.raises(FeedError):
        sizes(made, (bad,))


def test_memory_is_compared_with_the_limit_without_overflow() -> None:
    made = entry("f", {}, {"y": "f32[N, N]"}, dims=["N"], dim_feeds=["N"], arena=formula("$N", "$N", "*", 8, "*"))
    assert sizes(made, N=1000).arena == 8_000_000
    with pytest.raises(LimitError, match="more than the limit of 1024 MiB"):
        sizes(made, N=10**6)
    with pytest.raises(LimitError):
        sizes(made, N=2**62)


def test_a_size_beyond_64_bits_is_refused_even_beside_a_zero() -> None:
    made = entry("f", {"x": "f32[B]"}, {"y": "f32[N, B]"}, dims=["B", "N"], dim_feeds=["N"])
    with pytest.raises(LimitError):
        sizes(made, (0,), N=2**63)


def test_a_negative_size_of_a_result_is_refused() -> None:
    made = entry("f", {"x": "f32[N]"}, {"y": "f32[N]"}, dims=["N"])
    shrunk = made.results[0].__class__("y", "f32", (formula("$N", 2, "-"),))
    made = made.__class__(**{name: getattr(made, name) for name in made.__slots__} | {"results": (shrunk,)})
    assert sizes(made, (2,)).result_shapes == ((0,),)
    with pytest.raises(FeedError, match="y with a size of N - 2, which is -1"):
        sizes(made, (1,))


def test_division_by_a_size_of_zero_is_an_error_of_the_call() -> None:
    made = entry("f", {"x": "f32[N]"}, dims=["N"], arena=formula(100, "$N", "//"))
    with pytest.raises(RunError, match="divides by zero"):
        sizes(made, (0,))
