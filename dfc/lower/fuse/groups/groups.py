"""Groups: items that become one kernel, and the index space they share.

While items join, a group is an `OpenGroup`. What comes of it is one of a closed union, by what makes a kernel of it:
`LoopGroup` (stages of element-wise work and reductions), `ProductGroup` (a product and its epilogue), `OrderedGroup`
(one item whose inner axes run in ascending order), `StepGroup` (no kernel).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim
from dfc.ir.graph import Value
from dfc.lower.fuse.items.items import (
    Analysed,
    ComputeItem,
    ContractItem,
    CopyItem,
    Item,
    Member,
    ReduceItem,
    ScanItem,
    ScatterItem,
    StepItem,
    StoreItem,
    extents_of,
    result_of,
)
from dfc.lower.storage import Storage
from dfc.ops.lowering.index_maps import Point, renamed


@dataclass(frozen=True, slots=True)
class Fit:
    """How an item joins a group: the axes of the group for its local axes, the level of its stage, the outer axes
    if they change, extents of axes that the group has to add."""

    axes: tuple[int, ...]
    level: int
    outer: tuple[int, ...] | None = None
    added: tuple[Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class Access:
    """A member reads or stores memory that changes over time, at a point of the group's axes (None: anywhere)."""

    storage: Storage
    point: Point | None
    stored: bool
    member: Member


@dataclass(slots=True, eq=False)
class OpenGroup:
    """A group that items join. `rank` is its place in the order of execution, an integer; `extents` are the axes of the
    kernel, `outer` those common to all stages; `touched` has every access to memory that changes over time, `points`
    where memory is read, over the axes."""

    rank: int
    extents: list[Dim]
    outer: list[int]
    members: list[Member] = field(default_factory=list[Member])
    values: dict[Value, Member] = field(default_factory=dict[Value, Member])
    loads: set[Value] = field(default_factory=set[Value])
    touched: list[Access] = field(default_factory=list[Access])
    points: dict[Value, Point] = field(default_factory=dict[Value, Point])
    nodes: int = 0
    reasons: list[str] = field(default_factory=list[str])
    folds: bool = False

    @classmethod
    def opened(cls, rank: int, item: Item) -> OpenGroup:
        """A group over the axes of its first item."""
        folded = item.folded if isinstance(item, ReduceItem) else frozenset[int]()
        extents = list(extents_of(item))
        return cls(rank, extents, [axis for axis in range(len(extents)) if axis not in folded])

    @property
    def first(self) -> Item:
        return self.members[0].item

    @property
    def closed(self) -> bool:
        """Whether nothing else may join."""
        return not may_share(self.first)

    @property
    def is_product(self) -> bool:
        return isinstance(self.first, ContractItem)

    def inner(self, axes: tuple[int, ...]) -> frozenset[int]:
        """The axes of an item that its stage iterates."""
        return frozenset(axes).difference(self.outer)

    def add(self, analysed: Analysed, fit: Fit) -> Member:
        """Takes an item as the fit says."""
        member = Member(analysed, fit.axes, fit.level)
        self.extents.extend(fit.added)
        if fit.outer is not None:
            self.outer = list(fit.outer)
        self.members.append(member)
        self.nodes += 1 + len(analysed.nodes)
        self.folds = self.folds or isinstance(analysed.item, ReduceItem)
        result = result_of(analysed.item)
        if result is not None:
            self.values[result] = member
        for value, point in analysed.leaves:
            self.loads.add(value)
            if point is not None and value not in self.values:
                self.points.setdefault(value, renamed(point, fit.axes))
        return member

    def finished(self) -> Group:
        """The group as it stays."""
        first = self.members[0]
        shared = tuple(self.members), tuple(self.extents), self.values, tuple(self.touched), tuple(self.reasons)
        match first.item:
            case StepItem():
                return StepGroup(first.item, tuple(self.members))
            case ContractItem():
                return ProductGroup(*shared, first.item)
            case ComputeItem() | CopyItem() | ReduceItem() | StoreItem() if may_share(first.item):
                return LoopGroup(*shared, tuple(self.outer))
            case ScanItem() | ScatterItem() | StoreItem():
                return OrderedGroup(*shared, first.item)
            case _:
                raise AssertionError(first.item)


def may_share(item: Item) -> bool:
    """Whether other items may join the group that an item opens."""
    if isinstance(item, StoreItem):
        return not item.target.ordered
    return isinstance(item, ComputeItem | CopyItem | ReduceItem | ContractItem)


@dataclass(frozen=True, slots=True, eq=False)
class _KernelGroup:
    """What every group has that becomes a kernel: members over axes of these extents, the values they make, every
    access to memory that changes over time, and why the group holds what it holds."""

    members: tuple[Member, ...]
    extents: tuple[Dim, ...]
    values: Mapping[Value, Member]
    touched: tuple[Access, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LoopGroup(_KernelGroup):
    """Stages over `outer` axes, which all of them share, and inner ones of their own."""

    outer: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ProductGroup(_KernelGroup):
    """A product, and what is computed at each of its finished points."""

    product: ContractItem


@dataclass(frozen=True, slots=True, eq=False)
class OrderedGroup(_KernelGroup):
    """One item whose inner axes run in ascending order."""

    item: ScanItem | ScatterItem | StoreItem


@dataclass(frozen=True, slots=True, eq=False)
class StepGroup:
    """A step alone."""

    item: StepItem
    members: tuple[Member, ...]


KernelGroup: TypeAlias = LoopGroup | ProductGroup | OrderedGroup
Group: TypeAlias = KernelGroup | StepGroup


def inner_axes(group: KernelGroup, member: Member) -> frozenset[int]:
    """The axes of a member that its stage iterates."""
    outer = group.outer if isinstance(group, LoopGroup) else range(len(group.extents))
    return frozenset(member.axes).difference(outer)
