"""What follows a product joins it though it has another shape: nothing of its size needs memory twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import F32
from dfc.ir.graph import Value
from dfc.ir.types import tensor
from dfc.kernels.program import BufferRole, Program
from dfc.lower.fuse.fuse import fuse
from dfc.lower.fuse.fused import kernels
from dfc.lower.fuse.rewrite.flatten import flatten
from dfc.ops.attributes import ReduceAttributes, ShapeAttributes
from tests.support.lowering import agree
from tests.support.making import Making

B = Symbol("B")
SHAPE = (dim(B), dim(4), dim(5), dim(6))
SIZES = {"B": 3}


def numbers(*shape: int) -> np.ndarray:
    return np.cos(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)


FEEDS = {"x": numbers(60, 7), "w": numbers(7, 6)}


def image(m: Making) -> Value:
    """A product of [20 * B, 6] as an image of six channels."""
    product = m.op("matmul", m.feed("x", tensor(F32, 20 * dim(B), 7)), m.feed("w", tensor(F32, 7, 6)))
    return m.op("reshape", product, attributes=ShapeAttributes(SHAPE))


def large(program: Program) -> list[str]:
    """The buffers of the arena that have the size of the product."""
    buffers = (one for one in program.entries[0].buffers if one.role is BufferRole.ARENA)
    return [one.name for one in buffers if np.prod([extent.evaluate({B: 3}) for extent in one.shape]) >= 360]


@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize(("op", "axes"), [("sum", (0, 1, 2)), ("max", (0, 1, 2)), ("sum", (0, 1, 2, 3))])
def test_what_is_folded_over_all_places_needs_no_memory(op: str, axes: Sequence[int], keep_dims: bool) -> None:
    m = Making()
    y = image(m)
    graph = m.graph(y, m.op(op, m.op("square", y), attributes=ReduceAttributes(tuple(axes), keep_dims)), dims=[B])
    program, _ = agree(graph, FEEDS, sizes=SIZES)
    assert large(program) == []


@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (3,), (0, 1, 3)])
def test_folds_over_some_places_mean_the_same(axes: Sequence[int]) -> None:
    m = Making()
    y = image(m)
    agree(
        m.graph(m.op("sum", m.op("square", y), attributes=ReduceAttributes(tuple(axes))), dims=[B]), FEEDS, sizes=SIZES
    )


@pytest.mark.parametrize("broadcast", [False, True])
def test_values_of_each_channel_leave_a_chain_whole(broadcast: bool) -> None:
    m = Making()
    y, v = image(m), m.feed("v", tensor(F32, 1, 1, 1, 6))
    scaled = m.op("broadcast", v, attributes=ShapeAttributes(SHAPE)) if broadcast else v
    z = m.op("exp", m.op("mul", scaled, m.op("square", y)))
    program, ran = agree(m.graph(z, dims=[B]), {**FEEDS, "v": numbers(1, 1, 1, 6)}, sizes=SIZES)
    assert ran.launches == 1 and large(program) == []


def test_only_what_is_read_in_the_end_is_reshaped_back() -> None:
    m = Making()
    x, w = m.feed("x", tensor(F32, 6, 4)), m.feed("w", tensor(F32, 4, 5))
    shape = tensor(F32, 2, 3, 5).shape
    product = m.op("reshape", m.op("matmul", x, w), attributes=ShapeAttributes(shape))
    graph = m.graph(m.op("tanh", m.op("exp", m.op("sin", product))))
    nodes = [node.op for node in flatten(graph.entries["e"].block).nodes]
    assert nodes == ["matmul", "sin", "exp", "tanh", "reshape"]
    generator = np.random.default_rng(1)
    values = {name: generator.standard_normal(size).astype(np.float32) for name, size in (("x", (6, 4)), ("w", (4, 5)))}
    agree(graph, values)
    (only,) = (part.kernel for part in kernels(fuse(graph).entries[0].block))
    assert len(only.operands) == 3
