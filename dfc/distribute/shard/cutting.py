"""Rows of common values, made at their owners out of as little as possible.

    x + 1          rows of x, plus one          iota(N)        the numbers of the rows
    random(..)     what the whole has there     scatter_add    numbers and rows travel, and are added there

Assumes what the rules of records say of nodes (`demands`). Guarantees the bits of the undivided value at these rows.
"""

from __future__ import annotations

from typing import Protocol

from dfc.distribute.shard.demands import row_operands
from dfc.distribute.shard.model import Division
from dfc.distribute.shard.parts import with_size
from dfc.distribute.shard.routes import Routes, Routing
from dfc.ir.dims import dim
from dfc.ir.graph import Node, Value
from dfc.ops.attributes import AxisAttributes, ReduceAttributes, ScatterAttributes
from dfc.ops.rules.lookup import rules_of


class Work(Protocol):
    """An entry that is being rewritten."""

    routes: Routes

    def whole(self, value: Value) -> Value: ...

    def rows(self, value: Value, axis: int, division: Division) -> Value: ...

    def pushed(self, route: Routing, value: Value, axis: int) -> Value: ...

    def is_split(self, value: Value) -> bool: ...


def slice_rows(value: Value, axis: int, division: Division, work: Work) -> Value:
    """The rows of a value at their owners."""
    rows = _owned_rows(value, axis, division, work)
    work.routes.here(division.site)
    return rows


def _owned_rows(value: Value, axis: int, division: Division, work: Work) -> Value:
    routes, b, node = work.routes, work.routes.builder, value.node
    parts = None if work.is_split(value) else row_operands(value, axis, division)
    if parts is None or node is None:
        here = routes.rows_here(division)
        routes.here(None)
        return b.apply("gather", work.whole(value), here, attributes=AxisAttributes(axis))
    rows_at = rules_of(node).rows_at
    if rows_at is not None:
        here = routes.rows_here(division)
        routes.here(None)
        return rows_at(b, node, here, axis)
    if isinstance(node.attributes, ScatterAttributes):
        return _scattered(node, axis, division, work)
    size = routes.size(division)
    operands = [work.whole(v) if own is None else work.rows(v, own, division) for v, own in parts]
    routes.here(None)
    return b.node(node.op, operands, with_size(node.attributes, axis, size)).result


def _scattered(node: Node, axis: int, division: Division, work: Work) -> Value:
    routes = work.routes
    ids, rows = (work.whole(v) for v in node.operands)
    route = routes.routing(ids, division)
    pushed = work.pushed(route, rows, axis)
    size = routes.size(division)
    routes.here(None)
    attributes = with_size(node.attributes, axis, size)
    return routes.builder.apply("scatter_add", route.local, pushed, attributes=attributes)


def divided(total: Value, node: Node, division: Division, work: Work) -> Value:
    """A mean, from the sum that the owners make together."""
    assert isinstance(node.attributes, ReduceAttributes)
    b, count = work.routes.builder, dim(1)
    for axis in node.attributes.axes:
        count = count * node.operands[0].tensor.shape[axis]
    work.routes.here(None)
    mean = b.apply("div", total, b.cast(b.size(count), total.tensor.dtype))
    work.routes.here(division.site)
    return mean
