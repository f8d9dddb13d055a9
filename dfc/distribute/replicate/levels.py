"""When each node of a replicated entry runs: common ones once, the others in loops over the blocks.

    level 0: common nodes | loop 0 over the blocks | what loop 0 contributed to, combined | level 1: common nodes | ..

A node in a loop needs what is common at its level; what the blocks make together is common one level above its loop.
State keeps its order, because a token is common like any value. What a later loop needs of an earlier one is kept for
all the task's blocks, or computed again if that takes a few cheap nodes: they are fused into what uses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.replicate.takes import gives_own_rows
from dfc.ir.graph import Block, Node, Value
from dfc.ir.measured import Dependence
from dfc.ops.lowering.views import Movement, movement_of
from dfc.ops.rules.lookup import is_elementwise
from dfc.ops.rules.sharding import COMMON, Common, Split, State
from dfc.transforms.batch.analysis import BlockSplits

MOST_AGAIN = 8
"""How many cheap nodes a loop may compute again rather than have a value of an earlier one kept."""
SMALLER = (None, Movement.SUBSET, Movement.NUMBERED)
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


def arrange(block: Block, splits: BlockSplits) -> Levels:
    """The levels of all nodes, and which pieces and parts outlive their loop (`kept`)."""
    return _Leveller(block, splits).run()


def common_requirements(node: Node, splits: BlockSplits) -> Iterator[tuple[Value, State]]:
    """What the common results of a node with regions are made of."""
    use = splits.uses.get(node)
    required = use.required if use else None
    plain = [v for v in node.operands if not v.is_token]
    for number, value in enumerate(plain):
        if required is None or isinstance(required[number], Common):
            yield value, COMMON
    for region in node.regions:
        for inner in region.nodes:
            if inner not in splits.uses or inner.regions:
                yield from common_requirements(inner, splits)
        for value, state in zip(region.outputs, splits.outputs_required(node, region), strict=True):
            if isinstance(state, Common) and not value.is_token:
                yield value, COMMON


class _Leveller:
    def __init__(self, block: Block, splits: BlockSplits) -> None:
        self._block = block
        self._splits = splits
        self._levels: dict[Value, int] = {}
        self._result = Levels()
        self._dependence = Dependence.within(block)
        self._local_uses: list[tuple[int, Value]] = []
        self._needed_as_stacks: set[Value] = set()

    def run(self) -> Levels:
        levels = self._result
        for value in self._block.parameters:
            self._note_result(value, 0)
        for node in self._block.nodes:
            if self._splits.is_shared(node):
                self._shared(node)
            elif node in self._splits.uses:
                self._local(node)
            else:
                self._common(node, self._splits.required(node))
        for value in self._splits.combined:
            if value in levels.phases:
                _at(levels.local, levels.phases[value])
        later = {v for phase, v in self._local_uses if v in levels.phases and phase > levels.phases[v]}
        self._needed_as_stacks.update(v for v in self._block.outputs if isinstance(self._splits.state(v), Split))
        values = (later | self._needed_as_stacks) - levels.stacked
        levels.kept = self._kept(values | {self._source(v) for v in self._kept(values) - self._needed_as_stacks})
        return levels

    def _source(self, value: Value) -> Value:
        """What a value is another view of, and no smaller one."""
        while value.node is not None and movement_of(value.node) not in SMALLER:
            below = [v for v, state in self._splits.required(value.node) if self._splits.is_local(v, state)]
            if len(below) != 1 or below[0] not in self._result.phases:
                break
            value = below[0]
        return value

    def _kept(self, values: set[Value]) -> set[Value]:
        """Those of the values that outlive their loop that are kept: it takes too much to compute them again."""
        kept: set[Value] = set()
        costs: dict[Value, int] = dict.fromkeys(self._result.stacked, 0)
        for node in self._block.nodes:
            if node not in self._splits.uses or self._splits.is_shared(node):
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
        is_cheap = movement_of(node) is not None or is_elementwise(node)
        if not is_cheap:
            return MOST_AGAIN + 1
        below = {v for v, state in self._splits.required(node) if self._splits.is_local(v, state)}
        return min(MOST_AGAIN + 1, 1 + sum(costs.get(v, MOST_AGAIN + 1) for v in below))

    def _note_result(self, value: Value, level: int) -> None:
        """A value that is there before the loop of its level."""
        if self._splits.is_split(value):
            self._result.phases[value] = level
            self._result.stacked.add(value)
        else:
            self._levels[value] = level

    def _common(self, node: Node, required: Iterable[tuple[Value, State]]) -> None:
        level = self._after(node, required)
        _at(self._result.common, level).append(node)
        for value in node.results:
            if not self._splits.is_split(value):
                self._levels[value] = level

    def _shared(self, node: Node) -> None:
        required = list(self._splits.required(node))
        if gives_own_rows(node, self._splits.cutting):  # by the numbers of the blocks alone, behind the take
            required = [(value, state) for value, state in required if isinstance(state, Common)]
        level = self._after(node, required)
        _at(self._result.common, level).append(node)
        for value in node.results:
            self._note_result(value, level)
        self._needed_as_stacks.update(
            v for v, state in required if v in self._result.phases and self._splits.is_local(v, state)
        )

    def _local(self, node: Node) -> None:
        if any(not self._splits.is_split(value) for value in node.results):
            self._common(node, common_requirements(node, self._splits))
        required = list(self._splits.required(node))
        phase = self._after(None, required)
        _at(self._result.local, phase).append(node)
        self._result.phases.update((v, phase) for v in node.results if self._splits.is_split(v))
        self._local_uses += [(phase, v) for v, state in required if self._splits.is_local(v, state)]

    def _after(self, node: Node | None, required: Iterable[tuple[Value, State]]) -> int:
        """The first level at which everything is there (for a node in a loop, which is none: when the loop runs)."""
        level = 0
        for value, state in required:
            level = max(level, self._ready(value, state, in_loop=node is None))
        if node is not None:
            tokens = [v for v in node.operands if v.is_token]
            sizes = [v for result in node.results for v in self._dependence.of(result)]
            level = max([level, *(self._levels.get(v, 0) for v in (*tokens, *sizes))])
        return level

    def _ready(self, value: Value, state: State, *, in_loop: bool) -> int:
        """Values from outside the block are there; those of regions come with their nodes."""
        phase = self._result.phases.get(value)
        if phase is None:
            return self._levels.get(value, 0)
        if self._splits.is_local(value, state):
            return phase if in_loop or value in self._result.stacked else phase + 1
        return phase + 1


def _at(lists: list[list[Node]], number: int) -> list[Node]:
    while len(lists) <= number:
        lists.append([])
    return lists[number]
