"""Kernels whose inner axes run in ascending order: prefix sums, scatters, assignments through index tensors.

A scan reads back what it stored at the previous point of its axis, under a mask that gives the neutral element at the
first point. A scatter stores zeros first, in a kernel of its own, then adds in the order of the ids; the axes that are
not scattered are parallel.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.dims import Dim, dim
from dfc.ir.graph import Value
from dfc.kernels.body import BodyBuilder, Computed, Mask
from dfc.kernels.form import LoopKernel, Operand, Stage, Store
from dfc.lower.fuse.emit.expressions import OUT_OF_RANGE, Expressions
from dfc.lower.fuse.emit.loops import Made, named_axes
from dfc.lower.fuse.emit.operands import Slots
from dfc.lower.fuse.emit.stores import store
from dfc.lower.fuse.indexing import Point, along, renamed, shifted
from dfc.lower.fuse.items.analyse import scatter_ids_point
from dfc.lower.fuse.items.collect import Collected
from dfc.lower.fuse.items.items import Item, Kind, Selector
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import BufferView
from dfc.ops import registry
from dfc.ops.attributes import AxisAttributes, ScatterAttributes
from dfc.ops.record import Scan


def ordered(scope: Scope, found: Collected, item: Item) -> list[Made]:
    """The kernels of a scan, a scatter or an assignment through index tensors."""
    match item.kind:
        case Kind.SCAN:
            return [_scan(scope, found, item)]
        case Kind.SCATTER:
            return _scatter(scope, found, item)
        case _:
            return [assignment(scope, found, item)]


def _load(body: Expressions, value: Value, point: Point) -> int | None:
    place = body.scope.place(value)
    return None if place is None else body.load(place, point)


def _scan(scope: Scope, found: Collected, item: Item) -> Made:
    assert item.node is not None and item.value is not None and item.result is not None
    attributes = item.node.attributes
    assert isinstance(attributes, AxisAttributes)
    inner = [attributes.axis]
    order, names = _order(item, inner)
    slots = Slots()
    expressions = Expressions(scope, slots, found.draws, _load)
    point = renamed(item.point, names)
    element = expressions.emit(item.value, point)
    body = expressions.body
    place = scope.places[item.result]
    previous = tuple(shifted(index, dim(-1)) if axis == attributes.axis else index for axis, index in enumerate(point))
    lowering = registry.record(item.node.op).lowering
    assert isinstance(lowering, Scan), item.node
    nothing = body.number(lowering.neutral(place.dtype), place.dtype)
    before = expressions.load(place, previous, Mask(((attributes.axis, 1),), nothing))
    total = body.apply(lowering.combine, before, element)
    return _made(slots, order, expressions, [Store(slots.write(place), point, total)], len(inner))


def _scatter(scope: Scope, found: Collected, item: Item) -> list[Made]:
    node = item.node
    assert node is not None and item.value is not None and item.result is not None
    attributes = node.attributes
    assert isinstance(attributes, ScatterAttributes)
    place = scope.places[item.result]
    ids = node.operands[0]
    rank = ids.tensor.rank
    order, names = _order(item, range(attributes.axis, attributes.axis + rank))
    slots = Slots()
    expressions = Expressions(scope, slots, found.draws, _load)
    rows = renamed(item.point, names)
    row = expressions.emit(ids, renamed(scatter_ids_point(item, node), names))
    element = expressions.emit(item.value, rows)
    site = scope.fault(node, "index", OUT_OF_RANGE, node.span)
    index = (*rows[: attributes.axis], Computed(row, site), *rows[attributes.axis + rank :])
    adding = Store(slots.write(place), index, element, "add")
    return [_zeros(place), _made(slots, order, expressions, [adding], rank)]


def _zeros(place: BufferView) -> Made:
    body = BodyBuilder()
    zero = body.number(0, place.dtype)
    point = tuple(along(axis) for axis in range(len(place.shape)))
    stage = Stage((), tuple(body.instructions), (), (Store(0, point, zero),))
    operand = Operand(place.dtype, place.shape, "write")
    return Made(LoopKernel((operand,), named_axes(place.shape), len(place.shape), (stage,)), (place,))


def assignment(scope: Scope, found: Collected, item: Item) -> Made:
    """The kernel of one assignment, over values that are in memory."""
    assert item.target is not None and item.value is not None
    selected = [i for i in item.target.index if isinstance(i, Selector)]
    inner = sorted({axis for i in selected for index in i.point for axis, _ in index.terms})
    order, names = _order(item, inner)
    slots = Slots()
    expressions = Expressions(scope, slots, found.draws, _load)
    value = expressions.emit(item.value, renamed(item.point, names))
    stores = store(scope, item, item.target, expressions, value, names)
    return _made(slots, order, expressions, stores, len(inner), is_ordered=bool(inner))


def _order(item: Item, inner: Sequence[int]) -> tuple[list[Dim], list[int]]:
    """Extents with the inner axes last, and the new number of each local axis."""
    axes = [axis for axis in range(len(item.extents)) if axis not in inner] + list(inner)
    return [item.extents[axis] for axis in axes], [axes.index(axis) for axis in range(len(axes))]


def _made(
    slots: Slots,
    extents: Sequence[Dim],
    expressions: Expressions,
    stores: Sequence[Store],
    inner: int,
    *,
    is_ordered: bool = True,
) -> Made:
    outer = len(extents) - inner
    stage = Stage(tuple(range(outer, len(extents))), tuple(expressions.body.instructions), (), tuple(stores))
    kernel = LoopKernel(slots.operands(), named_axes(extents), outer, (stage,), ordered=is_ordered)
    return Made(kernel, slots.places)
