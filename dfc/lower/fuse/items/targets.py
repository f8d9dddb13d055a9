"""Targets of stores: all of a view, what an assignment selects, and targets over the axes of an item."""

from __future__ import annotations

from dfc.ir.dims import Dim
from dfc.ir.graph import Node
from dfc.kernels.body import Affine
from dfc.lower.fuse.items.items import Selector, Target
from dfc.lower.storage import BufferView, Storage, whole_view
from dfc.ops.attributes import AssignAttributes, OperandSelector
from dfc.ops.lowering.index_maps import Point, along, scaled, shifted


def whole(view: BufferView) -> Target:
    """A store of every element of a view."""
    index = tuple(along(axis) for axis in range(len(view.shape)))
    return Target(view, index, whole=True)


def everything(storage: Storage, mode: str) -> Target:
    """All of a variable, as a part of it: with the mode of the assignment, and no memory for what is assigned."""
    view = whole_view(storage)
    return Target(view, whole(view).index, mode, region=view.shape)


def selected(storage: Storage, node: Node, attributes: AssignAttributes) -> Target:
    """The target of an assignment to part of a variable; indices are over the axes of the region, not of the item."""
    index: list[Affine | Selector] = []
    ids = node.operands[1:-1]
    axis = 0
    ordered = False
    for selector in attributes.index:
        if isinstance(selector, OperandSelector):
            value = ids[selector.operand]
            rank = value.tensor.rank
            index.append(Selector(value, tuple(along(axis + i) for i in range(rank))))
            axis += rank
            ordered = ordered or rank > 0
        else:
            index.append(shifted(scaled(along(axis), selector.step), selector.start))
            axis += 1
    return Target(whole_view(storage), tuple(index), attributes.mode, ordered=ordered, region=_sizes(node, attributes))


def _sizes(node: Node, attributes: AssignAttributes) -> tuple[Dim, ...]:
    shape: list[Dim] = []
    for selector in attributes.index:
        if isinstance(selector, OperandSelector):
            shape.extend(node.operands[1 + selector.operand].tensor.shape)
        else:
            shape.append(selector.size)
    return tuple(shape)


def region_shape(target: Target) -> tuple[Dim, ...]:
    return target.view.shape if target.whole else target.region


def with_axes(target: Target, point: Point) -> Target:
    """The target over the local axes of its item: region axis i is taken at point[i]."""

    def at(index: Affine) -> Affine:
        if not index.terms:
            return index
        ((axis, step),) = index.terms
        return shifted(scaled(point[axis], step), index.offset)

    changed = tuple(
        Selector(i.ids, tuple(at(p) for p in i.point)) if isinstance(i, Selector) else at(i) for i in target.index
    )
    return Target(target.view, changed, target.mode, target.whole, target.ordered, target.region)
