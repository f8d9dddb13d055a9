"""Functions of the prelude as programs call them: arguments, constants, and what NumPy says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dfc.diagnostics.source import NOWHERE
from dfc.elaborate.expressions.prelude import SPECIAL, UNSUPPORTED, prelude_scope
from dfc.elaborate.names.scope import BindingRole, Pending
from dfc.elaborate.types.entities import PreludeFunction, Unknown
from dfc.ops import registry, table
from tests.support.building import codes, graph_of, messages, result
from tests.support.one_test_for_all import one_test_for_all

A = np.array([[1.5, -2.0, 0.5], [3.0, 0.25, -1.0]], np.float64)
V = np.array([2.0, -1.0, 0.5])
I = np.array([[3, -7, 2], [5, 0, 4]], np.int32)  # noqa: E741

CALLS = [
    ("abs(a)", "f64[2, 3]", np.abs(A)),
    ("square(a) |> sum", "f64", (A**2).sum()),
    ("sum(a, axis = 0)", "f64[3]", A.sum(0)),
    ("sum(a, axis = [0, 1])", "f64", A.sum()),
    ("sum(a, keep = 0)", "f64[2]", A.sum(1)),
    ("mean(a, axis = -1, keep_dims = true)", "f64[2, 1]", A.mean(1, keepdims=True)),
    ("sum(i, into = i64)", "i64", I.sum()),
    ("max(a, axis = 1)", "f64[2]", A.max(1)),
    ("min(a)", "f64", A.min()),
    ("max(3, 5) as f64", "f64", 5.0),
    ("any(a > 2.5)", "bool", True),
    ("all(a > -5, axis = 0)", "bool[3]", np.array([True] * 3)),
    ("argmax(a, axis = 1)", "i32[2]", A.argmax(1)),
    ("argmin(a, axis = 0, into = i64)", "i64[3]", A.argmin(0)),
    ("prod(a, axis = 0)", "f64[3]", A.prod(0)),
    ("cumsum(a, axis = 1)", "f64[2, 3]", A.cumsum(1)),
    ("logsumexp(a, axis = 1)", "f64[2]", np.log(np.exp(A).sum(1))),
    ("softmax(v)", "f64[3]", np.exp(V) / np.exp(V).sum()),
    ("log_softmax(a, axis = 0)", "f64[2, 3]", A - np.log(np.exp(A).sum(0))),
    ("norm(v)", "f64", np.linalg.norm(V)),
    ("norm(a, axis = 1)", "f64[2]", np.linalg.norm(A, axis=1)),
    ("dot(v, v)", "f64", V @ V),
    ("outer(v, v)", "f64[3, 3]", np.outer(V, V)),
    ("a @ v", "f64[2]", A @ V),
    ("matmul(a, transpose(a))", "f64[2, 2]", A @ A.T),
    ("reshape(a, [3, 2])", "f64[3, 2]", A.reshape(3, 2)),
    ("reshape(a, 6)", "f64[6]", A.reshape(6)),
    ("transpose(a)", "f64[3, 2]", A.T),
    ("transpose(a[new], axes = [2, 0, 1])", "f64[3, 1, 2]", A[None].transpose(2, 0, 1)),
    ("concat([a, 2 * a], axis = 1)", "f64[2, 6]", np.concatenate([A, 2 * A], 1)),
    ("stack([v, v + 1], axis = -1)", "f64[3, 2]", np.stack([V, V + 1], -1)),
    ("split(a, 3, axis = 1)[1]", "f64[2, 1]", A[:, 1:2]),
    ("reverse(a, axis = 0)", "f64[2, 3]", A[::-1]),
    ("broadcast(v, [4, 3])", "f64[4, 3]", np.broadcast_to(V, (4, 3))),
    ("pad(v, [[1, 2]])", "f64[6]", np.pad(V, (1, 2))),
    ("pad(v, [[1, 0]], fill = 7)", "f64[4]", np.pad(V, (1, 0), constant_values=7)),
    ("clamp(a, -1, 1)", "f64[2, 3]", np.clip(A, -1, 1)),
    ("select(a > 0, a, 0)", "f64[2, 3]", np.where(A > 0, A, 0)),
    ("minimum(a, 1)", "f64[2, 3]", np.minimum(A, 1)),
    ("zeros(f64[2])", "f64[2]", np.zeros(2)),
    ("ones(bool[2])", "bool[2]", np.ones(2, bool)),
    ("full(f64[2], v[0])", "f64[2]", np.full(2, 2.0)),
    ("full(i32[2, 2], 7)", "i32[2, 2]", np.full((2, 2), 7)),
    ("zeros_like(a) + ones_like(a)", "f64[2, 3]", np.ones((2, 3))),
    ("iota(i32[4])", "i32[4]", np.arange(4)),
    ("eye(f64[2, 2])", "f64[2, 2]", np.eye(2)),
    ("one_hot(i[0] % 3, 3)", "f32[3, 3]", np.eye(3)[I[0] % 3]),
    ("solve(eye(f64[3, 3]) * 2, v)", "f64[3]", V / 2),
    ("cross_entropy(a, [0, 2])", "f64[2]", None),
    ("i // 2", "i32[2, 3]", I // 2),
    ("i % 3", "i32[2, 3]", I % 3),
    ("a ** 2", "f64[2, 3]", A**2),
    ("2.0 ** v", "f64[3]", 2.0**V),
    ("-a", "f64[2, 3]", -A),
    ("not (a > 0)", "bool[2, 3]", ~(A > 0)),
    ("a > 0 and a < 1 or a == 3", "bool[2, 3]", ((A > 0) & (A < 1)) | (A == 3)),
    ("stop_gradient(v)", "f64[3]", V),
    ("is_finite(v / 0)", "bool[3]", np.array([False] * 3)),
    ("expm1(v) + atan(v) + sinh(v)", "f64[3]", np.expm1(V) + np.arctan(V) + np.sinh(V)),
    ("atan2(v, 2)", "f64[3]", np.arctan2(V, 2)),
    ("hypot(a, 1)", "f64[2, 3]", np.hypot(A, 1)),
    ("fmod(a, 0.75)", "f64[2, 3]", np.fmod(A, 0.75)),
    ("is_nan(v)", "bool[3]", np.isnan(V)),
    ("bit_and(i, 6)", "i32[2, 3]", I & 6),
    ("shift_left(i, 2)", "i32[2, 3]", I << 2),
    ("xor(a > 0, a > 1)", "bool[2, 3]", (A > 0) ^ (A > 1)),
    ("cumprod(a, axis = 1)", "f64[2, 3]", A.cumprod(1)),
    ("cummax(a)", "f64[2, 3]", np.maximum.accumulate(A, 1)),
    ("variance(a, axis = 1, correction = 1)", "f64[2]", A.var(1, ddof=1)),
    ("deviation(a)", "f64", A.std()),
    ("median(a)", "f64[2]", np.median(A, 1)),
    ("sort(a, axis = 0)", "f64[2, 3]", np.sort(A, 0)),
    ("sort(v, descending = true)", "f64[3]", np.sort(V)[::-1]),
    ("argsort(a)", "i32[2, 3]", np.argsort(A, 1)),
    ("top_k(v, 2)[0]", "f64[2]", np.sort(V)[:0:-1]),
    ("search(sort(v), [0.0, 0.75])", "i32[2]", np.searchsorted(np.sort(V), [0, 0.75])),
    ("gather_along(a, argsort(a))", "f64[2, 3]", np.sort(A, 1)),
    ("roll(a, 1, axis = 1)", "f64[2, 3]", np.roll(A, 1, 1)),
    ("tile(a, [2, 1])", "f64[4, 3]", np.tile(A, (2, 1))),
    ("repeat(a, 2, axis = 1)", "f64[2, 6]", np.repeat(A, 2, 1)),
    ("swap_axes(a, 0, -1)", "f64[3, 2]", A.T),
    ("move_axis(a[new], 0, 2)", "f64[2, 3, 1]", A[..., None]),
    ("squeeze(a[:, new])", "f64[2, 3]", A),
    ("diagonal(a, offset = 1)", "f64[2]", np.diagonal(A, 1)),
    ("diag(v)", "f64[3, 3]", np.diag(V)),
    ("tril(a) + triu(a, offset = 1)", "f64[2, 3]", A),
    ("windows(v, axis = 0, size = 2)", "f64[2, 2]", np.stack([V[:2], V[1:]])),
    ('einsum("ij,kj->ik", a, a)', "f64[2, 2]", A @ A.T),
    ('einsum("ii", diag(v))', "f64", V.sum()),
    ('einsum("ij,j,j->i", a, v, v)', "f64[2]", A @ (V * V)),
    ("conv1d(v[new, :, new], ones(f64[2, 1, 1]))[0, :, 0]", "f64[2]", V[:2] + V[1:]),
    ("max_pool(a[new, .., new], size = [2, 1])[0, 0, :, 0]", "f64[3]", A.max(0)),
    ("mean_pool(a[new, .., new], size = 2, stride = 1)[0, 0, :, 0]", "f64[2]", [A[:, :2].mean(), A[:, 1:].mean()]),
    ('resize(a[new, .., new], size = [2, 6], method = "nearest")[0, .., 0]', "f64[2, 6]", np.repeat(A, 2, 1)),
    ("segment_sum(v, [1, 1, 0], 2)", "f64[2]", [V[2], V[0] + V[1]]),
    ("inverse(diag(v))", "f64[3, 3]", np.diag(1 / V)),
    ("determinant(diag(v))", "f64", V.prod()),
    ("cholesky(a @ transpose(a))", "f64[2, 2]", np.linalg.cholesky(A @ A.T)),
    ("triangular_solve(diag(v), v)", "f64[3]", np.ones(3)),
    ("qr(transpose(a))[1]", "f64[2, 2]", np.linalg.cholesky(A @ A.T).T),
    ("eigh(a @ transpose(a))[0]", "f64[2]", np.linalg.eigvalsh(A @ A.T)),
    ("svd(transpose(a))[1]", "f64[2]", np.linalg.svd(A)[1]),
    ("sigmoid_cross_entropy(v, 1)", "f64[3]", np.log1p(np.exp(-V))),
    ("trace(diag(v))", "f64", V.sum()),
    ("lerp(v, 2 * v, 0.5)", "f64[3]", 1.5 * V),
    ("cross(v, [1.0, 0.0, 2.0])", "f64[3]", np.cross(V, [1, 0, 2])),
]


@one_test_for_all(CALLS)
def test_a_call_means_what_numpy_says(case: tuple[str, str, np.ndarray | None]) -> None:
    call, type_, expected = case
    program = f"entry f(a: f64[2, 3], v: f64[3], i: i32[2, 3]) -> {type_} {{ return {call} }}"
    if expected is None:
        expected = np.log(np.exp(A).sum(1)) - A[[0, 1], [0, 2]]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(result(program, a=A, v=V, i=I), expected, rtol=1e-12)


def test_every_op_of_the_prelude_can_be_called() -> None:
    scope = prelude_scope(lambda _name: Pending(Unknown))
    for record in registry.all_records():
        if record.in_prelude and not record.operator:
            binding = scope.own(record.name)
            assert binding is not None and isinstance(binding.value, PreludeFunction), record.name


@pytest.mark.parametrize("name", sorted(name for name in UNSUPPORTED if registry.find(name) is None))
def test_what_is_not_compiled_yet_says_so(name: str) -> None:
    assert codes(f"entry f(x: f32[3]) {{ let y = {name}(x) }}") == ["E1001"]


@pytest.mark.parametrize("name", sorted(SPECIAL))
def test_special_functions_name_their_parameters(name: str) -> None:
    special = SPECIAL[name]
    assert special.signature.startswith(f"{name}(")
    assert len(special.expected_arguments) >= special.required
    text = messages(f"entry f(x: f32[3]) {{ let y = {name}(nonsense = 1) }}")
    assert f"error[E0204]: `{name}` has no argument `nonsense`" in text


def test_the_escape_to_any_op_makes_exactly_one_node() -> None:
    graph = graph_of(
        """
        entry f(x: f32[4]) -> (y: f32[2], z: f32[4], k: f32[2]) {
          let y = graph.slice(x, starts = [1], sizes = [2], steps = [1])
          let z = graph.and_(x > 0, x < 1) as f32
          return y, z, graph.constant(type_ = f32[2], value = [1.0, 2.0])
        }
        """
    )
    assert [n.op for n in graph.entries["f"].block.nodes][:1] == ["slice"]
    assert [n.op for n in graph.entries["f"].block.nodes].count("and") == 1


def test_an_op_is_a_name_of_programs_as_long_as_it_is_registered() -> None:
    text = "entry f(x: f64[3]) -> f64[3] { return no_more_than_exp(x) }"
    assert codes(text) == ["E0201"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(table.RECORDS, "no_more_than_exp", replace(registry.record("exp"), name="no_more_than_exp"))
        np.testing.assert_allclose(result(text, x=V), np.exp(V))
    assert codes(text) == ["E0201"]


def test_a_program_leaves_nothing_in_the_prelude_of_the_next() -> None:
    """`outer` is written in the language: each program elaborates its own."""
    first, second = (prelude_scope(lambda name: Pending(Unknown)) for _ in range(2))
    assert first.own("outer") is not second.own("outer")
    first.bind("mine", Unknown(), NOWHERE, BindingRole.LET)
    assert second.own("mine") is None and prelude_scope(lambda name: Pending(Unknown)).own("mine") is None
