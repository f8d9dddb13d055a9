"""The strict rule: literal ones stretch, symbols never, and fewer axes only against the shape of the result."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dfc.ir.dims import Dim, Symbol, dim
from dfc.ir.dtypes import F32
from dfc.ir.types import TensorType, tensor
from dfc.ops.broadcasting import broadcast, dims_equal, stretches_to
from dfc.ops.record import OpError

B, K, N, M = (Symbol(name) for name in "BKNM")


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ((B, 10), (10,), (B, 10)),
        ((B, 4, K), (), (B, 4, K)),
        ((B, 1), (1, K), (B, K)),
        ((N,), (N,), (N,)),
        ((1,), (N,), (N,)),
        ((dim(N) + 1,), (1 + dim(N),), (dim(N) + 1,)),
        ((K,), (B, K), (B, K)),
        ((1,), (B, K), (B, K)),
        ((), (), ()),
        ((0,), (1,), (0,)),
    ],
)
def test_shapes_that_fit(a: tuple[object, ...], b: tuple[object, ...], result: tuple[object, ...]) -> None:
    assert broadcast([tensor(F32, *a), tensor(F32, *b)]) == tensor(F32, *result).shape


@pytest.mark.parametrize(
    ("a", "b", "code", "title"),
    [
        ((N,), (M,), "E0305", "`N` and `M` are not known to be equal"),
        ((B, K), (B,), "E0305", "`K` and `B` are not known to be equal"),
        ((3,), (4,), "E0305", "`3` and `4` are never equal"),
        ((N,), (dim(N) + 1,), "E0305", "`N` and `N + 1` are never equal"),
        ((N,), (2,), "E0305", "`N` and `2` are not known to be equal"),
        ((B,), (B, 1), "E0304", "this would combine every `{1}` with every `{0}`"),
        ((B, 1), (B,), "E0304", "this would combine every `{0}` with every `{1}`"),
        ((2, 1, 3), (5, 3), "E0304", "this would combine every `{0}` with every `{1}`"),
    ],
)
def test_shapes_that_do_not(a: tuple[object, ...], b: tuple[object, ...], code: str, title: str) -> None:
    with pytest.raises(OpError) as refused:
        broadcast([tensor(F32, *a), tensor(F32, *b)])
    assert (refused.value.code, refused.value.title) == (code, title)


def test_the_classic_trap_is_explained_in_the_words_of_the_author() -> None:
    with pytest.raises(OpError) as refused:
        broadcast([tensor(F32, B, 1), tensor(F32, B)])
    error = refused.value.filled("-", ["guess", "truth"])
    assert error.title == "this would combine every `guess` with every `truth`"
    assert error.label == "would be f32[B, B]"
    assert error.notes == ("an operand may gain axes only if the other one then needs no stretching",)
    assert error.helps == (
        "if each `guess` belongs to one `truth`, write `guess[:, 0] - truth`",
        "if you do want all pairs, write `guess - truth[new, :]`",
    )


def test_the_trap_the_other_way_round() -> None:
    with pytest.raises(OpError) as refused:
        broadcast([tensor(F32, B), tensor(F32, B, 1)])
    assert refused.value.filled("-", ["truth", "guess"]).helps == (
        "if each `guess` belongs to one `truth`, write `truth - guess[:, 0]`",
        "if you do want all pairs, write `truth[new, :] - guess`",
    )


def test_facts_decide_when_they_are_known() -> None:
    def equal(a: Dim, b: Dim) -> bool:
        return a == b or {a, b} == {dim(N), dim(M)}

    token = dims_equal.set(equal)
    try:
        assert broadcast([tensor(F32, N), tensor(F32, M)]) == (dim(N),)
    finally:
        dims_equal.reset(token)
    with pytest.raises(OpError):
        broadcast([tensor(F32, N), tensor(F32, M)])


def test_three_operands_join_before_the_smaller_ones_are_fitted() -> None:
    types = [tensor(F32, B, 1), tensor(F32), tensor(F32, 1, K)]
    assert broadcast(types) == (dim(B), dim(K))
    with pytest.raises(OpError):
        broadcast([tensor(F32, B, 1), tensor(F32, K), tensor(F32, B, 1)])


sizes = st.lists(st.sampled_from([1, 1, 2, 3]), max_size=3).map(tuple)


@given(sizes, sizes)
def test_what_is_accepted_means_what_numpy_means(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        shape = broadcast([tensor(F32, *a), tensor(F32, *b)])
    except OpError as refused:
        if refused.code == "E0305":
            with pytest.raises(ValueError, match="broadcast"):
                np.broadcast_shapes(a, b)
        return
    assert tuple(d.constant for d in shape) == np.broadcast_shapes(a, b)
    assert len(a) == len(b) or (a if len(a) > len(b) else b) == np.broadcast_shapes(a, b)


def test_a_target_is_never_stretched() -> None:
    assert stretches_to(TensorType(F32).shape, (dim(B),))
    assert stretches_to((dim(1), dim(K)), (dim(B), dim(K)))
    assert not stretches_to((dim(B),), (dim(1),))
    assert not stretches_to((dim(B), dim(K)), (dim(K),))
