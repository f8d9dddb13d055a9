"""What fusion makes of a graph: for every block its kernels in an order of execution, and between them the nodes that
are no kernels, each with the memory of what it takes and gives.

    block of `train`: kernel, kernel, for (index in memory of its own; block of its body: kernel, kernel), kernel

Data only. Memory is named here (`BufferView`), and has an address only after `dfc.lower.buffers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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
class FusedNode:
    """A node that is no kernel: a loop, a branch, a check, a size that is measured, a call of the host, or an effect on
    state that other calls use at the same time.

    `operands` are what the node itself looks at (not what it carries, which is stored before it), `results` what it
    fills itself. `control` is the index of a `for` and the condition of a `while`. `kernels` belong to an effect that
    is to be alone. `fault` is the fault site of a node that can stop the call, `text` the number of a text argument.
    """

    node: Node
    operands: tuple[BufferView, ...] = ()
    results: tuple[BufferView, ...] = ()
    regions: tuple[FusedBlock, ...] = ()
    control: BufferView | None = None
    kernels: tuple[FusedKernel, ...] = ()
    fault: int = -1
    text: int = -1


FusedBlock = tuple[FusedKernel | FusedNode, ...]


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


def kernels(block: Sequence[FusedKernel | FusedNode]) -> Iterator[FusedKernel]:
    """All kernels of a block and the blocks inside it, in order."""
    for part in block:
        if isinstance(part, FusedKernel):
            yield part
        else:
            yield from part.kernels
            for region in part.regions:
                yield from kernels(region)
