"""refills: which queues a checkpoint has no elements of, as these can be read again.

    runner read {                                    queue `pool`: refilled by `read` from `files`, each take gets 32
      let record = files.next()
      pool.put(features of record)          ->
    }
    entry batch() { let x = pool.take(32) .. }

An iteration reads one record, and what it puts in follows from that record alone: so it makes the same element whenever
it is given that record again, and whatever else it does to state is taken back then. And which elements a shuffled
queue holds follows from its draws, where each take draws for as many elements, and takes come in the order of their
draws; where nothing overtakes, a queue holds the last ones. Where that is not so, a reason is noted. With a `put` in a
branch, the run side sees whether records were left out: which element was made of which record is known only as long
as none was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dfc.ir import walk
from dfc.ir.graph import Entry, Graph, Node, Resource, ResourceKind
from dfc.ir.regions import IfView, view
from dfc.ir.types import TokenType
from dfc.lower.reserves import with_reserves
from dfc.ops.attributes import ASSERT_RESOURCE, AssignAttributes, SliceAttributes
from dfc.ops.effects.queues import CLOSE, PUT, TAKES, QueueAttributes, TakeAttributes
from dfc.ops.effects.records import NEXT, RECORDS, RecordAttributes

if TYPE_CHECKING:
    from dfc_runtime.formats.queue_layout import Refill


def with_queue_plans(graph: Graph) -> dict[str, Resource]:
    """The state of a program, with what its queues need for checkpoints: reserves, and what refills them."""
    resources = with_reserves(graph)
    for name, each in resources.items():
        if each.queue is not None and (each.queue.is_shuffled or not (each.queue.is_reordered or each.queue.is_mutex)):
            refill, kept = _refill(graph, name)
            kept = "it is declared `with persist = true`" if each.queue.persist else kept
            resources[name] = replace(each, queue=replace(each.queue, refill=refill, kept=kept))
    return resources


def _refill(graph: Graph, queue: str) -> tuple[Refill | None, str]:
    """What refills a queue, and why a checkpoint has its elements all the same, if it does."""
    from dfc_runtime.formats.queue_layout import Refill  # most programs have no queues

    entries = list(graph.entries.values())
    if closing := [each for each in entries if _sites(each, queue, (CLOSE,))]:
        return None, f"`{closing[0].name}` closes it"
    fillers = [each for each in entries if _sites(each, queue, (PUT,))]
    calls = [each for each in fillers if not each.is_runner]
    if calls or len(fillers) != 1:
        several = "several runners fill it" if fillers else "nobody fills it"
        return None, f"`{calls[0].name}` is called to fill it" if calls else several
    runner = fillers[0]
    making = _Making(graph, runner, queue)
    if fault := making.fault():
        return None, fault
    form, takers = graph.resources[queue].queue, [each for each in entries if _sites(each, queue, TAKES)]
    take, fault = _take(takers, queue) if form is not None and form.is_shuffled else (1, "")
    return Refill(runner.name, making.reader, take, making.always), fault


def _sites(entry: Entry, queue: str, ops: Sequence[str]) -> list[Node]:
    """Where an entry does this with a queue."""
    return [node for node in walk.nodes(entry.block) if node.op in ops and _resource(node) == queue]


def _resource(node: Node) -> str:
    match node.attributes:
        case QueueAttributes(name) | TakeAttributes(name) | RecordAttributes(name):
            return name
        case _:
            return ""


def _tokens(node: Node) -> set[str]:
    """The state, and the kinds of effects, that a node is ordered with."""
    values = (*node.operands, *node.results)
    return {value.type.resource for value in values if isinstance(value.type, TokenType)}


class _Making:
    """How a runner makes elements: of which reader's records, and whether it makes one of each."""

    def __init__(self, graph: Graph, runner: Entry, queue: str) -> None:
        self._resources, self._runner, self._queue = graph.resources, runner, queue
        self._nodes = list(walk.nodes(runner.block))
        self._owners = {region: node for node in self._nodes for region in node.regions}
        self._regions = {node: block for block in walk.blocks(runner.block) for node in block.nodes}
        self._next = [node for node in self._nodes if node.op == NEXT]
        self._puts = _sites(runner, queue, (PUT,))

    @property
    def reader(self) -> str:
        return _resource(self._next[0])

    @property
    def always(self) -> bool:
        """Whether each record becomes an element."""
        return not self._around(self._puts[0])

    def fault(self) -> str:
        """Why an element is not made of one record alone; "" if it is."""
        name = f"the runner `{self._runner.name}`"
        if not self._next:
            return f"{name} reads no records"
        if len(self._next) > 1 or self._around(self._next[0]):
            return f"{name} does not read one record for each element"
        branches = [view(each) for each in self._around(self._puts[0])]
        if len(self._puts) > 1 or not all(isinstance(each, IfView) for each in branches):
            return f"{name} may put in several elements of one record"
        others = set[str]().union(*map(_tokens, self._nodes)) - {self.reader, self._queue, RECORDS, ASSERT_RESOURCE}
        if any(node.op != PUT and self._queue in _tokens(node) for node in self._nodes if not node.regions):
            return f"{name} uses `{self._queue}` in another way, too"
        for each in sorted(others):
            if each not in self._resources:
                return f"{name} does more than making elements"
            if self._resources[each].kind is ResourceKind.QUEUE:
                return f"{name} uses `{each}`, too"
        if needed := self._state_needed():
            return f"what {name} puts in depends on `{needed[0]}`"
        if self._position_is_used():
            return f"{name} uses `{self.reader}.skipped()`, or `{self.reader}.position()` in front of the record"
        return ""

    def _around(self, node: Node) -> list[Node]:
        """The nodes in whose regions a node is."""
        around: list[Node] = []
        while (owner := self._owners.get(self._regions[node])) is not None:
            around.append(owner)
            node = owner
        return around

    def _state_needed(self) -> list[str]:
        """The state that elements follow from, or whether they are made, or whether that may fail."""
        making = [node for node in self._nodes if node.op == PUT or _tokens(node) & {RECORDS, ASSERT_RESOURCE}]
        parameters = {value: node for region, node in self._owners.items() for value in region.parameters}
        pending = [value for node in making for each in (node, *self._around(node)) for value in each.operands]
        visited: set[Node] = set()
        while pending:
            value = pending.pop()
            node = value.node if value.node is not None else parameters.get(value)
            if value.is_token or node is None or node in visited:
                continue
            visited.add(node)
            pending += [*node.operands, *(output for region in node.regions for output in region.outputs)]
        plain = [node for node in visited if not node.regions]
        return sorted(set[str]().union(*map(_tokens, plain)) - {self.reader, RECORDS, ASSERT_RESOURCE})

    def _position_is_used(self) -> bool:
        """Whether an iteration looks at its reader's position before it reads, or at how many records were left out:
        both are others when elements are read again. The position behind a record is the same."""
        before, behind = self._next[0].operands[0], {self._next[0].results[2]}
        if before.node is None or walk.use_counts(self._runner.block)[before] > 1:
            return True
        reads = [node for node in self._nodes if node.op == before.node.op and self.reader in _tokens(node)]
        first = self._nodes.index(self._next[0])
        if any(self._nodes.index(node) < first for node in reads if node is not before.node):
            return True
        behind |= {node.results[0] for node in reads if node is not before.node}
        users = [node for node in self._nodes if not behind.isdisjoint(node.operands)]
        handed_out = any(not behind.isdisjoint(block.outputs) for block in walk.blocks(self._runner.block))
        return handed_out or not all(_is_position(node) for node in users)


def _is_position(node: Node) -> bool:
    """Whether a node sets a reader's position, or takes it apart from what is beside it."""
    match node.attributes:
        case AssignAttributes():
            return True
        case SliceAttributes(starts, sizes):
            return (starts[0].constant, sizes[0].constant) == (0, 1)
        case _:
            return False


def _take(takers: Sequence[Entry], queue: str) -> tuple[int, str]:
    """How many elements each take gets, 0 if that is no single number; and why takes may not come in the order of their
    draws."""
    if len(takers) > 1 and any(each.is_runner for each in takers):
        return 0, f"`{takers[0].name}` and `{takers[1].name}` take from it at the same time"
    if several := [each for each in takers if each.concurrent]:
        return 0, f"calls of `{several[0].name}` take from it at the same time"
    sizes: set[int | None] = set()
    for node in (site for each in takers for site in _sites(each, queue, TAKES)):
        assert isinstance(node.attributes, TakeAttributes)
        sizes.add(1 if node.attributes.count is None else node.attributes.count.constant)
    if len(sizes) > 1 or None in sizes or 0 in sizes:
        return 0, "its takes get different numbers of elements"
    size = sizes.pop() if sizes else 0
    return size or 0, "" if size else "nobody takes from it"
