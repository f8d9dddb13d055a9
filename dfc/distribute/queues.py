"""Queues and readers of records belong to a program on one processor so far: they are refused where parts of it would
lie elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, Diagnostic, error
from dfc.ir import walk
from dfc.ir.graph import Graph, ResourceKind
from dfc.ops.effects.records import RecordAttributes


def refused_queues(graph: Graph, where: str) -> Iterator[Diagnostic]:
    """A message for each queue and mutex of a program that is to run somewhere else: "on many ranks"."""
    for resource in graph.resources.values():
        if resource.kind is ResourceKind.QUEUE:
            is_mutex = resource.queue is not None and resource.queue.is_mutex
            title = f"{'mutexes' if is_mutex else 'queues'} are not supported {where} yet"
            yield error(NOT_SUPPORTED_YET, title, resource.span, "they work in programs on one processor")


def refused_readers(graph: Graph) -> Iterator[Diagnostic]:
    """A message for each reader of records of a program that is to run on many ranks."""
    seen: set[str] = set()
    for entry in graph.entries.values():
        for node in walk.nodes(entry.block):
            attributes = node.attributes
            if isinstance(attributes, RecordAttributes) and attributes.resource not in seen:
                seen.add(attributes.resource)
                title = "readers of records are not supported on many ranks yet"
                helps = ("read them in the process that calls the program, and feed what is in them",)
                yield error(NOT_SUPPORTED_YET, title, node.span, "they work in programs on one rank", helps=helps)
