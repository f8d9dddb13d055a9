"""Where views of memory read their operands.

Assumes verified shapes. Guarantees that composing never allocates per element: a view is arithmetic on indices.
"""

from __future__ import annotations

from dfc.ir.graph import Node
from dfc.ops.attributes import AxesAttributes, PermutationAttributes, SliceAttributes, WindowAttributes
from dfc.ops.lowering.index_maps import ORIGIN, Point, added, scaled, shifted


def transpose_point(point: Point, node: Node) -> Point:
    attributes = node.attributes
    assert isinstance(attributes, PermutationAttributes)
    source_point = [ORIGIN] * len(point)
    for position, axis in enumerate(attributes.permutation):
        source_point[axis] = point[position]
    return tuple(source_point)


def slice_point(point: Point, node: Node) -> Point:
    attributes = node.attributes
    assert isinstance(attributes, SliceAttributes)
    steps = zip(point, attributes.starts, attributes.steps, strict=True)
    return tuple(shifted(scaled(index, step), start) for index, start, step in steps)


def window_point(point: Point, node: Node) -> Point:
    """Each windowed axis is read at `position * step + offset * dilation`; the offsets are the last indices."""
    attributes = node.attributes
    assert isinstance(attributes, WindowAttributes)
    rank = node.operands[0].tensor.rank
    source_point = list(point[:rank])
    offsets = zip(attributes.axes, point[rank:], attributes.steps, attributes.dilations, strict=True)
    for axis, offset, step, dilation in offsets:
        source_point[axis] = added(scaled(source_point[axis], step), scaled(offset, dilation))
    return tuple(source_point)


def reverse_point(point: Point, node: Node) -> Point:
    attributes = node.attributes
    assert isinstance(attributes, AxesAttributes)
    shape = node.operands[0].tensor.shape
    return tuple(
        shifted(scaled(index, -1), shape[axis] - 1) if axis in attributes.axes else index
        for axis, index in enumerate(point)
    )
