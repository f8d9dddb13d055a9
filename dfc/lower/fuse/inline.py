"""Inline nodes: those that need no memory of their own because each element is a function of elements of the operands.

Assumes a prepared block. `inputs_at` is the one place that says where the operands of an inline node are read; both the
analysis of items and the emission of bodies use it, so they can't disagree. A node is known by its form (`forms`).
"""

from __future__ import annotations

from dfc.ir.attributes import Literal
from dfc.ir.dims import product
from dfc.ir.graph import Node, Value
from dfc.ir.measured import mentioned
from dfc.ops.attributes import ConstantAttributes
from dfc.ops.lowering.forms import (
    Contract,
    Elementwise,
    Generator,
    MaskedView,
    Pick,
    Picked,
    RandomNumbers,
    Reshape,
    View,
)
from dfc.ops.lowering.index_maps import Point, broadcast_point, composed
from dfc.ops.lowering.views import Movement, index_map_of, is_alias, movement_of
from dfc.ops.registry import lowering_of
from dfc.ops.rules.lookup import rules_of

TABLE_LIMIT = 4096  # elements of an array of generated numbers that is kept as a constant


def is_elementwise(node: Node) -> bool:
    return isinstance(lowering_of(node), Elementwise)


def is_splat(literal: Literal) -> bool:
    """Whether all elements of a constant are the same, bit for bit."""
    array = literal.array
    if array.ndim == 0:
        return True
    data = array.tobytes()
    return bool(data) and data == data[: array.itemsize] * array.size


def is_generator(node: Node) -> bool:
    """Whether a node computes its elements from their index alone, at almost no cost."""
    if node.op == "constant":
        attributes = node.attributes
        assert isinstance(attributes, ConstantAttributes)
        return is_splat(attributes.value)
    return isinstance(lowering_of(node), Generator)


def is_table(node: Node) -> bool:
    """Whether a generator that someone needs in memory is a small constant array."""
    if not isinstance(lowering_of(node), Generator) or not node.result.tensor.shape or mentioned(node):
        return False
    size = product(node.result.tensor.shape).constant
    return size is not None and size <= TABLE_LIMIT


def is_view(node: Node) -> bool:
    """Whether a node reads its operand elsewhere, and does nothing else."""
    lowering = lowering_of(node)
    return isinstance(lowering, View) or (isinstance(lowering, Reshape) and not is_alias(node))


def is_product(value: Value) -> bool:
    """Whether a value is what the kernel of a product computes."""
    return value.node is not None and isinstance(lowering_of(value.node), Contract)


def is_random(node: Node) -> bool:
    """Whether a node makes random numbers, of which each takes much work."""
    return node.op == "draw" or isinstance(lowering_of(node), RandomNumbers)


def repeats_elements(node: Node) -> bool:
    """Whether a node reads the same element of an operand with fewer elements at many points."""
    return is_elementwise(node) or movement_of(node) is Movement.REPEATED


def is_memory_first(node: Node) -> bool:
    """Whether the first operand of a node is read at points of its own, and must be in memory."""
    lowering = lowering_of(node)
    return isinstance(lowering, Pick | MaskedView) or (isinstance(lowering, RandomNumbers) and lowering.key is None)


def is_inline(node: Node) -> bool:
    """Whether the element at a point can be computed where it is used."""
    lowering = lowering_of(node)
    if isinstance(lowering, Elementwise | View | MaskedView | Pick | Generator | RandomNumbers):
        return True
    return is_generator(node) or is_view(node)


def weight(node: Node) -> int:
    """A rough count of machine operations for an element; heavy ones are not repeated."""
    return rules_of(node).weight


def needs_memory(node: Node, position: int) -> bool:
    """Whether an inline node (or alias) must find operand `position` in memory, not inside a view."""
    return position == 0 and (is_memory_first(node) or is_alias(node))


def inputs_at(node: Node, point: Point) -> list[tuple[Value, Point | None]]:
    """What is read to compute the element of an inline node at a point; None: an operand in memory, read anywhere."""
    operands = node.operands
    lowering = lowering_of(node)
    if isinstance(lowering, Elementwise):
        return _broadcast(node, point)
    match lowering:
        case View() | Reshape():
            index_map = index_map_of(node)
            assert index_map is not None, node
            return [(operands[0], composed(index_map, point))]
        case MaskedView():
            return [(operands[1], ()), (operands[0], None)]
        case RandomNumbers():
            return [(value, None) for value in operands]
        case Pick(index_map):
            picked = [index for index in index_map(node) if isinstance(index, Picked)]
            return [*((operands[i.operand], composed(i.point, point)) for i in picked), (operands[0], None)]
        case _:
            return _broadcast(node, point)


def _broadcast(node: Node, point: Point) -> list[tuple[Value, Point | None]]:
    shape = node.result.tensor.shape
    return [(v, broadcast_point(point, shape, v.tensor.shape)) for v in node.operands]
