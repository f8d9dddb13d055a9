"""Inline nodes: those that need no memory of their own because each element is a function of elements of the operands.

Assumes a prepared block. `inputs_at` is the one place that says where the operands of an inline node are read; both the
analysis of items and the emission of bodies use it, so they can't disagree.
"""

from __future__ import annotations

from dfc.ir.attributes import Literal
from dfc.ir.dims import product
from dfc.ir.graph import Node, Value
from dfc.lower.fuse.indexing import reverse_point, slice_point, transpose_point, window_point
from dfc.ops import registry
from dfc.ops.attributes import (
    AxesAttributes,
    AxisAttributes,
    ConstantAttributes,
    RandomAttributes,
    RedrawAttributes,
    ShapeAttributes,
)
from dfc.ops.lowering.forms import Elementwise
from dfc.ops.lowering.index_maps import Point, broadcast_point, only_unit_axes_differ, unit_reshape_point
from dfc.ops.rules.lookup import rules_of
from dfc.ops.rules.movements import Movement
from dfc.ops.rules.op_rules import OpRules

TABLE_LIMIT = 4096  # elements of an array of ascending numbers that is kept as a constant
PICK = "pick"  # gathers along several axes at once; made by `prepare`, known only here
NO_RULES = OpRules(weight=16)
"""Of what is made here, and has no record."""
VIEWS = frozenset(
    {Movement.REORDERED, Movement.REPEATED, Movement.MIRRORED, Movement.SUBSET, Movement.OVERLAPPING},
)


def _rules(node: Node) -> OpRules:
    return NO_RULES if node.op == PICK else rules_of(node)


def is_elementwise(node: Node) -> bool:
    return isinstance(registry.record(node.op).lowering, Elementwise)


def is_splat(literal: Literal) -> bool:
    """Whether all elements of a constant are the same, bit for bit."""
    array = literal.array
    if array.ndim == 0:
        return True
    data = array.tobytes()
    return bool(data) and data == data[: array.itemsize] * array.size


def is_reshape(node: Node) -> bool:
    """Whether a node gives the same elements in row-major order another shape."""
    return isinstance(node.attributes, ShapeAttributes) and rules_of(node).movement is Movement.REORDERED


def is_alias(node: Node) -> bool:
    """A reshape that is no index arithmetic: it names the memory of its operand with another shape."""
    return is_reshape(node) and not only_unit_axes_differ(node.result.tensor.shape, node.operands[0].tensor.shape)


def is_generator(node: Node) -> bool:
    """Whether a node computes its elements from their index alone, at almost no cost."""
    if node.op == "constant":
        attributes = node.attributes
        assert isinstance(attributes, ConstantAttributes)
        return is_splat(attributes.value)
    return node.op == "dim" or _rules(node).movement is Movement.NUMBERED


def is_table(node: Node) -> bool:
    """Whether a generator that someone needs in memory is a small constant array."""
    size = product(node.result.tensor.shape).constant
    return _rules(node).movement is Movement.NUMBERED and size is not None and size <= TABLE_LIMIT


def is_view(node: Node) -> bool:
    return _rules(node).movement in VIEWS and not is_alias(node)


def is_product(value: Value) -> bool:
    """Whether a value is what the kernel of a product computes."""
    return value.node is not None and value.node.op == "matmul"


def repeats_elements(node: Node) -> bool:
    """Whether a node reads the same element of an operand with fewer elements at many points."""
    return node.op != PICK and (is_elementwise(node) or _rules(node).movement is Movement.REPEATED)


def is_memory_first(node: Node) -> bool:
    """Whether the first operand of a node is read at points of its own, and must be in memory."""
    rules = _rules(node)
    picks = node.op == PICK or rules.picks_rows
    return picks or rules.movement is Movement.PADDED or isinstance(node.attributes, RedrawAttributes)


def is_inline(node: Node) -> bool:
    """Whether the element at a point can be computed where it is used."""
    if is_memory_first(node) or isinstance(node.attributes, RandomAttributes) or is_generator(node) or is_view(node):
        return True
    return is_elementwise(node)


def weight(node: Node) -> int:
    """A rough count of machine operations for an element; heavy ones are not repeated."""
    return _rules(node).weight


def needs_memory(node: Node, position: int) -> bool:
    """Whether an inline node (or alias) must find operand `position` in memory, not inside a view."""
    return position == 0 and (is_memory_first(node) or is_alias(node))


def inputs_at(node: Node, point: Point) -> list[tuple[Value, Point | None]]:
    """What is read to compute the element of an inline node at a point; None: an operand in memory, read anywhere."""
    operands = node.operands
    match node.op:
        case "transpose":
            return [(operands[0], transpose_point(point, node))]
        case "slice":
            return [(operands[0], slice_point(point, node))]
        case "reverse":
            return [(operands[0], reverse_point(point, node))]
        case "windows":
            return [(operands[0], window_point(point, node))]
        case "reshape":
            shapes = node.result.tensor.shape, operands[0].tensor.shape
            return [(operands[0], unit_reshape_point(point, *shapes))]
        case "pad":
            return [(operands[1], ()), (operands[0], None)]
        case "redraw":
            return [(operands[0], None)]
        case "gather" | "pick":
            return [*((ids, at) for _, ids, at in picked(node, point)), (operands[0], None)]
        case _:
            shape = node.result.tensor.shape
            return [(v, broadcast_point(point, shape, v.tensor.shape)) for v in operands]


def picked(node: Node, point: Point) -> list[tuple[int, Value, Point]]:
    """The axes of its operand that a gather picks from, with the ids and where they are read for an element."""
    attributes = node.attributes
    if isinstance(attributes, AxesAttributes):
        axes = attributes.axes
    else:
        assert isinstance(attributes, AxisAttributes), node
        axes = (attributes.axis,)
    loads: list[tuple[int, Value, Point]] = []
    shift = 0
    for axis, ids in zip(axes, node.operands[1:], strict=True):
        rank = ids.tensor.rank
        loads.append((axis, ids, point[axis + shift : axis + shift + rank]))
        shift += rank - 1
    return loads
