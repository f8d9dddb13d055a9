"""In which form each value is needed: whole where it is used, or by rows where those lie. From the end to the start.

`whole` and `rows` are what later nodes need; a value may be needed in both forms. `updates` says, for an assignment by
row numbers, what of its right side is computed at the owners: only if that sends no more than one row for each number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.shard.analysis import Findings, goes_over_blocks, index_of_rows, written
from dfc.distribute.shard.mistakes import ELSEWHERE
from dfc.distribute.shard.model import Division, Sharded
from dfc.distribute.shard.regions import inner_axis, tensor_flows
from dfc.ir import walk
from dfc.ir.attributes import MeasuredAttributes
from dfc.ir.dims import ONE, ZERO, dim
from dfc.ir.graph import Block, Node, Value
from dfc.ir.regions import controls, view
from dfc.ops.attributes import AssignAttributes, AxisAttributes, OperandSelector, ScatterAttributes
from dfc.ops.effects.effects import is_pure
from dfc.ops.lowering.views import Movement, is_reshape, movement_of
from dfc.ops.rules.lookup import is_elementwise, rules_of
from dfc.ops.rules.sharding import Split

RowDivision: TypeAlias = tuple[Division, int]
"""How rows are divided, and along which axis."""


@dataclass(slots=True)
class Demands:
    """`inside`: by assignment, the values of its right side that are computed at the owners."""

    whole: set[Value] = field(default_factory=set[Value])
    rows: dict[Value, dict[RowDivision, None]] = field(default_factory=dict["Value", "dict[RowDivision, None]"])
    inside: dict[Node, frozenset[Value]] = field(default_factory=dict["Node", "frozenset[Value]"])

    def has(self, value: Value) -> bool:
        return value in self.whole or value in self.rows


def demands_of(block: Block, findings: Findings) -> Demands:
    return _Search(block, findings).run()


def group_starts(node: Node) -> list[int]:
    """The first axis of the region that each part of an index stands for, and its end."""
    assert isinstance(node.attributes, AssignAttributes)
    starts = [0]
    for selector in node.attributes.index:
        width = node.operands[1 + selector.operand].tensor.rank if isinstance(selector, OperandSelector) else 1
        starts.append(starts[-1] + width)
    return starts


def row_operands(value: Value, axis: int, division: Division) -> list[tuple[Value, int | None]] | None:
    """What the rows of a common value are made of, if its node can be done for some rows alone: operands, with the axis
    of rows (None: whole). None where rows are taken from the whole."""
    node = value.node
    if node is not None and rules_of(node).rows_at is not None:
        return []
    if node is None or not is_pure(node):
        return None
    if isinstance(node.attributes, ScatterAttributes) and node.attributes.axis == axis:
        return [(v, None) for v in node.operands]
    if is_reshape(node):
        own = _same_axis(value, node.operands[0], axis)
        return None if own is None else [(node.operands[0], own)]
    if movement_of(node) is not Movement.REPEATED and not is_elementwise(node):
        return None
    parts: list[tuple[Value, int | None]] = []
    for operand in node.operands:
        own = axis - (value.tensor.rank - operand.tensor.rank)
        has_rows = own >= 0 and operand.tensor.shape[own] != ONE
        if has_rows and not division.can_split(operand.tensor.shape[own]):
            return None
        parts.append((operand, own if has_rows else None))
    return parts


def _same_axis(value: Value, before: Value, axis: int) -> int | None:
    """The axis of rows before a reshape that only adds or removes axes of size one."""
    after = [number for number, size in enumerate(value.tensor.shape) if size != ONE]
    there = [number for number, size in enumerate(before.tensor.shape) if size != ONE]
    if [value.tensor.shape[n] for n in after] != [before.tensor.shape[n] for n in there] or axis not in after:
        return None
    return there[after.index(axis)]


class _Search:
    def __init__(self, block: Block, findings: Findings) -> None:
        self._block = block
        self._findings = findings
        self._demands = Demands()

    def run(self) -> Demands:
        """What an entry gives may be by rows: the caller puts it together."""
        for value in self._block.outputs:
            self._as_it_is(value)
        self._nodes(self._block)
        return self._demands

    def _nodes(self, block: Block) -> None:
        for node in reversed(block.nodes):
            self._visit(node)

    def _visit(self, node: Node) -> None:
        if node.regions:
            self._region(node)
            return
        state = written(node, self._findings.sharded)
        if state is not None:
            self._written(node, state)
        elif not is_pure(node) or isinstance(node.attributes, MeasuredAttributes):
            self._whole(v for v in walk.inputs(node) if not v.is_token)
        elif any(self._demands.has(v) for v in node.results):
            self._pure(node)

    def _region(self, node: Node) -> None:
        """All of it is kept, and what is inside is seen like what is outside."""
        if goes_over_blocks(node, self._findings):
            self._whole(walk_inputs(node))
            return
        self._whole(iter(controls(view(node))))
        for flow in tensor_flows(node):
            values = [*flow.outputs] if flow.initial is None else [flow.initial, *flow.outputs]
            row_split = self._findings.split_of(flow.result)
            for value in values:
                if row_split is None:
                    self._need_whole(value)
                else:
                    self._need_rows(value, inner_axis(flow, row_split[0].axis), row_split[1], node)
        for region in reversed(node.regions):
            self._nodes(region)

    def _as_it_is(self, value: Value) -> None:
        """A value by rows if it is, else whole."""
        row_split = self._findings.split_of(value)
        if row_split is not None:
            self._note(value, row_split[0].axis, row_split[1])
        elif not value.is_token:
            self._need_whole(value)

    def _whole(self, values: Iterator[Value]) -> None:
        for value in values:
            self._need_whole(value)

    def _need_whole(self, value: Value) -> None:
        if value in self._findings.states:
            self._note(value, self._findings.states[value].axis, self._findings.divisions[value])
        self._demands.whole.add(value)

    def _note(self, value: Value, axis: int, division: Division) -> None:
        self._demands.rows.setdefault(value, {})[division, axis] = None

    def _need_rows(self, value: Value, axis: int, division: Division, node: Node) -> None:
        """Rows of a value for a node, split or common; what they are made of is asked for when its node is reached."""
        self._note(value, axis, division)
        if self._findings.split_of(value) == (Split(axis), division):
            return
        self._findings.needs(value, node, ELSEWHERE)
        if value in self._findings.states or row_operands(value, axis, division) is None:
            self._need_whole(value)

    def _pure(self, node: Node) -> None:
        findings = self._findings
        if node in findings.picks:
            self._need_rows(
                node.operands[0], findings.states[node.operands[0]].axis, findings.divisions[node.operands[0]], node
            )
            self._whole(iter(node.operands[1:]))
            return
        if node in findings.required:
            division = findings.division(node)
            for value, state in zip(node.operands, findings.required[node], strict=True):
                if isinstance(state, Split):
                    self._need_rows(value, state.axis, division, node)
                else:
                    self._need_whole(value)
            return
        if any(v in self._demands.whole for v in node.results):
            self._whole(walk_inputs(node))
        for value in node.results:
            for division, axis in self._demands.rows.get(value, {}):
                self._need_operand_rows(value, axis, division)

    def _need_operand_rows(self, value: Value, axis: int, division: Division) -> None:
        for operand, own in row_operands(value, axis, division) or ():
            if own is None or value.node is None:
                self._need_whole(operand)
            else:
                self._need_rows(operand, own, division, value.node)

    def _written(self, node: Node, state: Sharded) -> None:
        axis, division = state.axis, state.division
        rows, *others = (v for v in node.operands if not v.is_token)
        self._whole(iter(others))
        if not is_by_number(node, axis, division):
            own = axis_of_rows(node, state)
            if own is None:
                self._need_whole(rows)
            else:
                self._need_rows(rows, own, division, node)
            return
        inside, leaves = chain(node, rows, axis, self._findings)
        self._demands.inside[node] = inside
        for value in leaves if inside else [rows]:
            self._need_whole(value)
        for value in inside:
            pick = value.node
            if pick is not None and pick in self._findings.picks:
                source = pick.operands[0]
                self._note(source, self._findings.states[source].axis, division)


def is_by_number(node: Node, axis: int, division: Division) -> bool:
    """Whether an assignment is to some rows, and not to all of them in their order."""
    assert isinstance(node.attributes, AssignAttributes)
    if not node.attributes.index:
        return False
    selector = node.attributes.index[axis]
    return isinstance(selector, OperandSelector) or (selector.start, selector.size, selector.step) != (
        ZERO,
        dim(division.rows),
        1,
    )


def axis_of_rows(node: Node, state: Sharded) -> int | None:
    """The axis of rows of the right side of an assignment to all rows; None if it is the same for each of them."""
    assert isinstance(node.attributes, AssignAttributes)
    value = node.operands[0].tensor
    starts = group_starts(node) if node.attributes.index else list(range(state.rank + 1))
    own = starts[state.axis] - (starts[-1] - value.rank)
    return own if own >= 0 and value.shape[own] != ONE else None


def walk_inputs(node: Node) -> Iterator[Value]:
    return (v for v in walk.inputs(node) if not v.is_token)


def chain(assign: Node, rows: Value, axis: int, findings: Findings) -> tuple[frozenset[Value], list[Value]]:
    """The values of a right side that are computed at the owners because they pick rows by the same numbers there; and
    the values that these need from elsewhere. Empty if that would send more than the right side itself."""
    number = index_of_rows(assign, axis)
    if number is None:
        return frozenset(), []
    ids = assign.operands[number]
    behind = behind_numbers(assign, axis)
    candidates: set[Value] = set()
    picks: set[Value] = set()
    pending = [rows]
    while pending:
        value = pending.pop()
        node = value.node
        if value in candidates or node is None or not is_numbered(value, ids, behind):
            continue
        if node in findings.picks and _same_pick(node, ids, axis, findings, assign):
            picks.add(value)
        elif not is_elementwise(node):
            continue
        else:
            pending.extend(node.operands)
        candidates.add(value)
    return _cheapest(assign, rows, candidates, picks, findings, behind)


def _cheapest(
    assign: Node, rows: Value, candidates: set[Value], picks: set[Value], findings: Findings, behind: int
) -> tuple[frozenset[Value], list[Value]]:
    """What to compute at the owners so that the fewest rows travel for each number."""
    makers = {value.node for value in candidates} | {assign}
    alone = {value for value in picks if findings.users[value] <= makers}
    costs: dict[Value, int] = {}
    avoided: dict[Value, frozenset[Value]] = {}
    chosen: set[Value] = set()
    for value in sorted(candidates, key=lambda v: findings.order[_maker(v)]):
        operands = dict.fromkeys(() if value in picks else _maker(value).operands)
        avoided[value] = frozenset({value} & alone).union(*(avoided.get(v, frozenset()) for v in operands))
        there = sum(costs.get(v, int(v.tensor.rank > behind)) for v in operands)
        pushed = 1 + len(avoided[value])  # what is not picked at the owners comes to where the value is made
        costs[value] = min(there, pushed)
        if there < pushed:
            chosen.add(value)
    inside: set[Value] = set()
    leaves: dict[Value, None] = {}
    pending = [rows]
    while pending:
        value = pending.pop()
        if value not in chosen:
            leaves[value] = None
        elif value not in inside:
            inside.add(value)
            pending.extend(() if value in picks else _maker(value).operands)
    return (frozenset(inside), list(leaves)) if inside else (frozenset(), [])


def _maker(value: Value) -> Node:
    assert value.node is not None
    return value.node


def behind_numbers(assign: Node, axis: int) -> int:
    """How many axes of the region come behind those that stand for row numbers."""
    starts = group_starts(assign)
    return starts[-1] - starts[axis + 1]


def is_numbered(value: Value, ids: Value, behind: int) -> bool:
    """Whether a value has the axes that stand for the numbers, `behind` axes from its end."""
    start = value.tensor.rank - behind - ids.tensor.rank
    return start >= 0 and value.tensor.shape[start : start + ids.tensor.rank] == ids.tensor.shape


def _same_pick(pick: Node, ids: Value, axis: int, findings: Findings, assign: Node) -> bool:
    """Whether rows of state that lies alike are picked by the same numbers."""
    if not isinstance(pick.attributes, AxisAttributes) or pick.operands[1] is not ids:
        return False
    resource = assign.attributes
    assert isinstance(resource, AssignAttributes)
    same = findings.divisions[pick.operands[0]] == findings.sharded[resource.resource].division
    return same and pick.attributes.axis == axis and group_starts(assign)[axis] == axis
