"""What fusion makes of a graph: for every block its kernels in an order of execution, and between them the nodes that
are no kernels, each kind a class of its own with the memory of what it takes and gives.

    block of `train`: kernel, kernel, for (index in memory of its own; block of its body: kernel, kernel), kernel

Data only. Memory is named here (`BufferView`), and has an address only after `dfc.lower.buffers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias, assert_never

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.ir.dims import Dim, Symbol
from dfc.ir.graph import Entry, Node
from dfc.kernels.form import Kernel
from dfc.kernels.program import Program
from dfc.lower.storage import BufferView


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """A kernel over views, before its sizes are renamed. `names` are the full names of the graph nodes it computes,
    `reasons` say why it holds what it holds."""

    kernel: Kernel
    views: tuple[BufferView, ...]
    names: tuple[str, ...]
    span: Span
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FusedCheck:
    """An `assert`: the call stops at the fault site unless the condition holds."""

    node: Node
    condition: BufferView
    fault: int


@dataclass(frozen=True, slots=True)
class FusedMeasure:
    """A `range`: its size becomes the value of `source`; the call stops at the fault site if that is out of bounds."""

    node: Node
    source: BufferView
    fault: int


@dataclass(frozen=True, slots=True)
class FusedIf:
    """A branch. Either block stores what it hands out to the memory of the results."""

    node: Node
    condition: BufferView
    then: FusedBlock
    otherwise: FusedBlock


@dataclass(frozen=True, slots=True)
class FusedWhile:
    """A loop that runs as long as its condition stores true to `test`. What it carries is stored before it."""

    node: Node
    condition: FusedBlock
    test: BufferView
    body: FusedBlock


@dataclass(frozen=True, slots=True)
class FusedFor:
    """A loop of an index from `start` to before `stop`. What it carries is stored before it."""

    node: Node
    index: BufferView
    start: BufferView
    stop: BufferView
    body: FusedBlock


@dataclass(frozen=True, slots=True)
class FusedEffect:
    """A read, an assignment or a draw that is to be alone with its state: first `copies` (from, to), then kernels."""

    node: Node
    copies: tuple[tuple[BufferView, BufferView], ...] = ()
    kernels: tuple[FusedKernel, ...] = ()


@dataclass(frozen=True, slots=True)
class FusedHostCall:
    """A call of the host, which reads the inputs and fills the outputs. Where it can fail for a reason of the program,
    as the use of a queue can, `fault` is the site of that."""

    node: Node
    inputs: tuple[BufferView, ...]
    outputs: tuple[BufferView, ...]
    fault: int | None = None


@dataclass(frozen=True, slots=True)
class FusedCheckpoint:
    """A checkpoint that is saved or restored at the path that a text argument of the entry says."""

    node: Node
    path: int


FusedNode: TypeAlias = (
    FusedCheck | FusedMeasure | FusedIf | FusedWhile | FusedFor | FusedEffect | FusedHostCall | FusedCheckpoint
)
"""A node that is no kernel."""
FusedPart: TypeAlias = FusedKernel | FusedNode
FusedBlock: TypeAlias = tuple[FusedPart, ...]


@dataclass(frozen=True, slots=True)
class FusedEntry:
    """An entry or test. `arguments` has None for a text; `measured` are the sizes that the entry finds out itself, with
    the largest value of each."""

    entry: Entry
    block: FusedBlock
    arguments: tuple[BufferView | None, ...]
    results: tuple[BufferView, ...]
    measured: Mapping[Symbol, Dim]


@dataclass(frozen=True, slots=True)
class Fused:
    """A program in kernels. `tables` has what kernels mention by number, and nothing else: constants and fault
    sites."""

    tables: Program
    entries: tuple[FusedEntry, ...]


def blocks_of(part: FusedPart) -> tuple[FusedBlock, ...]:
    """The blocks inside a part, in the order in which they are written."""
    match part:
        case FusedIf():
            return part.then, part.otherwise
        case FusedWhile():
            return part.condition, part.body
        case FusedFor():
            return (part.body,)
        case FusedEffect():
            return (part.kernels,)
        case FusedKernel() | FusedCheck() | FusedMeasure() | FusedHostCall() | FusedCheckpoint():
            return ()
        case _:
            assert_never(part)


def kernels(block: FusedBlock) -> Iterator[FusedKernel]:
    """All kernels of a block and the blocks inside it, in order."""
    for part in block:
        if isinstance(part, FusedKernel):
            yield part
        for inner in blocks_of(part):
            yield from kernels(inner)
