"""Loop-invariant work leaves loops; what is cheap, changes, or may fail stays."""

from __future__ import annotations

import numpy as np

from dfc.ir.dtypes import F32, I32
from dfc.ir.types import tensor
from dfc.kernels.program import For, Launch, Program
from dfc.lower.program import lower_graph
from dfc.ops.attributes import AxisAttributes, CastAttributes, ReduceAttributes
from tests.support.lowering import agree
from tests.support.making import Making

CAST = CastAttributes(F32)


def numbers(*shape: int) -> np.ndarray:
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def launches(program: Program) -> tuple[int, int]:
    """Kernels outside loops and inside the outermost ones."""
    outside = sum(isinstance(step, Launch) for step in program.entries[0].steps)
    inside = sum(len(step.body) for step in program.entries[0].steps if isinstance(step, For))
    return outside, inside


def test_an_invariant_product_runs_once():
    m = Making()
    x, a, b = m.feed("x", tensor(F32, 2, 3)), m.feed("a", tensor(F32, 3, 4)), m.feed("b", tensor(F32, 4, 3))
    out = m.count(3, (x,), lambda i, s: [m.op("tanh", m.op("matmul", s, m.op("matmul", a, b)))])
    program, ran = agree(m.graph(*out), {"x": numbers(2, 3), "a": numbers(3, 4), "b": numbers(4, 3)})
    assert launches(program)[1] == 2
    assert ran.launches == 3 + 3 * 2


def test_work_leaves_two_loops():
    m = Making()
    x, a = m.feed("x", tensor(F32, 3)), m.feed("a", tensor(F32, 5, 3))

    def inner(_i, s):
        return [m.op("add", s, m.op("exp", m.op("sum", a, attributes=ReduceAttributes((0,)))))]

    out = m.count(2, (x,), lambda i, s: list(m.count(2, (s,), inner)))
    program, _ = agree(m.graph(*out), {"x": numbers(3), "a": numbers(5, 3)})
    (loop,) = [step for step in program.entries[0].steps if isinstance(step, For)]
    (nested,) = [step for step in loop.body if isinstance(step, For)]
    assert len(nested.body) == 1


def test_cheap_work_stays():
    m = Making()
    x, a = m.feed("x", tensor(F32, 3)), m.feed("a", tensor(F32, 3))
    out = m.count(2, (x,), lambda i, s: [m.op("mul", s, m.op("neg", a))])
    program, _ = agree(m.graph(*out), {"x": numbers(3), "a": numbers(3)})
    assert not any(
        "neg" in name for step in program.entries[0].steps if isinstance(step, Launch) for name in step.names
    )


def test_what_may_fail_stays():
    m = Making()
    x, a, i = m.feed("x", tensor(F32)), m.feed("a", tensor(F32, 3)), m.feed("i", tensor(I32))
    out = m.count(0, (x,), lambda _, s: [m.op("add", s, m.op("gather", a, i, attributes=AxisAttributes(0)))])
    agree(m.graph(*out), {"x": np.float32(1), "a": numbers(3), "i": np.int32(7)})


def test_what_depends_on_the_iteration_stays():
    m = Making()
    x = m.feed("x", tensor(F32, 3))

    def body(i, s):
        return [m.op("add", s, m.op("exp", m.op("mul", x, m.op("cast", i, attributes=CAST))))]

    agree(m.graph(*m.count(3, (x,), body)), {"x": numbers(3)})
    assert lower_graph(m.graph(*m.count(3, (x,), body))).kernels
