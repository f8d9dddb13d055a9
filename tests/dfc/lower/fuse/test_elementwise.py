"""Element-wise chains, views and folds: what programs compute, and how few kernels they take."""

from __future__ import annotations

import numpy as np

from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import F32
from dfc.ir.types import tensor
from dfc.kernels.body import Apply
from dfc.kernels.form import LoopKernel
from dfc.ops.attributes import AxesAttributes, PermutationAttributes, ReduceAttributes, ShapeAttributes, SliceAttributes
from tests.support.lowering import agree
from tests.support.making import Making

B = Symbol("B")


def numbers(*shape: int) -> np.ndarray:
    return np.linspace(-2, 3, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def test_a_chain_is_one_kernel():
    m = Making()
    x, y = m.feed("x", tensor(F32, B, 5)), m.feed("y", tensor(F32, 5))
    z = m.op("exp", m.op("mul", m.op("add", x, y), m.op("neg", x)))
    _, ran = agree(m.graph(z, dims=[B]), {"x": numbers(3, 5), "y": numbers(5)}, sizes={"B": 3})
    assert ran.launches == 1


def test_a_batch_of_nothing_runs():
    m = Making()
    x = m.feed("x", tensor(F32, B, 5))
    agree(
        m.graph(m.op("exp", x), m.op("sum", x, attributes=ReduceAttributes((0,))), dims=[B]),
        {"x": numbers(0, 5)},
        sizes={"B": 0},
    )


def test_softmax_is_one_kernel():
    m = Making()
    x = m.feed("x", tensor(F32, B, 6))
    keep = ReduceAttributes((1,), True)
    e = m.op("exp", m.op("sub", x, m.op("max", x, attributes=keep)))
    graph = m.graph(m.op("div", e, m.op("sum", e, attributes=keep)), dims=[B])
    program, ran = agree(graph, {"x": numbers(4, 6)}, sizes={"B": 4})
    assert ran.launches == 1
    assert len(program.entries[0].buffers) == 2, "the exponentials wait in the memory of the result"


def exponentials(x: str, y: str) -> set[str]:
    """The functions that `exp(x - max(y))` of two feeds is made of, but for the difference."""
    m = Making()
    feeds = {"x": m.feed("x", tensor(F32, B, 6)), "y": m.feed("y", tensor(F32, B, 6))}
    largest = m.op("max", feeds[y], attributes=ReduceAttributes((1,), True))
    graph = m.graph(m.op("exp", m.op("sub", feeds[x], largest)), m.op("neg", feeds["y"]), dims=[B])
    program, _ = agree(graph, {"x": numbers(4, 6), "y": -numbers(4, 6)}, sizes={"B": 4})
    stages = [stage for kernel in program.kernels if isinstance(kernel, LoopKernel) for stage in kernel.stages]
    applied = [one.operation for stage in stages for one in stage.body if isinstance(one.operation, Apply)]
    return {operation.function for operation in applied} - {"sub", "neg"}


def test_only_exponents_relative_to_their_own_largest_are_known_not_to_be_positive():
    assert exponentials("x", "x") == {"exp_of_nonpositive"}
    assert exponentials("x", "y") == {"exp"}


def test_a_transposed_view_is_no_kernel():
    m = Making()
    x = m.feed("x", tensor(F32, 3, 4))
    t = m.op("transpose", x, attributes=PermutationAttributes((1, 0)))
    _, ran = agree(m.graph(m.op("exp", t)), {"x": numbers(3, 4)})
    assert ran.launches == 1


def test_a_reshape_of_memory_is_an_alias():
    m = Making()
    x = m.feed("x", tensor(F32, B, 2, 3))
    flat = m.op("reshape", m.op("exp", x), attributes=ShapeAttributes(tensor(F32, B, 6).shape))
    _, ran = agree(m.graph(m.op("neg", flat), dims=[B]), {"x": numbers(2, 2, 3)}, sizes={"B": 2})
    assert ran.launches == 2


def test_numbers_that_depend_on_where_they_stand_are_those_of_the_part_that_is_taken() -> None:
    """Of random numbers and their like an element is computed from its index; a slice begins at another one."""
    m = Making()
    x = m.feed("x", tensor(F32, 4))
    part = SliceAttributes((dim(3),), (dim(4),), (1,))
    y = m.op("add", x, m.op("slice", m.random(tensor(F32, 9)), attributes=part))
    z = m.op("add", x, m.op("reverse", m.random(tensor(F32, 4)), attributes=AxesAttributes((0,))))
    agree(m.graph(y, z), {"x": numbers(4)})
