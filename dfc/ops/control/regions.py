"""Loops inside decompositions and gradient rows: `for` and `while` nodes from Python functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dfc.ir.dims import Dim
from dfc.ir.dtypes import I64
from dfc.ir.graph import Block, Value
from dfc.ir.regions import for_node, while_node
from dfc.ir.types import TensorType
from dfc.ops.builder import Builder

Body = Callable[[Builder, Value, Sequence[Value]], Sequence[Value]]
Step = Callable[[Builder, Sequence[Value]], Sequence[Value]]


def count_loop(b: Builder, trips: Dim, carries: Sequence[Value], body: Body) -> tuple[Value, ...]:
    """`for k in 0..iterations`: `body` gets k and the carried values and returns them, then what it emits.

    The result is the last carried values, then the stacked emits.
    """
    start, stop = b.size(0), b.size(trips)
    index, inner = Value(TensorType(I64)), [Value(v.type) for v in carries]
    block = Block((index, *inner))
    block.outputs = tuple(body(Builder(block, name=b.name, span=b.span), index, inner))
    return b.append(for_node(start, stop, carries, block, trips=trips, origin=b)).results


def while_loop(b: Builder, carries: Sequence[Value], condition: Step, body: Step) -> tuple[Value, ...]:
    """`while condition(carries)`: the last carried values; `condition` returns one truth value."""
    regions: list[Block] = []
    for step in (condition, body):
        inner = [Value(v.type) for v in carries]
        block = Block(tuple(inner))
        block.outputs = tuple(step(Builder(block, name=b.name, span=b.span), inner))
        regions.append(block)
    condition_block, body_block = regions
    return b.append(while_node(carries, condition_block, body_block, origin=b)).results
