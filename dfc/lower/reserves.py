"""reserves: room in queues for what runners have in their hands when a checkpoint is taken.

    runner work with copies = 4 {                   queue `pool`: room for 4 * 2 elements more
      let x = raw.take()
      pool.put(x)                            ->
      if x > 0.0 { pool.put(-x) }
    }

A checkpoint is taken between iterations, so those that have begun end first: each copy may still put in all that one
iteration does, also where nobody takes meanwhile. A put in a loop counts as often as the loop has
iterations; where that is found out while the program runs, there is no such number.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from dfc.ir.graph import Block, Graph, Node, Resource, Value
from dfc.ir.queues import queue_type
from dfc.ir.regions import ForView, WhileView, view
from dfc.ops.attributes import ConstantAttributes
from dfc.ops.effects.queues import PUT, QueueAttributes

MOST_RESERVED = 1 << 20
"""More elements than this in the hands of runners have no room."""


def with_reserves(graph: Graph) -> dict[str, Resource]:
    """The state of a program, with memory for these elements as well."""
    most: Counter[str] = Counter()
    unknown: set[str] = set()
    for entry in graph.entries.values():
        if entry.is_runner:
            puts, open_ended = _puts(entry.block)
            unknown |= open_ended
            for name, count in puts.items():
                most[name] += entry.copies * count
    unknown |= {name for name, count in most.items() if count > MOST_RESERVED}
    return {
        name: _reserving(each, None if name in unknown else most[name]) if name in {*most, *unknown} else each
        for name, each in graph.resources.items()
    }


def _reserving(resource: Resource, reserve: int | None) -> Resource:
    assert resource.queue is not None, resource.name
    form = replace(resource.queue, reserve=reserve)
    return replace(resource, queue=form, type=queue_type(form))


def _puts(block: Block) -> tuple[Counter[str], set[str]]:
    """How often one iteration puts into each queue at most, and into which of them nobody knows how often."""
    counts: Counter[str] = Counter()
    unknown: set[str] = set()
    pending: list[tuple[Block, int | None]] = [(block, 1)]
    while pending:
        current, times = pending.pop()
        for node in current.nodes:
            if node.op == PUT and isinstance(node.attributes, QueueAttributes):
                counts[node.attributes.resource] += times or 0
                unknown |= {node.attributes.resource} if times is None else set()
            inner = _times(node, times)
            pending += [(region, inner) for region in node.regions]
    return counts, unknown


def _times(node: Node, outer: int | None) -> int | None:
    """How often the regions of a node run, in all."""
    if not node.regions or outer is None:
        return outer
    match view(node):
        case ForView(start=start, stop=stop):
            bounds = _constant(start), _constant(stop)
            return None if None in bounds else outer * max(0, (bounds[1] or 0) - (bounds[0] or 0))
        case WhileView():
            return None
        case _:
            return outer


def _constant(value: Value) -> int | None:
    attributes = value.node.attributes if value.node is not None else None
    return int(attributes.value.array) if isinstance(attributes, ConstantAttributes) else None
