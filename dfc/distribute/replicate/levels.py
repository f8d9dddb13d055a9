"""When each node of a replicated entry runs: common ones once, the others in loops over the blocks.

    level 0: common nodes | loop 0 over the blocks | what loop 0 contributed to, combined | level 1: common nodes | ..

A node in a loop needs what is common at its level; what the blocks make together is common one level above its loop.
State keeps its order, because a token is common like any value. What a later loop needs of an earlier one is kept for
all the task's blocks, or computed again if that takes a few cheap nodes: they are fused into what uses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dfc.ir.graph import Block, Node, Value
from dfc.ir.measured import Dependence
from dfc.ops.rules.lookup import is_elementwise, rules_of
from dfc.ops.rules.movements import Movement
from dfc.ops.rules.sharding import COMMON, Common, Split, State
from dfc.transforms.batch.analysis import Cuts

MOST_AGAIN = 8
"""How many cheap nodes a loop may compute again rather than have a value of an earlier one kept."""
SMALLER = (None, Movement.CUT, Movement.NUMBERED)
"""What moves elements otherwise has an operand that is no larger than the result."""


@dataclass(slots=True)
class Levels:
    """Nodes by level, in their order; a node with regions that has both common results and cut ones is in both.

    Of each value that is cut: the loop it comes from (`phases`), and whether there is a stack of its pieces before any
    loop (`stacked`: parameters, results of shared nodes), or one has to be made (`kept`)."""

    common: list[list[Node]] = field(default_factory=list[list[Node]])
    local: list[list[Node]] = field(default_factory=list[list[Node]])
    phases: dict[Value, int] = field(default_factory=dict[Value, int])
    stacked: set[Value] = field(default_factory=set[Value])
    kept: set[Value] = field(default_factory=set[Value])

    def __len__(self) -> int:
        return max(len(self.common), len(self.local))


def arrange(block: Block, cuts: Cuts) -> Levels:
    """The levels of all nodes, and which pieces and parts outlive their loop (`kept`)."""
    return _Arranging(block, cuts).run()


def common_wanted(node: Node, cuts: Cuts) -> Iterator[tuple[Value, State]]:
    """What the common results of a node with regions are made of."""
    use = cuts.uses.get(node)
    wanted = use.wanted if use else None
    plain = [v for v in node.operands if not v.is_token]
    for number, value in enumerate(plain):
        if wanted is None or isinstance(wanted[number], Common):
            yield value, COMMON
    for region in node.regions:
        for inner in region.nodes:
            if inner not in cuts.uses or inner.regions:
                yield from common_wanted(inner, cuts)
        for value, state in zip(region.outputs, cuts.outputs_wanted(node, region), strict=True):
            if isinstance(state, Common) and not value.is_token:
                yield value, COMMON


class _Arranging:
    def __init__(self, block: Block, cuts: Cuts) -> None:
        self._block = block
        self._cuts = cuts
        self._levels: dict[Value, int] = {}
        self._found = Levels()
        self._dependence = Dependence.within(block)
        self._local_uses: list[tuple[int, Value]] = []
        self._needed_as_stacks: set[Value] = set()

    def run(self) -> Levels:
        found = self._found
        for value in self._block.parameters:
            self._given(value, 0)
        for node in self._block.nodes:
            if self._cuts.is_shared(node):
                self._shared(node)
            elif node in self._cuts.uses:
                self._local(node)
            else:
                self._common(node, self._cuts.wanted(node))
        for value in self._cuts.combined:
            if value in found.phases:
                _at(found.local, found.phases[value])
        later = {v for phase, v in self._local_uses if v in found.phases and phase > found.phases[v]}
        self._needed_as_stacks.update(v for v in self._block.outputs if isinstance(self._cuts.state(v), Split))
        values = (later | self._needed_as_stacks) - found.stacked
        found.kept = self._kept(values | {self._source(v) for v in self._kept(values) - self._needed_as_stacks})
        return found

    def _source(self, value: Value) -> Value:
        """What a value is another view of, and no smaller one."""
        while value.node is not None and rules_of(value.node).movement not in SMALLER:
            below = [v for v, state in self._cuts.wanted(value.node) if self._cuts.is_local(v, state)]
            if len(below) != 1 or below[0] not in self._found.phases:
                break
            value = below[0]
        return value

    def _kept(self, values: set[Value]) -> set[Value]:
        """Those of the values that outlive their loop that are kept: it takes too much to compute them again."""
        kept: set[Value] = set()
        costs: dict[Value, int] = dict.fromkeys(self._found.stacked, 0)
        for node in self._block.nodes:
            if node not in self._cuts.uses or self._cuts.is_shared(node):
                continue
            cost = self._cost(node, costs)
            for value in node.results:
                is_kept = value in values and (cost > MOST_AGAIN or value in self._needed_as_stacks)
                if is_kept:
                    kept.add(value)
                costs[value] = 0 if is_kept else cost
        return kept

    def _cost(self, node: Node, costs: dict[Value, int]) -> int:
        """How many cheap nodes compute the results of a node again; more than `MOST_AGAIN` if others are needed too."""
        is_cheap = rules_of(node).movement is not None or is_elementwise(node)
        if not is_cheap:
            return MOST_AGAIN + 1
        below = {v for v, state in self._cuts.wanted(node) if self._cuts.is_local(v, state)}
        return min(MOST_AGAIN + 1, 1 + sum(costs.get(v, MOST_AGAIN + 1) for v in below))

    def _given(self, value: Value, level: int) -> None:
        """A value that is there before the loop of its level."""
        if self._cuts.is_cut(value):
            self._found.phases[value] = level
            self._found.stacked.add(value)
        else:
            self._levels[value] = level

    def _common(self, node: Node, wanted: Iterable[tuple[Value, State]]) -> None:
        level = self._after(node, wanted)
        _at(self._found.common, level).append(node)
        for value in node.results:
            if not self._cuts.is_cut(value):
                self._levels[value] = level

    def _shared(self, node: Node) -> None:
        wanted = list(self._cuts.wanted(node))
        level = self._after(node, wanted)
        _at(self._found.common, level).append(node)
        for value in node.results:
            self._given(value, level)
        self._needed_as_stacks.update(
            v for v, state in wanted if v in self._found.phases and self._cuts.is_local(v, state)
        )

    def _local(self, node: Node) -> None:
        if any(not self._cuts.is_cut(value) for value in node.results):
            self._common(node, common_wanted(node, self._cuts))
        wanted = list(self._cuts.wanted(node))
        phase = self._after(None, wanted)
        _at(self._found.local, phase).append(node)
        self._found.phases.update((v, phase) for v in node.results if self._cuts.is_cut(v))
        self._local_uses += [(phase, v) for v, state in wanted if self._cuts.is_local(v, state)]

    def _after(self, node: Node | None, wanted: Iterable[tuple[Value, State]]) -> int:
        """The first level at which everything is there (for a node in a loop, which is none: when the loop runs)."""
        level = 0
        for value, state in wanted:
            level = max(level, self._ready(value, state, in_loop=node is None))
        if node is not None:
            tokens = [v for v in node.operands if v.is_token]
            sizes = [v for result in node.results for v in self._dependence.of(result)]
            level = max([level, *(self._levels.get(v, 0) for v in (*tokens, *sizes))])
        return level

    def _ready(self, value: Value, state: State, *, in_loop: bool) -> int:
        """Values from outside the block are there; those of regions come with their nodes."""
        phase = self._found.phases.get(value)
        if phase is None:
            return self._levels.get(value, 0)
        if self._cuts.is_local(value, state):
            return phase if in_loop or value in self._found.stacked else phase + 1
        return phase + 1


def _at(lists: list[list[Node]], number: int) -> list[Node]:
    while len(lists) <= number:
        lists.append([])
    return lists[number]
