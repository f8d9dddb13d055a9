"""Queues and mutexes that are refused where parts of a program would lie elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, Diagnostic, error
from dfc.ir.graph import Graph, ResourceKind


def refused_queues(graph: Graph, where: str) -> Iterator[Diagnostic]:
    """A message for each queue and mutex of a program that is to run somewhere else: "on GPUs"."""
    for resource in graph.resources.values():
        if resource.kind is ResourceKind.QUEUE:
            is_mutex = resource.queue is not None and resource.queue.is_mutex
            title = f"{'mutexes' if is_mutex else 'queues'} are not supported {where} yet"
            yield error(NOT_SUPPORTED_YET, title, resource.span, "they work in programs on one processor")
