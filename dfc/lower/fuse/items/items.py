"""Items: the units that fusion groups into kernels.

An item makes one thing that must exist: a value in memory, a reduction, a product, a store to memory that others own,
or a step that is no kernel. Everything else in a block (`inline` nodes) is computed inside the items that use it. Each
kind is a class of its own, and what later stages find out about an item stands beside it, never in it:

    collect, materialise: Item    analyse: Analysed (what it reads, and where)    join: Member (its place in a group)

An item has local axes with `extents`; a point is one index for each axis of a value, over the local axes. `order` is
its place in the order of the program (`order`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.ir.dims import ONE, Dim
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.kernels.body import Affine
from dfc.lower.storage import BufferView, Storage
from dfc.ops.lowering.index_maps import ORIGIN, Point, along


@dataclass(frozen=True, slots=True)
class Selector:
    """An index that is computed: the value of `ids` at `point` (axes of the item)."""

    ids: Value
    point: Point


@dataclass(frozen=True, slots=True)
class Target:
    """Where a store writes: one index per axis of the buffer, over the local axes of the item.

    `mode` is an assignment operator; with another one than `:=` the old element takes part. `whole` says that every
    element of the buffer is written, each at its own point. `ordered` stores may hit an element several times. `region`
    is the shape of what is written if not all of it is.
    """

    view: BufferView
    index: tuple[Affine | Selector, ...]
    mode: str = ":="
    whole: bool = False
    ordered: bool = False
    region: tuple[Dim, ...] = ()

    @property
    def selectors(self) -> tuple[Selector, ...]:
        return tuple(index for index in self.index if isinstance(index, Selector))


@dataclass(frozen=True, slots=True, eq=False)
class _Item:
    """What every item has: its place in the order of the program, the name and the source of what it is for."""

    order: int
    name: str
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class _NodeItem(_Item):
    """An item that makes the result of a node, over local axes of these extents."""

    node: Node
    extents: tuple[Dim, ...]

    @property
    def result(self) -> Value:
        return self.node.result


@dataclass(frozen=True, slots=True, eq=False)
class ComputeItem(_NodeItem):
    """An inline node whose value gets memory."""

    point: Point


@dataclass(frozen=True, slots=True, eq=False)
class CopyItem(_Item):
    """Keeps the present value of memory that is about to be overwritten."""

    result: Value
    source: BufferView
    extents: tuple[Dim, ...]
    point: Point


@dataclass(frozen=True, slots=True, eq=False)
class ReduceItem(_NodeItem):
    """A reduction of `operand`, taken at `point`; the axes that `result_point` does not mention are folded."""

    point: Point
    result_point: Point

    @property
    def operand(self) -> Value:
        return self.node.operands[0]

    @property
    def folded(self) -> frozenset[int]:
        """Local axes that the reduction removes."""
        kept = {axis for index in self.result_point for axis, _ in index.terms}
        return frozenset(range(len(self.extents))) - kept


@dataclass(frozen=True, slots=True, eq=False)
class ContractItem(_NodeItem):
    """A product, over the axes of its batch, rows, columns and depth."""

    result_point: Point


@dataclass(frozen=True, slots=True, eq=False)
class ScanItem(_NodeItem):
    """All prefixes along one axis."""

    point: Point

    @property
    def operand(self) -> Value:
        return self.node.operands[0]


@dataclass(frozen=True, slots=True, eq=False)
class ScatterItem(_NodeItem):
    """Rows, taken at `point`, added where their ids say along an axis; `ids_point` is where these are read."""

    point: Point
    ids_point: Point
    axis: int

    @property
    def ids(self) -> Value:
        return self.node.operands[0]

    @property
    def rows(self) -> Value:
        return self.node.operands[1]


@dataclass(frozen=True, slots=True, eq=False)
class StoreItem(_Item):
    """A value, taken at `point`, stored to memory that others own. `node` is the assignment, if it is one."""

    value: Value
    target: Target
    extents: tuple[Dim, ...]
    point: Point
    node: Node | None = None


@dataclass(frozen=True, slots=True, eq=False)
class StepItem(_Item):
    """A node that is no kernel of loops or products. `used` has to be in memory before it; `reads` and `writes` are
    memory that changes. `store` is what an effect that stands alone does under its lock."""

    node: Node
    used: tuple[Value, ...] = ()
    reads: frozenset[Storage] = frozenset()
    writes: frozenset[Storage] = frozenset()
    store: StoreItem | None = None


Producer: TypeAlias = ComputeItem | CopyItem | ReduceItem | ContractItem | ScanItem | ScatterItem
"""Items that make a value others may use."""
LoopItem: TypeAlias = ComputeItem | CopyItem | ReduceItem | StoreItem
"""Items that may share a kernel with others."""
Item: TypeAlias = Producer | StoreItem | StepItem

Leaf = tuple[Value, Point | None]
"""Something in memory (or another item's value) and where it is read; None: anywhere."""


def result_of(item: Item) -> Value | None:
    """The value that others may use; None of stores and steps."""
    return None if isinstance(item, StoreItem | StepItem) else item.result


def result_point(item: Producer) -> Point:
    """The index of the result over the local axes."""
    match item:
        case ReduceItem() | ContractItem():
            return item.result_point
        case ScatterItem():
            return ()
        case _:
            return item.point


def extents_of(item: Item) -> tuple[Dim, ...]:
    return () if isinstance(item, StepItem) else item.extents


def writes_of(item: Item) -> frozenset[Storage]:
    """The memory that others own which an item changes."""
    match item:
        case StoreItem():
            return frozenset((item.target.view.storage,))
        case StepItem():
            return item.writes
        case _:
            return frozenset()


def own_reads(item: Item) -> frozenset[Storage]:
    """The memory that changes which an item reads whatever its values are."""
    match item:
        case StoreItem() if item.target.mode != ":=":
            return frozenset((item.target.view.storage,))
        case CopyItem():
            return frozenset((item.source.storage,))
        case StepItem():
            return item.reads
        case _:
            return frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Analysed:
    """An item with what it reads: `leaves` are what is in memory or will be (under another shape that counts as read
    anywhere), `points` where everything is really read; `nodes` are computed inside, `weight` is their cost for an
    element; `reads` is memory with several values over time. `order` may be earlier than that of the item."""

    item: Item
    order: int
    leaves: tuple[Leaf, ...] = ()
    points: tuple[Point | None, ...] = ()
    nodes: tuple[Node, ...] = ()
    reads: frozenset[Storage] = frozenset()
    weight: int = 0
    faults: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """An item in a group: `axes[i]` is the axis of the group that local axis i became, `level` the stage."""

    analysed: Analysed
    axes: tuple[int, ...]
    level: int

    @property
    def item(self) -> Item:
        return self.analysed.item


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
    """Local axes of a reduction: as `domain`, but a folded axis of length one stays an axis."""
    extents: list[Dim] = []
    point: list[Affine] = []
    for axis, d in enumerate(operand.shape):
        point.append(along(len(extents)) if axis in axes or d != ONE else ORIGIN)
        if axis in axes or d != ONE:
            extents.append(d)
    return tuple(extents), tuple(point)
