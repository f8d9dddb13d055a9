"""What one block has of every value of an entry, and which values must be made whole in between.

    let h = images @ w              h: Split(0)
    let m = mean(h, axis = 0)       m: Partial(sum), combined: the next line is not linear in it
    let y = square(h - m)           y: Split(0)

Goes through the entry until nothing changes: what has been found to be needed whole is common from its first use on.
At the top a part is combined before it is scaled, as the undivided program does it. A loop or branch runs for each
block by itself where it can: what is linear keeps parts there. If it needs something whole inside, it runs once, with
loops over the blocks and what they make together inside; and what gets nothing but common values is common altogether.

Assumes an entry after `expand`. Guarantees a `Use` for each node whose results are not common, and for those around
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from enum import Enum

from dfc.deferred.dataclasses import dataclass
from dfc.ir import walk
from dfc.ir.graph import Block, Entry, Node, Value
from dfc.ir.regions import bodies, controls, for_view, if_view, view, while_view
from dfc.ir.types import TensorType, TokenType
from dfc.ops.attributes import ASSERT_RESOURCE
from dfc.ops.rules.lookup import use_of
from dfc.ops.rules.sharding import COMMON, Common, Cutting, Partial, Split, State, join
from dfc.ops.rules.use import NeededWhole, Use, whole
from dfc.transforms.batch.at_top import stacked, whole_first
from dfc.transforms.batch.row_uses import RowUses


class CannotSplit(Exception):
    """A value inside a region that would have to be whole there."""

    def __init__(self, value: Value, node: Node, reason: str) -> None:
        super().__init__(reason)
        self.value = value
        self.node = node
        self.reason = reason


@dataclass(slots=True)
class BlockSplits:
    """The finding. `states` are those of the values themselves; a value that is `combined` is common where a use wants
    it so. `uses` has no entry for what is common altogether."""

    cutting: Cutting
    states: dict[Value, State] = field(default_factory=dict[Value, State])
    uses: dict[Node, Use] = field(default_factory=dict[Node, Use])
    combined: dict[Value, str] = field(default_factory=dict[Value, str])

    def state(self, value: Value) -> State:
        return self.states.get(value, COMMON)

    def is_split(self, value: Value) -> bool:
        return not isinstance(self.state(value), Common)

    def is_local(self, value: Value, required: State) -> bool:
        """Whether a use takes what the block has, rather than (a piece of) what is common."""
        match self.state(value), required:
            case Split(axis, outer), Split(other, order):
                return axis == other and (outer is None or order is None or outer == order)
            case Partial(how), Partial(other_how):
                return how == other_how
            case _:
                return False

    def required(self, node: Node) -> Iterator[tuple[Value, State]]:
        """Everything a node takes, regions included, and as what."""
        use = self.uses.get(node)
        plain = [v for v in node.operands if not v.is_token]
        yield from zip(plain, use.required if use else [COMMON] * len(plain), strict=True)
        for region in node.regions:
            for inner in region.nodes:
                yield from self.required(inner)
            yield from zip(region.outputs, self.outputs_required(node, region), strict=True)

    def outputs_required(self, node: Node, region: Block) -> list[State]:
        """As what a region returns its outputs."""
        use = self.uses.get(node)
        if use is None or (node.op == "while" and region is node.regions[0]):
            return [COMMON for _ in region.outputs]
        carried = len(view(node).results.values)
        emits = [s.at(s.axis - 1) if isinstance(s, Split) else s for s in use.results[carried:]]
        tokens = [COMMON for v in region.outputs if v.is_token]
        return [*use.results[:carried], *emits, *tokens]

    def is_shared(self, node: Node) -> bool:
        use = self.uses.get(node)
        return use is not None and use.shared


class Way(Enum):
    """How a node with regions runs."""

    BLOCKS = "for each block by itself"
    SHARED = "once, with loops over the blocks inside"
    WHOLE = "once, on whole values"


@dataclass(slots=True)
class _Known:
    """What has been found out so far; it only grows."""

    combined: dict[Value, str] = field(default_factory=dict[Value, str])
    whole_sources: set[Node] = field(default_factory=set[Node])
    ways: dict[Node, Way] = field(default_factory=dict[Node, Way])

    def measure(self) -> tuple[int, int, tuple[Way, ...]]:
        return len(self.combined), len(self.whole_sources), tuple(self.ways.values())


def analyse(entry: Entry, cutting: Cutting, rows: RowUses) -> BlockSplits:
    """Cuts every feed that has an axis of the split size, and follows what becomes of the pieces."""
    known = _Known()
    while True:
        before = known.measure()
        search = _Search(entry.block, cutting, known, rows)
        search.run()
        if before == known.measure():
            search.splits.combined = {v: why for v, why in known.combined.items() if v in search.needed}
            return search.splits


class _Search:
    """One walk through an entry."""

    def __init__(self, block: Block, cutting: Cutting, known: _Known, rows: RowUses) -> None:
        self.splits = BlockSplits(cutting)
        self._rows = rows
        self._with_rows = _around(block, rows.stacked | rows.whole | rows.colocated)
        self.needed: set[Value] = set()
        self._block = block
        self._known = known
        self._can_combine = set(block.parameters)

    def run(self) -> None:
        for value in self._block.parameters:
            if isinstance(value.type, TensorType):
                axis = self.splits.cutting.first_axis(value.type.shape)
                if axis is not None:
                    self.splits.states[value] = Split(axis)
        self._nodes(self._block.nodes, at_top=True)
        for value in self._block.outputs:
            self._without_parts(value, "it is a result")

    def _nodes(self, nodes: Sequence[Node], *, at_top: bool) -> None:
        for node in nodes:
            self._visit(node, at_top)
            if at_top:
                self._can_combine.update(node.results)

    def _seen(self, value: Value) -> State:
        """What a value counts as where it is used."""
        state = self.splits.state(value)
        if isinstance(state, Partial) and value in self._known.combined:
            self.needed.add(value)
            return COMMON
        return state

    def _without_parts(self, value: Value, reason: str) -> State:
        """The same; a part is combined."""
        state = self._seen(value)
        if not isinstance(state, Partial):
            return state
        self._need(value, reason)
        return COMMON

    def _need(self, value: Value, reason: str) -> bool:
        """Has a value made whole; False inside what runs for each block by itself."""
        if value not in self._can_combine:
            return False
        if value.node is not None and self._is_source(value.node):
            self._known.whole_sources.add(value.node)
        else:
            self.needed.add(value)
            self._known.combined.setdefault(value, reason)
        return True

    def _is_source(self, node: Node) -> bool:
        """Whether pieces come from nothing but common values: then the whole does too."""
        use = self.splits.uses.get(node)
        return use is not None and not node.regions and all(isinstance(s, Common) for s in use.required)

    def _demand(self, value: Value, node: Node, reason: str) -> None:
        if not self._need(value, reason):
            raise CannotSplit(value, node, reason)

    def _visit(self, node: Node, at_top: bool) -> None:
        if node in self._with_rows and not at_top:
            raise CannotSplit(node.operands[0], node, "rows of it lie in other tasks, which all blocks ask together")
        if node in self._known.whole_sources or self._all_common(node):
            return
        use = self._region(node, at_top) if node.regions else self._plain(node, at_top)
        if not use.is_common or self._has_uses(node):
            self.splits.uses[node] = use
        for value, state in zip(node.results, use.results, strict=False):
            self.splits.states[value] = state

    def _has_uses(self, node: Node) -> bool:
        """Whether anything in its regions is done for each block."""
        return any(inner in self.splits.uses for region in node.regions for inner in walk.nodes(region))

    def _all_common(self, node: Node) -> bool:
        return bool(node.regions) and not self._split_inputs(node)

    def _split_inputs(self, node: Node) -> list[Value]:
        return [v for v in walk.inputs(node) if not v.is_token and not isinstance(self._seen(v), Common)]

    def _plain(self, node: Node, at_top: bool) -> Use:
        operands = [v for v in node.operands if not v.is_token]
        has_tokens = len(operands) < len(node.operands)
        states = [self._seen(v) for v in operands]
        while True:
            try:
                if node in self._rows.whole or node in self._rows.colocated:
                    return whole(node, states, "it meets rows that lie in other tasks")
                if at_top and node in self._rows.stacked:
                    return stacked(node, states, self.splits.cutting)
                if at_top:
                    whole_first(node, states, is_large=node in self._rows.scattered)
                if has_tokens:
                    return whole(node, states, "all tasks do the same with it")
                return use_of(node, states, self.splits.cutting)
            except NeededWhole as need:
                self._demand(operands[need.operand], node, need.reason)
                states[need.operand] = COMMON

    # ---------------------------------------------------------------- regions --

    def _region(self, node: Node, at_top: bool) -> Use:
        """For each block by itself if that is possible; else once, with what the blocks make together inside; but on
        whole values if nothing is summed there, because then every iteration would put the same pieces together."""
        ways = self._known.ways
        if node not in ways:
            try:
                return self._in_blocks(node)
            except CannotSplit:
                if not at_top:
                    raise
                ways[node] = Way.SHARED
        if ways[node] is Way.SHARED:
            try:
                use = self._run(node, shared=True)
                if node in self._with_rows or self._has_sums(node) or any(v.is_token for v in node.operands):
                    return use
            except CannotSplit:
                pass
            ways[node] = Way.WHOLE
        return self._on_whole_values(node)

    def _has_sums(self, node: Node) -> bool:
        inside = {v for region in node.regions for v in walk.defined_values(region)}
        return any(isinstance(self.splits.state(v), Partial) for v in self._known.combined if v in inside)

    def _on_whole_values(self, node: Node) -> Use:
        for value in self._split_inputs(node):
            self._demand(value, node, "it is used in a loop or branch that works on all of it")
        for region in node.regions:
            self._forget(region)
        plain = [v for v in node.operands if not v.is_token]
        return Use((COMMON,) * len(plain), tuple(COMMON for v in node.results if not v.is_token))

    def _forget(self, region: Block) -> None:
        for value in walk.defined_values(region):
            self.splits.states.pop(value, None)
        for node in walk.nodes(region):
            self.splits.uses.pop(node, None)

    def _in_blocks(self, node: Node) -> Use:
        for value in node.results:
            if isinstance(value.type, TokenType) and value.type.resource != ASSERT_RESOURCE:
                split_input = self._split_inputs(node)[0]
                raise CannotSplit(split_input, node, f"it uses the state `{value.type.resource}`, once for all blocks")
        return self._run(node, shared=False)

    def _run(self, node: Node, *, shared: bool) -> Use:
        match node.op:
            case "if":
                return self._if(node, shared)
            case "while":
                return self._while(node, shared)
            case _:
                return self._for(node, shared)

    def _inside(self, region: Block, parameters: Sequence[State], shared: bool) -> list[State]:
        """The states of what a region returns; its own nodes are seen again from the start."""
        self._forget(region)
        self.splits.states.update(zip(region.parameters, parameters, strict=False))
        if shared:
            self._can_combine.update(region.parameters)
        self._nodes(region.nodes, at_top=shared)
        outputs = [v for v in region.outputs if not v.is_token]
        return [self._without_parts(v, "every iteration ends with it") if shared else self._seen(v) for v in outputs]

    def _common_operand(self, node: Node, value: Value, reason: str) -> None:
        if not isinstance(self._seen(value), Common):
            self._demand(value, node, reason)

    def _started(self, values: Sequence[Value], shared: bool) -> list[State]:
        """The states of what is carried into a loop."""
        return [self._without_parts(v, "a loop starts with it") if shared else self._seen(v) for v in values]

    def _if(self, node: Node, shared: bool) -> Use:
        parts = if_view(node)
        self._common_operand(node, parts.condition, "it decides for all blocks which branch is taken")
        then, otherwise = (self._inside(region, (), shared) for region in bodies(parts))
        return Use((COMMON,), tuple(self._joined(node, then, otherwise, parts.otherwise, shared)), shared)

    def _joined(
        self, node: Node, before: Sequence[State], after: Sequence[State], region: Block, shared: bool
    ) -> list[State]:
        """What values are that come from two places, the second of which is the end of the region."""
        states: list[State] = []
        for a, b, value in zip(before, after, region.outputs, strict=False):
            both = None if shared and isinstance(a, Common) != isinstance(b, Common) else join(a, b)
            if both is None:
                raise CannotSplit(value, node, "it is cut in one way here, and in another way before")
            states.append(both)
        return states

    def _for(self, node: Node, shared: bool) -> Use:
        parts = for_view(node)
        for value in controls(parts):
            self._common_operand(node, value, "it says for all blocks how many iterations there are")
        count = len(parts.initial.values)
        carried = self._started(parts.initial.values, shared)
        while True:
            outputs = self._inside(parts.body, [COMMON, *carried], shared)
            now = self._joined(node, carried, outputs[:count], parts.body, shared)
            if now == carried:
                emits = [s.at(s.axis + 1) if isinstance(s, Split) else _plain_state(s) for s in outputs[count:]]
                return Use((COMMON, COMMON, *carried), (*carried, *emits), shared)
            carried = now

    def _while(self, node: Node, shared: bool) -> Use:
        parts = while_view(node)
        carried = self._started(parts.initial.values, shared)
        while True:
            decides = self._inside(parts.condition, carried, shared)
            outputs = self._inside(parts.body, carried, shared)
            now = self._joined(node, carried, outputs, parts.body, shared)
            if now == carried:
                break
            carried = now
        if not isinstance(decides[0], Common):
            reason = "it decides for all blocks whether there is another iteration"
            raise CannotSplit(parts.test, node, reason)
        return Use(tuple(carried), tuple(carried), shared)


def _plain_state(state: State) -> State:
    return COMMON if isinstance(state, Common) else state


def _around(block: Block, nodes: frozenset[Node]) -> frozenset[Node]:
    """These nodes, and those in whose regions they stand."""
    return frozenset(
        node
        for node in (walk.nodes(block) if nodes else ())
        if node in nodes or any(inner in nodes for region in node.regions for inner in walk.nodes(region))
    )
