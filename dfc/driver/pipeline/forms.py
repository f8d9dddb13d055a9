"""What a program is between two stages, and what the stages ask about where it will run.

    SourceFile -> tree.Module -> Resolved -> Graph -> Undivided -> Divided (a graph a part) -> Divided (kernels a part)
    -> .. -> Divided (images a part) -> Bundle

`Distribution` is the seam for programs on several devices or ranks: those that are for one rank go through `OneRank`,
which passes them on as they are, so that nothing about devices or ranks is imported for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Generic, Protocol, TypeVar

from dfc.bundle.target import Generated, Lowered
from dfc.bundle.writing import Bundle, write
from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import Diagnostic
from dfc.driver.internal_errors import verify_graph
from dfc.driver.watching import Watch, ignore
from dfc.ir.graph import Graph
from dfc.ir.options import CompileOptions
from dfc.kernels.program import Program
from dfc.lower.lowering_cache import LoweringCache
from dfc.ops.spelling import show
from dfc_runtime.formats.manifest import OMITTED_STATE

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Undivided:
    """One graph for whatever will run the program. The stages of a distribution add what they find out in classes of
    their own below this one."""

    graph: Graph

    def text(self) -> str:
        """The graph, as a program that can be read again."""
        return show(self.graph)

    def verify(self, stage: str) -> None:
        """Raises what a bug of the stage would be."""
        verify_graph(self.graph, stage)


@dataclass(frozen=True, slots=True)
class Part(Generic[T_co]):
    """What one rank, or one device of it, runs. `name` is "" where there are no others, else that of the role
    (`worker`) and of the device where it works on several (`worker/gpu0`). `graph` is the graph of the part as it was
    partitioned, `options` say what it is compiled for, `form` is what the last stage has made of it."""

    name: str
    graph: Graph
    options: CompileOptions
    form: T_co

    def with_form(self, form: U) -> Part[U]:
        return Part(self.name, self.graph, self.options, form)


@dataclass(frozen=True, slots=True)
class Divided(Generic[T_co]):
    """A program in parts, and how one bundle is made of them in the end."""

    parts: tuple[Part[T_co], ...]
    assembly: Assembly


@dataclass(frozen=True, slots=True)
class Coded:
    """A program with code that is not linked."""

    program: Program
    generated: Generated


@dataclass(frozen=True, slots=True)
class Linked:
    """A program with its images."""

    program: Program
    lowered: Lowered


class Assembly(Protocol):
    """Makes one bundle of linked parts."""

    def bundle(self, parts: Sequence[Part[Linked]], context: Context) -> Bundle: ...


class Distribution(Protocol):
    """The stages `separate` and from `replicate` to `partition`, for one kind of place that a program runs in. Each
    gets what the one before has made."""

    def separate(self, graph: Graph) -> Graph:
        """What gradients are taken at apart from what is updated, where these are of different steps."""
        ...

    def replicate(self, graph: Graph) -> Undivided:
        """Entries over blocks of their batch."""
        ...

    def shard(self, form: Undivided) -> Undivided:
        """State in rows, and what is done with it at its owners."""
        ...

    def place(self, form: Undivided) -> Undivided:
        """A rank or device for state and nodes."""
        ...

    def partition(self, form: Undivided, context: Context) -> Divided[Graph]:
        """A graph for each."""
        ...


class OneRank:
    """A program for one rank and one device: it goes through as it is."""

    def separate(self, graph: Graph) -> Graph:
        return graph

    def replicate(self, graph: Graph) -> Undivided:
        return Undivided(graph)

    def shard(self, form: Undivided) -> Undivided:
        return form

    def place(self, form: Undivided) -> Undivided:
        return form

    def partition(self, form: Undivided, context: Context) -> Divided[Graph]:
        return Divided((Part("", form.graph, context.options, form.graph),), OneBundle())


class OneBundle:
    """The only part is the bundle."""

    def bundle(self, parts: Sequence[Part[Linked]], context: Context) -> Bundle:
        (part,) = parts
        program, lowered = part.form.program, part.form.lowered
        settings = part.graph.settings
        return write(
            program, lowered, context.text, settings, context.diagnostics, context.modules, notes=context.notes
        )


@dataclass(slots=True)
class Context:
    """What stages know besides the program. `text` and `modules` are what the bundle keeps of the source: that of the
    program, and of imported files by path ("" and none for a part of another program). `diagnostics` gets the warnings
    of the front end. A run ends early behind the stage `options.stop_after`. `verified` is the last graph that was
    found whole: stages that hand it on as it is, and the next run, need not look at it again. `lowered` has what the
    stages of parts would make of graphs whose memory had to be known. `omitted_state` is the state of the program that
    none of the wanted entries needs."""

    options: CompileOptions = field(default_factory=CompileOptions)
    distribution: Distribution = field(default_factory=OneRank)
    watch: Watch = ignore
    text: str = ""
    modules: Mapping[str, str] = field(default_factory=dict[str, str])
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    verified: Graph | None = None
    omitted_state: tuple[str, ...] = ()

    @property
    def notes(self) -> Mapping[str, object]:
        """What the bundle says in addition to what the target does."""
        return {OMITTED_STATE: [*self.omitted_state]} if self.omitted_state else {}

    lowered: LoweringCache = field(default_factory=LoweringCache)
