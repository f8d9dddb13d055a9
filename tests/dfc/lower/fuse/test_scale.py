"""Programs far longer than anybody writes: no recursion, kernels of bounded size, few distinct ones."""

from __future__ import annotations

import pytest

from dfc.ir.dims import Symbol
from dfc.ir.dtypes import F32
from dfc.ir.types import tensor
from dfc.kernels.form import LoopKernel
from dfc.lower.program import lower_graph
from dfc.ops.attributes import ReduceAttributes
from tests.support.graphs import variable
from tests.support.making import Making
from tests.support.sweeping import WHOLE

NODES = 30_000 if WHOLE else 4_000
LAYERS = 300 if WHOLE else 100
WRITES = 2_000 if WHOLE else 700


@pytest.mark.parametrize("shape", [(8,), ()])
def test_a_chain_of_many_nodes(shape: tuple[int, ...]) -> None:
    m = Making()
    y = m.feed("x", tensor(F32, *shape))
    for number in range(NODES):
        y = m.op(("tanh", "neg", "exp")[number % 3], y)
    program = lower_graph(m.graph(y))
    bodies = [len(stage.body) for k in program.kernels if isinstance(k, LoopKernel) for stage in k.stages]
    assert max(bodies) <= 600
    assert len(program.entries[0].steps) >= NODES / 600


def test_many_equal_layers_share_their_kernels() -> None:
    weights = [variable(f"w{number}", tensor(F32, 16, 16)) for number in range(LAYERS)]
    m = Making(resources=weights)
    y = m.feed("x", tensor(F32, Symbol("B"), 16))
    for weight in weights:
        h = m.op("add", m.op("relu", m.op("matmul", y, m.read(weight.name))), y)
        y = m.op("div", h, m.op("exp", m.op("sum", h, attributes=ReduceAttributes((1,), True))))
    program = lower_graph(m.graph(y, dims=[Symbol("B")]))
    assert len(program.kernels) <= 6
    assert len(program.entries[0].steps) == 2 * LAYERS


def test_many_writes_of_one_variable() -> None:
    m = Making(resources=[variable("v", tensor(F32, 4))])
    for _ in range(WRITES):
        m.assign("v", m.op("tanh", m.read("v")))
    program = lower_graph(m.graph(m.read("v")))
    assert len(program.entries[0].steps) <= WRITES + 1
