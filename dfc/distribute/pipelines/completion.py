"""A small value behind each take of a large one, for tasks that go on when it has been done.

    let x, t = queue_take(..)    ->    let x, t1 = queue_take(..)
                                       let n, t = queue_size(t1)

What a task has to know before it changes state behind a take of another one is that there was an element. Assumes a
graph after all passes. Guarantees that nothing uses the number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dfc.distribute.pipelines.connected import state_of
from dfc.ir.dtypes import I64
from dfc.ir.graph import Entry, Graph, Node, Value
from dfc.ir.names import name_nodes
from dfc.ir.rewrite import Pass, RewriteSite, rebuild, with_block
from dfc.ir.types import TensorType
from dfc.ops.effects.queues import SIZE, TAKES, QueueAttributes
from dfc.ops.rules.costs import bytes_of

MOST_BYTES = 1024
"""Elements with a field of at most so many bytes need nothing."""


def with_completions(graph: Graph) -> Graph:
    """The graph with the sizes of queues behind such takes of entries that are called."""
    entries = {name: each if each.is_runner else _completing(each) for name, each in graph.entries.items()}
    return replace(graph, entries=entries)


def _completing(entry: Entry) -> Entry:
    return with_block(entry, name_nodes(rebuild(entry.block, _Completions()), entry.block))


class _Completions(Pass):
    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        if site.node.op not in TAKES:
            return None
        take = site.kept()
        *values, token = take.results
        if any(bytes_of(value.tensor, lambda size: size.constant or MOST_BYTES) <= MOST_BYTES for value in values):
            return None
        name = state_of(take)
        assert name is not None
        types = (TensorType(I64), token.type)
        size = Node(SIZE, (token,), types, attributes=QueueAttributes(name), name=f"{take.name}/done", span=take.span)
        site.output += [take, size]
        return (*values, size.results[1])
