"""Products become `contract` kernels; their group's element-wise items become the epilogue."""

from __future__ import annotations

from dfc.ir.graph import Value
from dfc.kernels.body import Accumulated
from dfc.kernels.form import ContractKernel, MatrixOperand, Store
from dfc.lower.fuse.analyse import contract_points
from dfc.lower.fuse.collect import Collected
from dfc.lower.fuse.emit import Made, named_axes
from dfc.lower.fuse.expressions import Expressions
from dfc.lower.fuse.groups import Group
from dfc.lower.fuse.indexing import Point, renamed
from dfc.lower.fuse.inline import inputs_at
from dfc.lower.fuse.items import Item, Kind
from dfc.lower.fuse.operands import Slots
from dfc.lower.fuse.scope import Scope
from dfc.lower.fuse.stores import store


def product(scope: Scope, found: Collected, group: Group, homed: set[Value]) -> Made:
    """The kernel of a product and what is computed at each finished point."""
    first = group.items[0]
    assert first.node is not None
    slots = Slots()
    a, b = (
        _factor(scope, slots, value, point)
        for value, point in zip(first.node.operands, contract_points(first), strict=True)
    )
    accumulator = first.node.operands[0].tensor.machine.accumulator

    def resolve(body: Expressions, value: Value, point: Point) -> int | None:
        if value is first.result:
            total = body.body.append(Accumulated(), (), accumulator)
            return body.body.cast(total, value.tensor.machine)
        place = None if value in group.values else scope.place(value)
        return None if place is None else body.load(place, point)

    expressions = Expressions(scope, slots, found.draws, resolve)
    stores: list[Store] = []
    for item in group.items:
        stores += _stores(scope, item, expressions, homed)
    axes = named_axes(group.extents)
    body = tuple(expressions.body.instructions)
    kernel = ContractKernel(slots.operands(), axes, a, b, accumulator, body, tuple(stores))
    return Made(kernel, slots.places)


def _stores(scope: Scope, item: Item, expressions: Expressions, homed: set[Value]) -> list[Store]:
    if item.kind is Kind.STORE:
        assert item.value is not None and item.target is not None
        value = expressions.emit(item.value, renamed(item.point, item.axes))
        return store(scope, item, item.target, expressions, value, item.axes)
    assert item.result is not None
    place = scope.places.get(item.result)
    if place is None or item.result in homed:
        return []
    point = renamed(item.result_point, item.axes)
    value = expressions.emit(item.result, point, inside=item.kind is Kind.VALUE)
    return [Store(expressions.slots.write(place), point, value)]


def _factor(scope: Scope, slots: Slots, value: Value, point: Point) -> MatrixOperand:
    """A factor in memory, seen through its views."""
    while True:
        place = scope.place(value)
        if place is not None:
            return MatrixOperand(slots.read(place), point)
        assert value.node is not None, value
        ((value, below),) = inputs_at(value.node, point)
        assert below is not None
        point = below
