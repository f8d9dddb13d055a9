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
from dfc.lower.fuse.emit.loops import BoundKernel, named_axes
from dfc.lower.fuse.emit.operands import Slots
from dfc.lower.fuse.emit.stores import store
from dfc.lower.fuse.items.collect import Collected
from dfc.lower.fuse.items.items import ScanItem, ScatterItem, StoreItem
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import BufferView
from dfc.ops import registry
from dfc.ops.attributes import AxisAttributes
from dfc.ops.lowering.forms import Scan
from dfc.ops.lowering.index_maps import Point, along, renamed, shifted


def ordered(scope: Scope, collected: Collected, item: ScanItem | ScatterItem | StoreItem) -> list[BoundKernel]:
    """The kernels of a scan, a scatter or an assignment through index tensors."""
    match item:
        case ScanItem():
            return [_scan(scope, collected, item)]
        case ScatterItem():
            return _scatter(scope, collected, item)
        case StoreItem():
            return [assignment(scope, collected, item)]


def _load(body: Expressions, value: Value, point: Point) -> int | None:
    view = body.scope.view_of(value)
    return None if view is None else body.load(view, point)


def _scan(scope: Scope, collected: Collected, item: ScanItem) -> BoundKernel:
    attributes = item.node.attributes
    assert isinstance(attributes, AxisAttributes)
    inner = [attributes.axis]
    order, names = _order(item.extents, inner)
    slots = Slots()
    expressions = Expressions(scope, slots, collected.draws, _load)
    point = renamed(item.point, names)
    element = expressions.emit(item.operand, point)
    body = expressions.body
    view = scope.views[item.result]
    previous = tuple(shifted(index, dim(-1)) if axis == attributes.axis else index for axis, index in enumerate(point))
    lowering = registry.record(item.node.op).lowering
    assert isinstance(lowering, Scan), item.node
    nothing = body.number(lowering.neutral(view.dtype), view.dtype)
    before = expressions.load(view, previous, Mask(((attributes.axis, 1),), nothing))
    total = body.apply(lowering.combine, before, element)
    return _bound(slots, order, expressions, [Store(slots.write(view), point, total)], len(inner))


def _scatter(scope: Scope, collected: Collected, item: ScatterItem) -> list[BoundKernel]:
    node = item.node
    view = scope.views[item.result]
    axis, rank = item.axis, item.ids.tensor.rank
    order, names = _order(item.extents, range(axis, axis + rank))
    slots = Slots()
    expressions = Expressions(scope, slots, collected.draws, _load)
    rows = renamed(item.point, names)
    row = expressions.emit(item.ids, renamed(item.ids_point, names))
    element = expressions.emit(item.rows, rows)
    site = scope.fault(node, "index", OUT_OF_RANGE, node.span)
    index = (*rows[:axis], Computed(row, site), *rows[axis + rank :])
    adding = Store(slots.write(view), index, element, "add")
    return [_zeros(view), _bound(slots, order, expressions, [adding], rank)]


def _zeros(view: BufferView) -> BoundKernel:
    body = BodyBuilder()
    zero = body.number(0, view.dtype)
    point = tuple(along(axis) for axis in range(len(view.shape)))
    stage = Stage((), tuple(body.instructions), (), (Store(0, point, zero),))
    operand = Operand(view.dtype, view.shape, "write")
    return BoundKernel(LoopKernel((operand,), named_axes(view.shape), len(view.shape), (stage,)), (view,))


def assignment(scope: Scope, collected: Collected, item: StoreItem) -> BoundKernel:
    """The kernel of one assignment, over values that are in memory."""
    inner = sorted({axis for i in item.target.selectors for index in i.point for axis, _ in index.terms})
    order, names = _order(item.extents, inner)
    slots = Slots()
    expressions = Expressions(scope, slots, collected.draws, _load)
    value = expressions.emit(item.value, renamed(item.point, names))
    stores = store(scope, item, expressions, value, names)
    return _bound(slots, order, expressions, stores, len(inner), is_ordered=bool(inner))


def _order(extents: Sequence[Dim], inner: Sequence[int]) -> tuple[list[Dim], list[int]]:
    """Extents with the inner axes last, and the new number of each local axis."""
    axes = [axis for axis in range(len(extents)) if axis not in inner] + list(inner)
    return [extents[axis] for axis in axes], [axes.index(axis) for axis in range(len(axes))]


def _bound(
    slots: Slots,
    extents: Sequence[Dim],
    expressions: Expressions,
    stores: Sequence[Store],
    inner: int,
    *,
    is_ordered: bool = True,
) -> BoundKernel:
    outer = len(extents) - inner
    stage = Stage(tuple(range(outer, len(extents))), tuple(expressions.body.instructions), (), tuple(stores))
    kernel = LoopKernel(slots.operands(), named_axes(extents), outer, (stage,), ordered=is_ordered)
    return BoundKernel(kernel, slots.views)
