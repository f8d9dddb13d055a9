"""What the tasks of a job have of each value, where state is divided over them by rows.

    let s = table @ v              s: Split(0)       each task has the elements of its rows
    let m = max(s)                 m: common         what the tasks found is combined, in the order of tasks
    let x = table[ids]             x: common         rows are picked where they lie, and come to the one who asked
    let best = top_k(s, 10)        s is needed whole: its elements are brought together, the table never is

The rules are those of `replicate`, which cuts batches into blocks. The owners go through loops and branches with
rows in them like everybody else, so that rows are used, carried and handed out there as outside (`regions`). Assumes an
entry after all passes. Guarantees a state for every value of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.shard.mistakes import ELSEWHERE
from dfc.distribute.shard.model import Division, Sharded
from dfc.distribute.shard.regions import Known, RowSplit, entered, left
from dfc.ir import walk
from dfc.ir.dims import ONE, ZERO, Symbol, dim
from dfc.ir.graph import Block, Node, Value
from dfc.ops.attributes import (
    AssignAttributes,
    ForAttributes,
    OperandSelector,
    ReduceAttributes,
    ResourceAttributes,
    SliceAttributes,
)
from dfc.ops.lowering.views import picked_axis
from dfc.ops.rules.lookup import is_elementwise, rules_of, use_of
from dfc.ops.rules.sharding import COMMON, Partial, Split, State
from dfc.ops.rules.use import NeededWhole, Use, one


@dataclass(slots=True)
class Findings:
    """`states` and `divisions` have the values that are split, `required` what nodes with such operands take them as,
    `combined` how what each task finds becomes the result, `means` for means the op that sums, `picks` the nodes that
    pick rows by number. Of what is needed whole `reasons` says why. `order` and `users` are those of the entry. A loop
    of `count` iterations goes over the blocks of a task, each of which has its own number of them."""

    sharded: Mapping[str, Sharded]
    count: Symbol | None = None
    states: dict[Value, Split] = field(default_factory=dict[Value, Split])
    divisions: dict[Value, Division] = field(default_factory=dict[Value, Division])
    required: dict[Node, tuple[State, ...]] = field(default_factory=dict["Node", "tuple[State, ...]"])
    combined: dict[Node, str] = field(default_factory=dict["Node", str])
    means: dict[Node, str] = field(default_factory=dict["Node", str])
    picks: set[Node] = field(default_factory=set["Node"])
    order: dict[Node, int] = field(default_factory=dict["Node", int])
    users: dict[Value, set[Node]] = field(default_factory=dict["Value", "set[Node]"])
    reasons: dict[Value, tuple[Node, str]] = field(default_factory=dict["Value", "tuple[Node, str]"])

    def state(self, value: Value) -> State:
        return self.states.get(value, COMMON)

    def split_of(self, value: Value) -> RowSplit | None:
        return (self.states[value], self.divisions[value]) if value in self.states else None

    def split(self, value: Value, row_split: RowSplit) -> None:
        self.states[value], self.divisions[value] = row_split

    def needs(self, value: Value, node: Node, reason: str) -> None:
        """Notes why a value is needed whole, if it is by rows."""
        if value in self.states:
            self.reasons.setdefault(value, (node, reason))

    def division(self, node: Node) -> Division:
        """That of a node with an operand or result that is split."""
        return next(self.divisions[v] for v in (*node.results, *node.operands) if v in self.divisions)


def analyse(block: Block, sharded: Mapping[str, Sharded], count: Symbol | None = None) -> Findings:
    """The form of every value, found by going over the block until nothing more becomes known."""
    known = Known()
    while True:
        before, findings = known.measure(), Findings(sharded, count)
        _block(block, findings, known)
        if known.measure() == before:
            break
    for node in walk.nodes(block):
        for value in node.operands:
            findings.users.setdefault(value, set()).add(node)
    return findings


def _block(block: Block, findings: Findings, known: Known) -> None:
    """The nodes of a block in program order, a node behind those of its regions."""
    for node in block.nodes:
        if goes_over_blocks(node, findings):
            for value in walk.inputs(node):
                findings.needs(value, node, "each task does this for its own part of the batch")
            continue
        if node.regions:
            entered(node, known, findings)
            for region in node.regions:
                _block(region, findings, known)
            left(node, known, findings)
        findings.order[node] = len(findings.order)
        if not node.regions:
            _visit(node, findings)


def goes_over_blocks(node: Node, findings: Findings) -> bool:
    """Whether a task does this as often as it has blocks."""
    if findings.count is None or not isinstance(node.attributes, ForAttributes):
        return False
    return node.attributes.trips == dim(findings.count)


def written(node: Node, sharded: Mapping[str, Sharded]) -> Sharded | None:
    """The divided state that a node assigns."""
    return sharded.get(node.attributes.resource) if isinstance(node.attributes, AssignAttributes) else None


def index_of_rows(node: Node, axis: int) -> int | None:
    """The number of the operand by whose numbers an assignment picks rows, if it does."""
    assert isinstance(node.attributes, AssignAttributes)
    if not node.attributes.index:
        return None
    selector = node.attributes.index[axis]
    return 1 + selector.operand if isinstance(selector, OperandSelector) else None


def _visit(node: Node, findings: Findings) -> None:
    if isinstance(node.attributes, ResourceAttributes) and node.op == "read":
        state = findings.sharded.get(node.attributes.resource)
        if state is not None:
            findings.split(node.results[0], (Split(state.axis), state.division))
        return
    if written(node, findings.sharded) is not None:
        return
    operands = [v for v in node.operands if not v.is_token]
    if not any(v in findings.states for v in operands):
        return
    if len(operands) < len(node.operands):
        for value in operands:
            findings.needs(value, node, "it takes all of it")
        return
    if _is_pick(node, findings):
        findings.picks.add(node)
        return
    _plain(node, findings)


def _is_pick(node: Node, findings: Findings) -> bool:
    """Whether it takes rows by number from something that is split by rows."""
    state = findings.states.get(node.operands[0])
    if state is None:
        return False
    axis = picked_axis(node)
    if axis is not None:
        return axis == state.axis
    match node.attributes:
        case SliceAttributes() as how:
            size = node.operands[0].tensor.shape[state.axis]
            return (how.starts[state.axis], how.sizes[state.axis], how.steps[state.axis]) != (ZERO, size, 1)
        case _:
            return False


def _plain(node: Node, findings: Findings) -> None:
    states: list[State] = [findings.state(v) for v in node.operands]
    division = _one_division(node, states, findings)
    _one_axis(node, states, findings)
    while any(isinstance(state, Split) for state in states):
        try:
            use = _use(node, states, division)
        except NeededWhole as need:
            findings.needs(node.operands[need.operand], node, need.reason)
            states[need.operand] = COMMON
            continue
        _note(node, use, division, findings)
        return


def _one_division(node: Node, states: list[State], findings: Findings) -> Division:
    """That of the first operand that is split; those that are divided in another way are needed whole."""
    first: Division | None = None
    for number, value in enumerate(node.operands):
        own = findings.divisions.get(value)
        first = first or own
        if own is not None and own != first:
            findings.needs(value, node, ELSEWHERE)
            states[number] = COMMON
    assert first is not None
    return first


def _one_axis(node: Node, states: list[State], findings: Findings) -> None:
    """Where rows stand along several axes of what is done element by element, the largest operand says along which
    one; the others, which may be vectors, are needed whole."""
    if not is_elementwise(node):
        return
    rank = node.result.tensor.rank
    axes = {
        number: state.axis + rank - value.tensor.rank
        for number, (value, state) in enumerate(zip(node.operands, states, strict=True))
        if isinstance(state, Split)
    }
    if len(set(axes.values())) < 2:
        return
    size = {number: node.operands[number].tensor.elements.constant or 0 for number in axes}
    kept = axes[max(axes, key=lambda number: (size[number], axes[number]))]
    for number, axis in axes.items():
        if axis != kept:
            findings.needs(node.operands[number], node, "it meets rows along another axis")
            states[number] = COMMON


def _use(node: Node, states: Sequence[State], division: Division) -> Use:
    """What the node wants and gives. Runs along an axis are not followed."""
    state = states[0]
    attributes, combine = node.attributes, rules_of(node).owners_combine
    if (
        combine
        and isinstance(attributes, ReduceAttributes)
        and isinstance(state, Split)
        and state.axis in attributes.axes
    ):
        return one(states, Partial(combine))
    use = use_of(node, states, division)
    for state in (*use.required, *use.results):
        if isinstance(state, Split) and state.outer not in (None, ONE):
            number = next(i for i, s in enumerate(states) if isinstance(s, Split))
            raise NeededWhole(number, "its rows would not stand in one run any more")
    for number, state in enumerate(use.required):
        if isinstance(state, Partial):
            raise NeededWhole(number, "it adds up what is split elsewhere")
    return use


def _note(node: Node, use: Use, division: Division, findings: Findings) -> None:
    findings.required[node] = use.required
    if use.total:
        findings.means[node] = use.total
    for value, state in zip(node.results, use.results, strict=True):
        if isinstance(state, Split):
            findings.split(value, (Split(state.axis), division))
        elif isinstance(state, Partial):
            findings.combined[node] = state.how
