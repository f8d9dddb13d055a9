"""Assignments to divided state: to all rows, or to those of some numbers, at their owners.

    table[ids] -= rate * rows        ids and the rows travel to their owners, which subtract them
    acc[ids] += rows * rows          the same numbers and rows are there already
    table[ids] -= rows / acc[ids]    is computed there: nothing travels

Assumes that row numbers mean the same state of all variables they are used with. Guarantees that what comes from
several tasks is applied in the order of tasks, and so of the blocks of a batch.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from dfc.distribute.shard.analysis import Findings
from dfc.distribute.shard.demands import Demands, axis_of_rows, behind_numbers, is_by_number, is_numbered
from dfc.distribute.shard.model import Division, Sharded
from dfc.distribute.shard.routes import Routes, Routing
from dfc.ir.dims import ZERO, dim
from dfc.ir.graph import Node, Value
from dfc.ops.attributes import AssignAttributes, AxisAttributes, OperandSelector, RangeSelector


class Forms(Protocol):
    """The forms in which values are there."""

    def whole(self, value: Value) -> Value: ...

    def rows(self, value: Value, axis: int, division: Division) -> Value: ...

    def memory(self, value: Value, axis: int, division: Division) -> Value: ...


class Updates:
    """Appends what becomes of assignments."""

    def __init__(self, findings: Findings, demands: Demands, routes: Routes, forms: Forms) -> None:
        self._findings = findings
        self._demands = demands
        self._routes = routes
        self._forms = forms
        self._pushed: ChainMap[tuple[str, Value, int], Value] = ChainMap()

    def enter(self) -> None:
        """A block begins: what is sent in it is there in it alone."""
        self._pushed = self._pushed.new_child()

    def leave(self) -> None:
        self._pushed = self._pushed.parents

    def assign(self, node: Node, operands: Sequence[Value], state: Sharded) -> Value:
        """The new token of the state."""
        if is_by_number(node, state.axis, state.division):
            return self._by_number(node, operands, state)
        division, axis = state.division, state.axis
        own = axis_of_rows(node, state)
        value = operands[0]
        if own is not None:
            value = self._routes.with_room(self._forms.rows(node.operands[0], own, division), own, division)
        assert isinstance(node.attributes, AssignAttributes)
        attributes = node.attributes
        if attributes.index:
            everything = RangeSelector(ZERO, dim(division.most))
            attributes = replace(
                attributes, index=(*attributes.index[:axis], everything, *attributes.index[axis + 1 :])
            )
        return self._written(attributes, [value, *operands[1:]], division)

    def pushed(self, route: Routing, value: Value, axis: int) -> Value:
        """What belongs to the numbers, at their owners; sent once."""
        key = (route.name, value, axis)
        if key not in self._pushed:
            self._pushed[key] = self._routes.push(route, value, axis)
        return self._pushed[key]

    def _written(self, attributes: AssignAttributes, operands: Sequence[Value], division: Division) -> Value:
        self._routes.here(None)
        token = self._routes.builder.add("assign", operands, (operands[-1].type,), attributes).result
        self._routes.here(division.site)
        return token

    def _by_number(self, node: Node, operands: Sequence[Value], state: Sharded) -> Value:
        attributes, axis, division = node.attributes, state.axis, state.division
        assert isinstance(attributes, AssignAttributes)
        selector = attributes.index[axis]
        new_operands = list(operands)
        if isinstance(selector, RangeSelector):
            ids = self._routes.numbers(selector.start, selector.size, selector.step)
            new_operands.insert(len(new_operands) - 1, ids)
            selector = OperandSelector(len(new_operands) - 3)
            attributes = replace(attributes, index=(*attributes.index[:axis], selector, *attributes.index[axis + 1 :]))
        else:
            ids = new_operands[1 + selector.operand]
        route = self._routes.routing(ids, division)
        inside = self._demands.inside.get(node, frozenset[Value]())
        behind = behind_numbers(node, axis)
        if inside:
            local = self._inside(node, inside, route, ids, axis, behind)
        else:
            local = self._sent(operands[0], route, ids, behind)
        new_operands[0] = local
        new_operands[1 + selector.operand] = route.local
        return self._written(attributes, new_operands, division)

    def _sent(self, value: Value, route: Routing, ids: Value, behind: int) -> Value:
        """What an owner needs of a value: the rows of its numbers, or all of it if that is the same for each number."""
        rank = len(route.shape)
        if value.tensor.rank <= behind:
            return value
        if not is_numbered(value, ids, behind):
            shape = value.tensor.shape
            rest = shape[len(shape) - behind :]
            value = self._routes.builder.broadcast(value, (*route.shape, *rest))
            self._routes.here(self._routes.caller.site)
        return self.pushed(route, value, value.tensor.rank - behind - rank)

    def _inside(
        self, node: Node, inside: frozenset[Value], route: Routing, ids: Value, axis: int, behind: int
    ) -> Value:
        """The right side, computed at the owners."""
        b, local = self._routes.builder, dict[Value, Value]()
        for value in sorted(inside, key=lambda v: self._findings.order[_maker(v)]):
            maker = _maker(value)
            if maker in self._findings.picks:
                memory = self._forms.memory(maker.operands[0], axis, route.division)
                self._routes.here(None)
                local[value] = b.apply("gather", memory, route.local, attributes=AxisAttributes(axis))
            else:
                operands = [
                    local[v] if v in local else self._sent(self._forms.whole(v), route, ids, behind)
                    for v in maker.operands
                ]
                self._routes.here(None)
                local[value] = b.node(maker.op, operands, maker.attributes).result
            self._routes.here(route.division.site)
        return local[node.operands[0]]


def _maker(value: Value) -> Node:
    assert value.node is not None
    return value.node
