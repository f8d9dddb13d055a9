"""What follows from how an op reads its operands: by maps, whatever the op is called.

Assumes nodes whose types were checked. Guarantees nothing about ops that compute: they move no elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from dfc.ir.dims import ONE, Dim
from dfc.ir.graph import Node
from dfc.kernels.body import Affine
from dfc.ops.lowering.forms import Generator, MaskedView, Pick, Picked, Reshape, View, gather_map
from dfc.ops.lowering.index_maps import (
    Point,
    along,
    broadcast_map,
    only_unit_axes_differ,
    unit_reshape_map,
)
from dfc.ops.registry import lowering_of


class Movement(Enum):
    """What the result of an op that computes nothing has of its first operand. None of them takes time of its own:
    fusion reads through them."""

    REORDERED = "every element once, in another shape or order of axes"
    REPEATED = "every element, some of them several times along an axis"
    MIRRORED = "every element once, from the other end"
    PADDED = "every element once, among others"
    OVERLAPPING = "every element, some of them in several windows"
    SUBSET = "some of the elements"
    NUMBERED = "no operand: the numbers of places"


def is_reshape(node: Node) -> bool:
    """Whether a node gives the same elements in row-major order another shape."""
    return isinstance(lowering_of(node), Reshape)


def is_alias(node: Node) -> bool:
    """A reshape that is no index arithmetic: it names the memory of its operand with another shape."""
    # most nodes that are asked about compute something of two operands: no look at their records
    return len(node.operands) == 1 and isinstance(lowering_of(node), Reshape) and not _is_unit(node)


def _is_unit(node: Node) -> bool:
    return only_unit_axes_differ(node.result.tensor.shape, node.operands[0].tensor.shape)


def index_map_of(node: Node) -> Point | None:
    """Where a view reads its operand, over the axes of the result; None of a node that is none, or that needs no
    index for it, since it names the same memory."""
    lowering = lowering_of(node)
    if isinstance(lowering, View):
        return lowering.index_map(node)
    if not isinstance(lowering, Reshape) or not _is_unit(node):
        return None
    return unit_reshape_map(node.result.tensor.shape, node.operands[0].tensor.shape)


def movement_of(node: Node) -> Movement | None:
    """How a node moves the elements of its first operand; None if it computes, or joins several."""
    match lowering_of(node):
        case Reshape():
            return Movement.REORDERED
        case MaskedView():
            return Movement.PADDED
        case Generator():
            return Movement.NUMBERED
        case View(index_map):
            return _movement(index_map(node), node.result.tensor.shape, node.operands[0].tensor.shape)
        case _:
            return None


def _movement(index_map: Point, result: Sequence[Dim], operand: Sequence[Dim]) -> Movement:
    if len(operand) <= len(result) and _stretches(index_map, result, operand):
        return Movement.REPEATED
    if any(len(index.terms) > 1 for index in index_map):
        return Movement.OVERLAPPING
    ends = [whole_axis(index, size, result) for index, size in zip(index_map, operand, strict=True)]
    used = {axis for index in index_map for axis, _ in index.terms}
    if None in ends or len(used) < len(index_map) or any(d != ONE for a, d in enumerate(result) if a not in used):
        return Movement.SUBSET
    return Movement.REORDERED if all(ends) else Movement.MIRRORED


def _stretches(index_map: Point, result: Sequence[Dim], operand: Sequence[Dim]) -> bool:
    """Whether it is what broadcasting does: axes aligned at the right, ones repeated."""
    skipped = len(result) - len(operand)
    same = (index == own for index, own in zip(index_map, broadcast_map(result, operand), strict=True))
    return all(same) and all(d in (ONE, wide) for d, wide in zip(operand, result[skipped:], strict=True))


def whole_axis(index: Affine, size: Dim, result: Sequence[Dim]) -> bool | None:
    """Whether an axis of this size is read all along one axis of the result: True forwards, False from its end; else
    None."""
    if len(index.terms) != 1:
        return None
    ((axis, step),) = index.terms
    if result[axis] != size:
        return None
    if index == along(axis):
        return True
    return False if step == -1 and index.offset == size - 1 else None


# -------------------------------------------------------------------- picks --


def picked_axes(node: Node) -> tuple[int, ...] | None:
    """The axes of the first operand from which a node picks rows by the numbers in the others, one for each; None if it
    does not, or picks in another way."""
    lowering = lowering_of(node)
    if not isinstance(lowering, Pick):
        return None
    index_map = lowering.index_map(node)
    axes = tuple(axis for axis, index in enumerate(index_map) if isinstance(index, Picked))
    if len(axes) != len(node.operands) - 1:
        return None
    ranks = [(axis, ids.tensor.rank) for axis, ids in zip(axes, node.operands[1:], strict=True)]
    return axes if index_map == gather_map(len(index_map), ranks) else None


def picked_axis(node: Node | None) -> int | None:
    """The axis of the first operand from which a node picks rows by the numbers in the second; None if it does not."""
    axes = picked_axes(node) if node is not None and len(node.operands) == 2 else None
    return axes[0] if axes is not None and len(axes) == 1 else None
