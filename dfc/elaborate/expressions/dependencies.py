"""What a value depends on, through branches and loops too, and where a gradient is lost on the way.

Assumes a graph in the making: loops and branches that are finished are nodes, the one being made is not. A result of a
region node depends on what its regions return there; a carried value on its start and on its next value.
"""

from __future__ import annotations

from collections.abc import Iterator

from dfc.elaborate.state.variables import Variable
from dfc.ir import walk
from dfc.ir.graph import Node, Value
from dfc.ir.regions import ForView, carried, controls, flows, view
from dfc.ir.types import TensorType
from dfc.ops import registry
from dfc.ops.attributes import ResourceAttributes
from dfc.ops.control.derivatives import custom_view, is_custom


class Dependencies:
    """What a value depends on, and along which path; found by one walk towards the sources."""

    def __init__(self, loss: Value, *, smooth: bool) -> None:
        self.loss = loss
        self.user: dict[Value, Value | None] = {loss: None}
        self._flows: dict[Value, tuple[Value, ...]] = {}
        self._inside: set[Value] = set()
        self._entered: set[Node] = set()
        self._reads: dict[str, list[Value]] = {}
        waiting = [loss]
        while waiting:
            value = waiting.pop()
            for operand in self._operands(value, smooth):
                if operand not in self.user:
                    self.user[operand] = value
                    waiting.append(operand)
        for value in self.user:
            if name := read_variable(value):
                self._reads.setdefault(name, []).append(value)

    def __contains__(self, value: Value) -> bool:
        return value in self.user

    def is_inside(self, value: Value) -> bool:
        """Whether a value belongs to a region of a branch or loop."""
        return value in self._inside

    def reads_of(self, variable: Variable) -> list[Value]:
        return self._reads.get(variable.name, [])

    def path_from(self, value: Value) -> list[Value]:
        """The values from `value` to the loss."""
        path: list[Value] = []
        current: Value | None = value
        while current is not None:
            path.append(current)
            current = self.user[current]
        return path

    def sources(self) -> list[str]:
        """The names of the feeds and variables it depends on."""
        names: list[str] = []
        for value in self.user:
            is_feed = value.node is None and not value.is_token and value not in self._inside
            name = read_variable(value) or (value.name if is_feed else "")
            if name and name not in names:
                names.append(name)
        return sorted(names)

    def _operands(self, value: Value, smooth: bool) -> Iterator[Value]:
        for operand in self._all_operands(value, smooth):
            if isinstance(operand.type, TensorType) and (not smooth or operand.tensor.dtype.is_float):
                yield operand

    def _all_operands(self, value: Value, smooth: bool) -> tuple[Value, ...]:
        node = value.node
        if node is None:
            return self._flows.get(value, ())
        if smooth and stopping_reason(value):
            return ()
        if smooth and is_custom(node):
            return custom_view(node).parameters
        if not node.regions:
            return node.operands
        if node not in self._entered:
            self._enter(node)
        return _region_operands(node, value.index)

    def _enter(self, node: Node) -> None:
        self._entered.add(node)
        for region in node.regions:
            self._inside |= walk.defined_values(region)
        for flow in carried(view(node)):
            assert flow.initial is not None
            self._flows.update((parameter, (flow.initial, *flow.outputs)) for parameter in flow.parameters)


def _region_operands(node: Node, index: int) -> tuple[Value, ...]:
    """What one result of a region node depends on; also what decides about branches and iterations."""
    parts = view(node)
    flow = flows(parts)[index]
    trips = parts.attributes.trips if isinstance(parts, ForView) else None
    surely_runs = trips is not None and bool(trips.constant)
    start = (flow.initial,) if flow.initial is not None and not surely_runs else ()
    return (*flow.outputs, *start, *controls(parts))


def read_variable(value: Value) -> str:
    node = value.node
    if node is not None and isinstance(node.attributes, ResourceAttributes) and node.op == "read":
        return node.attributes.resource
    return ""


def stopping_reason(value: Value) -> str:
    """Why no gradient passes through the node of a value; empty if one does."""
    node = value.node
    if node is None or node.regions:
        return ""
    record = registry.find(node.op)
    if record is None:
        return ""
    if node.op in ("grad", "jacobian", "custom"):
        return ""
    if record.gradient is None:
        return record.no_gradient or f"{node.op} has no gradient"
    if not value.tensor.dtype.is_float:
        return f"{value.tensor.dtype} has no gradient"
    return ""
