"""refills: which queues a checkpoint has no elements of, as these can be read again.

    runner read {                                    queue `pool`: refilled by `read` from `files`, each take gets 32
      let record = files.next()
      pool.put(features of record)          ->
    }
    entry batch() { let x = pool.take(32) .. }

An iteration that reads one record, puts one element of it and does nothing else makes the same element whenever it is
given that record; an assertion is no more than that. And which elements a shuffled queue holds follows from its draws,
where each take draws for as many elements, and takes come in the order of their draws. Of all other shuffled queues a
reason is noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dfc.ir import walk
from dfc.ir.graph import Entry, Graph, Node, Resource
from dfc.ir.types import TokenType
from dfc.lower.reserves import with_reserves
from dfc.ops.effects.effects import effects
from dfc.ops.effects.queues import CLOSE, PUT, TAKES, QueueAttributes, TakeAttributes
from dfc.ops.effects.records import NEXT, RECORDS, RecordAttributes
from dfc.ops.record import Effect

if TYPE_CHECKING:
    from dfc_runtime.formats.queue_layout import Refill


def with_queue_plans(graph: Graph) -> dict[str, Resource]:
    """The state of a program, with what its queues need for checkpoints: reserves, and what refills them."""
    resources = with_reserves(graph)
    for name, each in resources.items():
        if each.queue is not None and each.queue.is_shuffled:
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
    reader, fault = _reader(runner, queue)
    if fault:
        return None, f"the runner `{runner.name}` {fault}"
    take, fault = _take([each for each in entries if _sites(each, queue, TAKES)], queue)
    return Refill(runner.name, reader, take), fault


def _sites(entry: Entry, queue: str, ops: Sequence[str]) -> list[Node]:
    """Where an entry does this with a queue."""
    return [node for node in walk.nodes(entry.block) if node.op in ops and _resource(node) == queue]


def _resource(node: Node) -> str:
    match node.attributes:
        case QueueAttributes(name) | TakeAttributes(name) | RecordAttributes(name):
            return name
        case _:
            return ""


def _reader(runner: Entry, queue: str) -> tuple[str, str]:
    """The reader of which each iteration takes one record and puts it into the queue, and does nothing else; or what
    it does instead."""
    top = runner.block.nodes
    reads = [node for node in walk.nodes(runner.block) if node.op == NEXT]
    if not reads:
        return "", "reads no records"
    if len(reads) > 1 or reads[0] not in top:
        return "", "does not read one record for each element"
    puts = _sites(runner, queue, (PUT,))
    if len(puts) > 1 or puts[0] not in top:
        return "", "does not put in one element for each record"
    reader = _resource(reads[0])
    acting = [node for node in walk.nodes(runner.block) if not effects(node) <= {Effect.CHECK}]
    others = {name for node in acting for name in _tokens(node)} - {reader, queue, RECORDS}
    named = sorted(name for name in others if not name.startswith("@"))
    if others:
        return "", f"uses `{named[0]}`, too" if named else "does more than that"
    if _position_is_used(runner, reads[0]):
        return "", f"uses how far `{reader}` has come"
    return reader, ""


def _tokens(node: Node) -> set[str]:
    """The state, and the kinds of effects, that a node is ordered with."""
    values = (*node.operands, *node.results)
    return {value.type.resource for value in values if isinstance(value.type, TokenType)}


def _position_is_used(runner: Entry, read: Node) -> bool:
    """Whether elements may depend on the position of a reader: it is another one when they are read again."""
    before, after = read.operands[0], read.results[2]
    if before.node is None:
        return True
    counts = walk.use_counts(runner.block)
    reads = [node for node in walk.nodes(runner.block) if node.op == before.node.op]
    return len(reads) > 1 or counts[before] > 1 or counts.get(after, 0) > 1


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
