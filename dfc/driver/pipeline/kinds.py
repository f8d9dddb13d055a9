"""The kinds of stages: passes over a graph, stages over a whole program, stages over each of its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from dfc.deferred.dataclasses import dataclass
from dfc.driver.internal_errors import verify_graph
from dfc.driver.pipeline.checks import check_gone
from dfc.driver.pipeline.forms import Context, Part
from dfc.ir import walk
from dfc.ir.graph import Graph, Node

In = TypeVar("In")
Out = TypeVar("Out")

GRAPH = "the graph is whole"


@dataclass(frozen=True, slots=True)
class Phase:
    """One run of one pass over a graph. `reason` says why it stands where it stands; no code can be made without a
    `needed` one. With `option`, the name of a field of `CompileOptions`, it runs only where that is set. No node that
    is `gone` may be left behind it, which `holds` says in words."""

    name: str
    run: Callable[[Graph], Graph]
    reason: str
    needed: bool = False
    option: str = ""
    holds: str = ""
    gone: Callable[[Node], bool] | None = None

    @property
    def entry(self) -> str:
        """The module and the function that does it."""
        return f"{self.run.__module__}:{self.run.__name__}"

    @property
    def invariant(self) -> str:
        """What the verifier checks behind it."""
        return f"{GRAPH}; {self.holds}" if self.holds else GRAPH

    def verify(self, graph: Graph) -> None:
        """Raises what a bug of the pass would be."""
        verify_graph(graph, self.name)
        if self.gone is not None:
            left = (node for _, block in walk.graph_blocks(graph) for node in walk.nodes(block) if self.gone(node))
            check_gone(next(left, None), self.holds)


@dataclass(frozen=True, slots=True)
class Stage(Generic[In, Out]):
    """A stage over a whole program. `entry` is the module and the function that does it, `invariant` says what `verify`
    checks: behind every run where it is `always` checked, else where verification is asked for."""

    name: str
    run: Callable[[In, Context], Out]
    reason: str
    entry: str
    invariant: str
    verify: Callable[[Out], None]
    show: Callable[[Out], str]
    always: bool = False
    option: str = ""


@dataclass(frozen=True, slots=True)
class PartStage(Generic[In, Out]):
    """A stage that is run for every part of a program by itself; the fields are those of `Stage`. One that
    `asks_target` finds the target of its part imported, which is no work of the stage."""

    name: str
    run: Callable[[Part[In], Context], Out]
    reason: str
    entry: str
    invariant: str
    verify: Callable[[Out], None]
    show: Callable[[Out], str]
    option: str = ""
    asks_target: bool = False


AnyStage = Phase | Stage[Any, Any] | PartStage[Any, Any]


@dataclass(frozen=True, slots=True)
class PlugIn:
    """A pass of another package, offered as an entry point of the group `dfc.passes`: it runs after the last run of the
    pass `after`."""

    phase: Phase
    after: str
