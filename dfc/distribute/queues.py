"""Queues belong to a program on one processor so far: they are refused where parts of it would lie elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, Diagnostic, error
from dfc.ir.graph import Graph, ResourceKind


def refused_queues(graph: Graph, where: str) -> Iterator[Diagnostic]:
    """A message for each queue of a program that is to run somewhere else: "on many ranks"."""
    for resource in graph.resources.values():
        if resource.kind is ResourceKind.QUEUE:
            title = f"queues are not supported {where} yet"
            yield error(NOT_SUPPORTED_YET, title, resource.span, "they work in programs on one processor")
