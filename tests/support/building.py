"""Programs in tests: from a few lines of text to a graph, its messages, or the results of an entry."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent

import numpy as np

from dfc.diagnostics.diagnostic import render
from dfc.diagnostics.source import SourceFile
from dfc.elaborate.build import build, check
from dfc.ir.graph import Graph
from dfc.ir.verify import verify
from dfc.ops.check import check_node
from dfc.ops.evaluate import Outcome, evaluate, initial_state
from dfc.transforms.autodiff.autodiff import autodiff

Settings = Mapping[str, int | float | bool | str]


def graph_of(text: str, settings: Settings | None = None, name: str = "program.dfg") -> Graph:
    """The verified graph of a program."""
    graph = build(SourceFile(name, dedent(text)), settings)
    verify(graph, "build", check_node)
    return graph


def messages(text: str, name: str = "program.dfg") -> str:
    """Everything `dfc check` says."""
    return "\n\n".join(render(diagnostic) for diagnostic in check(SourceFile(name, dedent(text))))


def codes(text: str) -> list[str]:
    return [diagnostic.code for diagnostic in check(SourceFile("program.dfg", dedent(text)))]


def run(graph: Graph, entry: str, /, dims: Mapping[str, int] | None = None, **feeds: object) -> Outcome:
    """Calls an entry on the first state of the program, with the reference evaluator."""
    plain = autodiff(graph)
    return evaluate(plain, entry, feeds, initial_state(plain), dims)


def result(text: str, /, dims: Mapping[str, int] | None = None, **feeds: object) -> np.ndarray:
    """The first result of the only entry of a program."""
    graph = graph_of(text)
    name = next(name for name in graph.entries if name != "init")
    return run(graph, name, dims, **feeds).result
