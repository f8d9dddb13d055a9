"""Bugs of the compiler: whatever is no mistake of the author becomes one error that names the stage and its pass, keeps
the last graph that was good, and says how to see the failure again."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from dfc.driver.reproducer import keep
from dfc.ir.graph import Graph
from dfc.ir.verify import verify
from dfc.ops.check import check_node
from dfc.ops.spelling import show
from dfc_runtime.errors import DfcError


class InternalError(DfcError):
    """A bug of the compiler. `reproducer` is the file with the last good graph, if one could be written."""

    exit_code = 1

    def __init__(self, message: str, reproducer: str = "") -> None:
        super().__init__(message, code="E0000")
        self.reproducer = reproducer


@contextmanager
def guarded(stage: str, number: int, graph: Graph | None, part: str = "") -> Generator[None]:
    """Turns whatever is no mistake of the author into an `InternalError` that can be reproduced. `number` is that of a
    pass (0: the stage is none), `part` the role or device whose part of the program it is."""
    try:
        yield
    except (DfcError, MemoryError, OSError):
        raise
    except Exception as failure:
        path = keep(graph, stage, show) if graph is not None else ""
        raise InternalError(_report(f"{stage} of {part}" if part else stage, number, failure, path), path) from failure


def check(graph: Graph, stage: str) -> None:
    """Verifies a graph that does not come from a pass."""
    with guarded(stage, 0, graph):
        verify_graph(graph, stage)


def verify_graph(graph: Graph, stage: str) -> None:
    """Raises `VerifyError` for a graph that is not whole."""
    verify(graph, stage, check_node, show)


def _report(stage: str, number: int, failure: Exception, path: str) -> str:
    lines = [f"a bug in dfc: {stage} failed: {type(failure).__name__}: {failure}", "please report it"]
    if path:
        lines[-1] += f" with {path}, the graph before {stage}"
        lines.append(f"to see it again: dfc compile {path} --verify-each")
    if number:
        lines.append(f"to see what came before: dfc compile FILE --pass-limit {number - 1}")
    return "\n  ".join(lines)
