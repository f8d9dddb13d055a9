"""Products become `contract` kernels; their group's element-wise items become the epilogue."""

from __future__ import annotations

from dfc.ir.graph import Value
from dfc.kernels.body import Accumulated
from dfc.kernels.form import ContractKernel, Store
from dfc.lower.fuse.emit.expressions import Expressions
from dfc.lower.fuse.emit.loops import BoundKernel, named_axes
from dfc.lower.fuse.emit.operands import Slots
from dfc.lower.fuse.emit.stores import store
from dfc.lower.fuse.groups.groups import ProductGroup
from dfc.lower.fuse.items.collect import Collected
from dfc.lower.fuse.items.factors import Factor, factors
from dfc.lower.fuse.items.items import ComputeItem, ContractItem, Member, StoreItem, result_point
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import BufferView
from dfc.ops.lowering.index_maps import Point, renamed


def product(scope: Scope, collected: Collected, group: ProductGroup, stored: set[Value]) -> BoundKernel:
    """The kernel of a product and what is computed at each finished point."""
    first = group.product
    slots = Slots()
    a, b = (
        one.operand(slots.read(_view_of(scope, one)))
        for one in factors(first, lambda value: scope.view_of(value) is not None, collected.passed)
    )
    accumulator = first.node.operands[0].tensor.machine.accumulator

    def resolve(body: Expressions, value: Value, point: Point) -> int | None:
        if value is first.result:
            total = body.body.append(Accumulated(), (), accumulator)
            return body.body.cast(total, value.tensor.machine)
        view = None if value in group.values else scope.view_of(value)
        return None if view is None else body.load(view, point)

    expressions = Expressions(scope, slots, collected.draws, resolve)
    stores: list[Store] = []
    for member in group.members:
        stores += _stores(scope, member, expressions, stored)
    axes = named_axes(group.extents)
    body = tuple(expressions.body.instructions)
    kernel = ContractKernel(slots.operands(), axes, a, b, accumulator, body, tuple(stores))
    return BoundKernel(kernel, slots.views)


def _stores(scope: Scope, member: Member, expressions: Expressions, stored: set[Value]) -> list[Store]:
    item = member.item
    if isinstance(item, StoreItem):
        value = expressions.emit(item.value, renamed(item.point, member.axes))
        return store(scope, item, expressions, value, member.axes)
    assert isinstance(item, ContractItem | ComputeItem), item
    view = scope.views.get(item.result)
    if view is None or item.result in stored:
        return []
    point = renamed(result_point(item), member.axes)
    value = expressions.emit(item.result, point, inside=isinstance(item, ComputeItem))
    return [Store(expressions.slots.write(view), point, value)]


def _view_of(scope: Scope, factor: Factor) -> BufferView:
    """The memory of a factor."""
    view = scope.view_of(factor.value)
    assert view is not None, factor.value
    return view
