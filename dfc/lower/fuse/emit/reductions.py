"""Reductions: what an op's record says becomes a reduction of a stage and the use of its result."""

from __future__ import annotations

from dfc.ir.graph import Node
from dfc.kernels.body import BodyBuilder, Reduced
from dfc.kernels.form import Reduction
from dfc.ops import registry
from dfc.ops.attributes import ArgAttributes
from dfc.ops.lowering.forms import ArgReduce, Reduce


def reduction(body: BodyBuilder, node: Node, element: int) -> Reduction:
    """The reduction over one element of the operand."""
    if isinstance(node.attributes, ArgAttributes):
        return Reduction(_position(node).combine, element, node.attributes.dtype)
    lowering = _lowering(node)
    if lowering.before is not None:
        element = lowering.before(body, element, node)
    dtype = body.dtype(element).accumulator if lowering.combine in ("add", "mul") else body.dtype(element)
    return Reduction(lowering.combine, body.cast(element, dtype), dtype)


def reduced(body: BodyBuilder, node: Node, stage: int, number: int) -> int:
    """The value of the op from the finished reduction."""
    kind = node.result.tensor.machine
    if isinstance(node.attributes, ArgAttributes):
        return body.append(Reduced(stage, number), (), node.attributes.dtype)
    lowering = _lowering(node)
    operand = node.operands[0].tensor.machine
    dtype = operand.accumulator if lowering.combine in ("add", "mul") else operand
    total = body.append(Reduced(stage, number), (), dtype)
    if lowering.after is not None:
        total = lowering.after(body, total, node)
    return body.cast(total, kind)


def _position(node: Node) -> ArgReduce:
    lowering = registry.record(node.op).lowering
    assert isinstance(lowering, ArgReduce), node
    return lowering


def _lowering(node: Node) -> Reduce:
    lowering = registry.record(node.op).lowering
    assert isinstance(lowering, Reduce), node
    return lowering
