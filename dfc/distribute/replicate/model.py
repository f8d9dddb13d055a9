"""What a cluster needs to know of a replicated entry, as data."""

from __future__ import annotations

from collections.abc import Mapping

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import Diagnostic
from dfc.diagnostics.source import Span
from dfc.ir.dims import Dim, Symbol
from dfc.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class Piece:
    """How a feed or result is cut: blocks stand in their order along `axis`, in each of its `outer` runs (a formula
    over the sizes of the undivided entry). What a task has of it is stacked: its blocks along a new axis in front."""

    axis: int
    outer: Dim


@dataclass(frozen=True, slots=True)
class Combination:
    """What all blocks make together: `how` is sum, max, min, and, or, concat; `type` that of the result."""

    key: str
    name: str
    span: Span
    how: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class Replication:
    """A replicated entry. In it `symbol` is the size of one block; a call gives the number of the task's blocks (the
    first axis of every feed that is cut) as `count`, and the number of its first one as `first`.

    `feeds` and `results` have those that are cut, by name; the other feeds go to all tasks whole, the other results
    are the same on all of them. `remarks` are warnings about it. With `queues` their batches are cut, and no feed."""

    entry: str
    job: str
    blocks: int
    symbol: Symbol
    count: Symbol
    first: Symbol
    feeds: Mapping[str, Piece]
    results: Mapping[str, Piece]
    combinations: tuple[Combination, ...]
    remarks: tuple[Diagnostic, ...] = ()
    queues: str = ""
