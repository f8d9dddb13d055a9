"""Items: the units that fusion groups into kernels.

An item makes one thing that must exist: a value in memory, a fold, a product, a store to memory that others own, or a
step that is no kernel. Everything else in a block (`inline` nodes) is computed inside the items that use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from dfc.diagnostics.source import Span
from dfc.ir.dims import ONE, Dim
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.kernels.body import Affine
from dfc.lower.fuse.indexing import ORIGIN, Point, along
from dfc.lower.storage import BufferView, Storage


class Kind(Enum):
    VALUE = "value"  # an inline node, or a copy of something, that gets memory
    REDUCE = "reduce"
    CONTRACT = "contract"
    SCAN = "scan"
    SCATTER = "scatter"
    STORE = "store"
    STEP = "step"


@dataclass(frozen=True, slots=True)
class Selector:
    """An index that is computed: the value of `ids` at `point` (axes of the item)."""

    ids: Value
    point: Point


@dataclass(frozen=True, slots=True)
class Target:
    """Where a store writes: one index per axis of the place, over the local axes of the item.

    `mode` is an assignment operator; with another one than `:=` the old element takes part. `whole` says that every
    element of the place is written, each at its own point. `ordered` stores may hit an element several times. `region`
    is the shape of what is written if not all of it is.
    """

    place: BufferView
    index: tuple[Affine | Selector, ...]
    mode: str = ":="
    whole: bool = False
    ordered: bool = False
    region: tuple[Dim, ...] = ()


Leaf = tuple[Value, Point | None]  # something in memory (or another item's value) and where it is read; None: anywhere


@dataclass(slots=True, eq=False)
class Item:
    """`key` is the place in program order: position of the node, then a tie-break; `number` the rank by key.

    `extents` are the local axes; `point` is where `value` (for folds and scans: the operand) is taken.

    `result` is the value others may use (None for stores and steps); `result_point` its index over the local axes.
    After grouping, `axes[i]` is the axis of the group that local axis i became.
    """

    key: tuple[int, int]
    kind: Kind
    name: str
    span: Span
    value: Value | None = None
    result: Value | None = None
    node: Node | None = None
    target: Target | None = None
    extents: tuple[Dim, ...] = ()
    point: Point = ()
    result_point: Point = ()
    source: BufferView | None = None  # VALUE items that copy memory
    used: tuple[Value, ...] = ()
    leaves: list[Leaf] = field(default_factory=list[Leaf])  # memory under another shape counts as read anywhere
    points: list[Point | None] = field(default_factory=list["Point | None"])  # where everything is really read
    nodes: list[Node] = field(default_factory=list[Node])  # inline nodes computed inside, for names and costs
    reads: set[Storage] = field(default_factory=set[Storage])  # memory with several values over time
    writes: set[Storage] = field(default_factory=set[Storage])
    number: int = -1
    weight: int = 0
    faults: bool = False
    axes: tuple[int, ...] = ()
    level: int = 0

    @property
    def folded(self) -> frozenset[int]:
        """Local axes that a fold removes."""
        kept = {axis for index in self.result_point for axis, _ in index.terms}
        return frozenset(range(len(self.extents))) - kept if self.kind is Kind.REDUCE else frozenset()

    def __repr__(self) -> str:
        return f"<{self.key} {self.kind.value} {self.name}>"


def domain(shape: tuple[Dim, ...]) -> tuple[tuple[Dim, ...], Point]:
    """Local axes for a shape, one for each extent that is not the number one, and the point they stand for."""
    extents: list[Dim] = []
    point: list[Affine] = []
    for d in shape:
        point.append(ORIGIN if d == ONE else along(len(extents)))
        if d != ONE:
            extents.append(d)
    return tuple(extents), tuple(point)


def reduced_domain(operand: TensorType, axes: Sequence[int]) -> tuple[tuple[Dim, ...], Point]:
    """Local axes of a fold: as `domain`, but a folded axis of length one stays an axis."""
    extents: list[Dim] = []
    point: list[Affine] = []
    for axis, d in enumerate(operand.shape):
        point.append(along(len(extents)) if axis in axes or d != ONE else ORIGIN)
        if axis in axes or d != ONE:
            extents.append(d)
    return tuple(extents), tuple(point)
