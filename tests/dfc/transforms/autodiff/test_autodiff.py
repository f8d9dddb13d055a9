"""What autodiff refuses, and the shapes of its output that text does not show."""

import numpy as np
import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.ir import walk
from dfc.ir.dims import Symbol
from dfc.ir.dtypes import BOOL, F64
from dfc.ir.graph import Graph, Value
from dfc.ir.types import tensor
from dfc.ops.attributes import AxisAttributes, CastAttributes, ReduceAttributes
from dfc.ops.evaluate import evaluate
from dfc.transforms.autodiff.autodiff import autodiff, autodiff_block
from dfc.transforms.scalar.dce import dce
from tests.support.agreeing import verified
from tests.support.graphs import variable
from tests.support.making import Making

X = tensor(F64)
N = Symbol("N")


def refused(graph: Graph, code: str = "E1001") -> str:
    with pytest.raises(CompileError) as caught:
        autodiff(graph)
    assert [d.code for d in caught.value.diagnostics] == [code]
    assert caught.value.exit_code == (3 if code == "E1001" else 2)
    return caught.value.diagnostics[0].title


def test_a_read_hidden_in_a_loop_is_the_same_variable() -> None:
    w = variable("w", X)
    m = Making(resources=[w])
    now = m.read("w")
    (y,) = m.count(3, [m.constant(0.0, F64)], lambda _i, h: [m.op("add", h, m.op("sin", m.read("w")))])
    made = verified(dce(autodiff(m.graph(m.op("grad", y, now)))), "dce")
    assert evaluate(made, "e", {}, {"w": np.array(0.5)}).result == pytest.approx(3 * np.cos(0.5), rel=1e-12)


def test_a_loop_beside_the_way_is_no_trouble() -> None:
    m = Making()
    x, other = m.feed("x", X), m.feed("other", X)
    (scale,) = m.count(3, [other], lambda _i, h: [m.op("sin", h)])
    made = verified(autodiff(m.graph(m.op("grad", m.op("mul", x, scale), x))), "autodiff")
    feeds = {"x": 2.0, "other": 0.5}
    assert evaluate(made, "e", feeds).result == np.sin(np.sin(np.sin(0.5)))


def test_a_gradient_inside_a_loop_with_respect_to_what_it_carries() -> None:
    """Three steps of descent on (x - 1)^2."""
    m = Making()
    x = m.feed("x", X)

    def step(_i: Value, at: Value) -> list[Value]:
        loss = m.op("square", m.op("sub", at, m.constant(1.0, F64)))
        slope = m.op("grad", loss, at)
        return [m.op("sub", at, m.op("mul", m.constant(0.25, F64), slope))]

    made = verified(autodiff(m.graph(*m.count(3, [x], step))), "autodiff")
    assert evaluate(made, "e", {"x": 5.0}).result == 1.5


def test_a_gradient_inside_a_loop_with_respect_to_a_value_outside() -> None:
    m = Making()
    x = m.feed("x", X)

    def step(i: Value, total: Value) -> list[Value]:
        part = m.op("mul", m.op("square", x), m.op("cast", i, attributes=CastAttributes(F64)))
        return [m.op("add", total, m.op("grad", part, x))]

    made = verified(autodiff(m.graph(*m.count(3, [m.constant(0.0, F64)], step))), "autodiff")
    assert evaluate(made, "e", {"x": 5.0}).result == 2 * 5 * (0 + 1 + 2)


def test_earlier_iterations_are_refused() -> None:
    """The carried value holds x from earlier iterations; a gradient for x would have to go through them."""
    m = Making()
    x = m.feed("x", X)

    def step(_i: Value, h: Value) -> list[Value]:
        loss = m.op("mul", h, x)
        return [m.op("add", loss, m.op("grad", loss, x))]

    assert "earlier iterations" in refused(m.graph(*m.count(3, [m.constant(1.0, F64)], step)), "E0506")


def test_reads_across_a_write_are_different_values() -> None:
    w = variable("w", X)
    m = Making(resources=[w])
    before = m.read("w")
    m.assign("w", m.op("mul", before, before))
    after = m.read("w")
    loss = m.op("add", m.op("mul", before, m.constant(3.0, F64)), m.op("sin", after))
    made = verified(autodiff(m.graph(*m.many("grad", loss, before, after))), "autodiff")
    results = evaluate(made, "e", {}, {"w": np.array(2.0)}).results
    assert [float(r) for r in results] == [3.0, np.cos(4.0)]


def test_a_read_inside_a_branch_is_the_same_variable() -> None:
    w = variable("w", X)
    m = Making(resources=[w])
    c, now = m.feed("c", tensor(BOOL)), m.read("w")
    (y,) = m.when(c, lambda: [m.op("square", m.read("w"))], lambda: [m.op("sin", now)])
    made = verified(dce(autodiff(m.graph(m.op("grad", y, now)))), "dce")
    for taken, expected in ((True, 6.0), (False, np.cos(3.0))):
        assert evaluate(made, "e", {"c": taken}, {"w": np.array(3.0)}).result == expected


def test_nested_branches() -> None:
    m = Making()
    x, a, b = m.feed("x", X), m.feed("a", tensor(BOOL)), m.feed("b", tensor(BOOL))

    def outer() -> list[Value]:
        (inner,) = m.when(b, lambda: [m.op("sin", x)], lambda: [m.op("mul", x, x)])
        return [m.op("exp", inner)]

    (y,) = m.when(a, outer, lambda: [x])
    made = verified(autodiff(m.graph(m.op("grad", y, x))), "autodiff")
    for first, second, expected in (
        (True, True, np.exp(np.sin(0.5)) * np.cos(0.5)),
        (True, False, np.exp(0.25) * 1.0),
        (False, True, 1.0),
    ):
        got = evaluate(made, "e", {"x": 0.5, "a": first, "b": second}).result
        assert got == pytest.approx(expected, rel=1e-12)


def test_second_order_through_a_branch() -> None:
    m = Making()
    x, c = m.feed("x", X), m.feed("c", tensor(BOOL))
    (y,) = m.when(c, lambda: [m.op("sin", x)], lambda: [m.op("mul", m.op("square", x), x)])
    made = verified(autodiff(m.graph(m.op("grad", m.op("grad", y, x), x))), "autodiff")
    assert evaluate(made, "e", {"x": 0.5, "c": True}).result == pytest.approx(-np.sin(0.5))
    assert evaluate(made, "e", {"x": 0.5, "c": False}).result == pytest.approx(6 * 0.5)


def test_stop_gradient_cuts() -> None:
    m = Making()
    x = m.feed("x", X)
    made = autodiff(m.graph(m.op("grad", m.op("mul", x, m.op("stop_gradient", x)), x)))
    assert evaluate(made, "e", {"x": 3.0}).result == 3.0


def test_a_jacobian_is_the_matrix_of_gradients() -> None:
    m = Making()
    x = m.feed("x", tensor(F64, 3))
    y = m.op("cumsum", m.op("square", x), attributes=AxisAttributes(0))
    made = verified(autodiff(m.graph(m.op("jacobian", y, x))), "autodiff")
    fed = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(evaluate(made, "e", {"x": fed}).result, np.tril(np.ones((3, 3))) * 2 * fed)


def test_a_jacobian_of_nothing_and_of_a_number() -> None:
    m = Making()
    x, empty = m.feed("x", tensor(F64, 3)), m.feed("empty", tensor(F64, 0))
    nothing = m.op("jacobian", m.op("sin", empty), empty)
    whole = m.op("jacobian", m.op("sum", x, attributes=ReduceAttributes((0,))), x)
    made = verified(autodiff(m.graph(nothing, whole)), "autodiff")
    results = evaluate(made, "e", {"x": np.zeros(3), "empty": np.zeros(0)}).results
    assert results[0].shape == (0, 0)
    assert results[1].tolist() == [1, 1, 1]


def test_a_jacobian_of_unknown_size_is_refused() -> None:
    m = Making()
    x = m.feed("x", tensor(F64, N))
    assert "jacobian" in refused(m.graph(m.op("jacobian", m.op("sin", x), x), dims=[N]))


def test_gradients_carry_the_name_and_place_of_what_they_differentiate() -> None:
    m = Making()
    x = m.feed("x", X)
    made = autodiff(m.graph(m.op("grad", m.op("sin", m.op("square", x)), x)))
    names = {node.name for node in walk.nodes(made.entries["e"].block)}
    assert "e/grad" in names
    assert any(name.startswith("e/sin/grad") for name in names)


def test_a_long_chain_is_differentiated() -> None:
    m = Making()
    x = y = m.feed("x", X)
    for _ in range(5_000):
        y = m.op("sin", y)
    m.builder.name = "e/grad"
    gradient = m.builder.node("grad", [y, x]).result
    entry = m.entry(gradient)
    assert len(autodiff_block(entry.block).nodes) > 10_000


def test_gradients_of_one_loss_that_are_taken_one_by_one_share_a_backward_pass() -> None:
    names = ["a", "b", "c"]

    def graph(*, together: bool) -> Graph:
        m = Making(resources=[variable(name, X) for name in names])
        a, b, c = (m.read(name) for name in names)
        loss = m.op("sin", m.op("mul", m.op("mul", a, b), c))
        if together:
            return m.graph(*m.many("grad", loss, a, b, c))
        # the last one through a read of its own
        return m.graph(m.op("grad", loss, a), m.op("grad", loss, b), m.op("grad", loss, m.read("c")))

    apart, shared = (verified(autodiff(graph(together=each)), "autodiff") for each in (False, True))
    state = {name: np.array(value) for name, value in zip(names, (0.5, 1.25, -2.0), strict=True)}
    results = evaluate(apart, "e", {}, state).results
    assert results == pytest.approx([np.cos(-1.25) * x for x in (-2.5, -1.0, 0.625)], rel=1e-12)
    assert results == evaluate(shared, "e", {}, state).results
    counts = [sum(node.op == "cos" for node in walk.nodes(graph.entries["e"].block)) for graph in (apart, shared)]
    assert counts == [1, 1]
