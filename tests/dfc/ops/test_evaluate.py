"""The reference evaluator: control flow, state, checks and numbers, against plain Python."""

import numpy as np
import pytest

from dfc.diagnostics.source import NOWHERE
from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import BOOL, F32, F64, I8, I32, I64, U64
from dfc.ir.graph import Block, Graph, Node, Resource, ResourceKind, Value
from dfc.ir.types import TextType, TokenType, tensor
from dfc.ops.attributes import (
    AxisAttributes,
    CastAttributes,
    HostAttributes,
    OperandSelector,
    ReduceAttributes,
    SliceAttributes,
)
from dfc.ops.creation.philox import initial_state as philox_state
from dfc.ops.creation.philox import numbers
from dfc.ops.evaluate import evaluate, initial_state
from dfc_runtime.errors import FeedError, RunError, UnsupportedError
from tests.support.graphs import constant, entry, graph, variable
from tests.support.making import Making

N = Symbol("N")


def test_sizes_come_from_feeds() -> None:
    m = Making()
    x = m.feed("x", tensor(F32, N, 2))
    total = m.op("sum", x, attributes=ReduceAttributes((0, 1)))
    mean = m.op("div", total, m.op("cast", m.size(N), attributes=CastAttributes(F32)))
    made = m.graph(mean, dims=[N])
    for rows in (1, 5):
        x_fed = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
        assert evaluate(made, "e", {"x": x_fed}).result == x_fed.sum() / rows


@pytest.mark.parametrize(("taken", "expected"), [(True, 5.0), (False, -3.0)])
def test_a_branch_runs_alone(taken: bool, expected: float) -> None:
    w = variable("w", tensor(F64))
    m = Making(resources=[w])
    c, x = m.feed("c", tensor(BOOL)), m.feed("x", tensor(F64))

    def then() -> list[Value]:
        m.assign("w", x, mode="+=")
        return [m.op("add", x, m.constant(2, F64))]

    (y,) = m.when(c, then, lambda: [m.op("neg", x)])
    outcome = evaluate(m.graph(y), "e", {"c": taken, "x": 3.0}, {"w": np.array(10.0)})
    assert outcome.result == expected
    assert outcome.state["w"] == (13.0 if taken else 10.0)


def test_a_loop_runs_while_its_condition_holds() -> None:
    m = Making()
    limit = m.feed("limit", tensor(I32))

    def body(k: Value, total: Value) -> list[Value]:
        return [m.op("add", k, m.constant(1, I32)), m.op("add", total, k)]

    start = [m.constant(0, I32), m.constant(0, I32)]
    k, total = m.loop(start, lambda k, _t: [m.op("less", k, limit)], body)
    made = m.graph(k, total)
    for rounds in (0, 1, 10):
        results = evaluate(made, "e", {"limit": rounds}).results
        assert [int(r) for r in results] == [rounds, sum(range(rounds))]


@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_counting_carries_and_stacks(rounds: int) -> None:
    m = Making()
    m.feed("rows", tensor(BOOL, N))

    def body(i: Value, total: Value) -> list[Value]:
        after = m.op("add", total, i)
        return [after, after]

    total, emitted = m.count(N, [m.constant(0, I64)], body)
    results = evaluate(m.graph(total, emitted, dims=[N]), "e", {"rows": np.zeros(rounds, bool)}).results
    expected = np.cumsum(np.arange(rounds))
    assert int(results[0]) == sum(range(rounds))
    np.testing.assert_array_equal(results[1], expected)
    assert results[1].shape == (rounds,)


def test_effects_happen_in_order_and_state_is_not_changed_in_place() -> None:
    w = variable("w", tensor(F64, 2))
    m = Making(resources=[w])
    x = m.feed("x", tensor(F64, 2))
    before = m.read("w")
    m.assign("w", x)
    between = m.read("w")
    m.assign("w", x, mode="*=")
    state = {"w": np.array([1.0, 2.0])}
    outcome = evaluate(m.graph(before, between), "e", {"x": np.array([3.0, 4.0])}, state)
    assert [r.tolist() for r in outcome.results] == [[1, 2], [3, 4]]
    assert outcome.state["w"].tolist() == [9, 16]
    assert state["w"].tolist() == [1, 2]


def test_an_indexed_write_adds_up_repeated_places() -> None:
    w = variable("w", tensor(F64, 3))
    m = Making(resources=[w])
    ids = m.feed("ids", tensor(I64, 3))
    m.assign("w", m.constant([1.0, 10.0, 100.0], F64), ids, mode="+=", selectors=[OperandSelector(0)])
    outcome = evaluate(m.graph(), "e", {"ids": np.array([0, 2, 0])}, {"w": np.zeros(3)})
    assert outcome.state["w"].tolist() == [101, 0, 10]


def test_draws_move_the_generator_on() -> None:
    dice = Resource("dice", ResourceKind.RNG, tensor(U64, 4), False, None, NOWHERE)
    m = Making(resources=[dice])
    a, b = m.draw("dice", tensor(F32, 3)), m.draw("dice", tensor(F64, 2), "normal")
    state = {"dice": philox_state(7, "dice")}
    outcome = evaluate(m.graph(a, b), "e", {}, state)
    key = (int(state["dice"][0]), int(state["dice"][1]))
    np.testing.assert_array_equal(outcome.results[0], numbers("uniform", F32, (3,), key, 0))
    np.testing.assert_array_equal(outcome.results[1], numbers("normal", F64, (2,), key, 1))
    assert int(outcome.state["dice"][2]) == 2


def test_random_nodes_depend_on_their_stream_alone() -> None:
    m = Making()
    a, b = m.random(tensor(F32, 4)), m.random(tensor(F32, 4))
    made = m.graph(a, b)
    first, second = evaluate(made, "e").results
    assert (first != second).any()
    np.testing.assert_array_equal(first, evaluate(made, "e").results[0])


def test_a_failed_assertion_names_its_message() -> None:
    m = Making()
    c = m.feed("c", tensor(BOOL))
    m.check(c, "c must hold")
    made = m.graph()
    assert evaluate(made, "e", {"c": True}).results == ()
    with pytest.raises(RunError, match="c must hold"):
        evaluate(made, "e", {"c": False})


@pytest.mark.parametrize("op", ["floordiv", "mod"])
def test_integers_divided_by_zero_are_an_error(op: str) -> None:
    m = Making()
    a, b = m.feed("a", tensor(I32)), m.feed("b", tensor(I32))
    made = m.graph(m.op(op, a, b))
    expected = {"floordiv": -4, "mod": 1}[op]
    assert int(evaluate(made, "e", {"a": -7, "b": 2}).result) == expected
    with pytest.raises(RunError, match="zero"):
        evaluate(made, "e", {"a": 1, "b": 0})


def test_integers_wrap() -> None:
    m = Making()
    a = m.feed("a", tensor(I8))
    assert int(evaluate(m.graph(m.op("add", a, a)), "e", {"a": 100}).result) == -56


def test_an_index_out_of_range_is_an_error() -> None:
    m = Making()
    x, ids = m.feed("x", tensor(F32, 3)), m.feed("ids", tensor(I64))
    made = m.graph(m.op("gather", x, ids, attributes=AxisAttributes(0)))
    fed = np.array([1, 2, 3], np.float32)
    assert evaluate(made, "e", {"x": fed, "ids": np.array(-1)}).result == 3
    with pytest.raises(RunError):
        evaluate(made, "e", {"x": fed, "ids": np.array(3)})


def test_reading_what_nothing_has_set_is_an_error() -> None:
    w = variable("w", tensor(F64))
    m = Making(resources=[w])
    x = m.read("w")
    with pytest.raises(RunError, match="`w` is used before anything has set it"):
        evaluate(m.graph(x), "e")
    m = Making(resources=[w])
    m.assign("w", m.constant(4.0, F64))
    assert evaluate(m.graph(), "e").state["w"] == 4.0


def test_state_starts_from_its_initial_values_or_from_init() -> None:
    w, v = variable("w", tensor(F64, 2), 0.5), variable("v", tensor(F64), 2)
    plain = graph(resources=[w, v])
    assert {name: array.tolist() for name, array in initial_state(plain).items()} == {"w": [0.5, 0.5], "v": 2.0}
    m = Making("init", resources=[w, v])
    m.assign("w", m.constant(7.0, F64))
    assert {n: a.tolist() for n, a in initial_state(m.graph()).items()} == {"w": [7, 7]}


@pytest.mark.parametrize(
    "feeds",
    [
        {},
        {"x": np.zeros((2, 3)), "y": 1},
        {"x": np.zeros((2, 3), np.float64)},
        {"x": np.zeros((2, 4), np.float32)},
        {"x": np.zeros(6, np.float32)},
    ],
)
def test_wrong_feeds_are_refused(feeds: dict[str, object]) -> None:
    m = Making()
    x = m.feed("x", tensor(F32, N, 3))
    with pytest.raises(FeedError):
        evaluate(m.graph(x, dims=[N]), "e", feeds)


def test_host_steps_go_to_the_host() -> None:
    w = variable("w", tensor(F64))
    path, token = Value(TextType(), "path"), Value(TokenType("w"), "w")
    save = Node(
        "checkpoint_save", (path, token), (token.type,), attributes=HostAttributes(("w",)), name="e/checkpoint_save"
    )
    back = Node(
        "checkpoint_restore",
        (path, save.result),
        (token.type,),
        attributes=HostAttributes(("w",)),
        name="e/checkpoint_restore",
    )
    made = graph(entry("e", (path, token), (save, back), back.results), resources=[w])
    calls: list[tuple[str, str, float]] = []

    def host(kind, where, state):
        calls.append((kind, where, float(state["w"])))
        return {"w": np.array(9.0)} if kind == "checkpoint_restore" else {}

    outcome = evaluate(made, "e", {"path": "here"}, {"w": np.array(1.0)}, host=host)
    assert calls == [("checkpoint_save", "here", 1.0), ("checkpoint_restore", "here", 1.0)]
    assert outcome.state["w"] == 9.0
    with pytest.raises(UnsupportedError):
        evaluate(made, "e", {"path": "here"}, {"w": np.array(1.0)})


def test_a_long_chain_is_evaluated() -> None:
    m = Making()
    x = y = m.feed("x", tensor(I64))
    for _ in range(5_000):
        y = m.op("add", y, x)
    assert int(evaluate(m.graph(y), "e", {"x": 1}).result) == 5_001


def test_a_slice_that_leaves_its_axis_is_an_error() -> None:
    m = Making()
    x = m.feed("x", tensor(F32, N))
    part = m.op("slice", x, attributes=SliceAttributes((dim(0),), (dim(4),), (1,)))
    made = m.graph(part, dims=[N])
    assert evaluate(made, "e", {"x": np.zeros(4, np.float32)}).result.shape == (4,)
    with pytest.raises(RunError):
        evaluate(made, "e", {"x": np.zeros(3, np.float32)})


def test_a_constant_node_is_its_array() -> None:
    node = constant(np.array([1, 2], np.int32), "e/c")
    made = Graph("g", {}, {"e": entry("e", (), (node,), node.results)})
    assert evaluate(made, "e").result.tolist() == [1, 2]
    assert isinstance(made.entries["e"].block, Block)
