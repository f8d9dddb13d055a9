"""Groups: items that become one kernel, and the index space they share."""

from __future__ import annotations

from dataclasses import dataclass, field

from dfc.ir.dims import Dim
from dfc.ir.graph import Value
from dfc.lower.fuse.indexing import Point, renamed
from dfc.lower.fuse.items.items import Item, Kind
from dfc.lower.storage import Storage


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
    """An item reads or stores memory that changes over time, at a point of the group's axes (None: anywhere)."""

    storage: Storage
    point: Point | None
    stored: bool
    item: Item


@dataclass(slots=True, eq=False)
class Group:
    """`extents` are the axes of the kernel; `outer` those common to all stages. `rank` is the order of execution.

    `touched` has every access to memory that changes over time.
    """

    rank: float
    kind: Kind
    extents: list[Dim]
    outer: list[int]
    items: list[Item] = field(default_factory=list[Item])
    values: dict[Value, Item] = field(default_factory=dict[Value, Item])
    loads: set[Value] = field(default_factory=set[Value])
    touched: list[Access] = field(default_factory=list[Access])
    points: dict[Value, Point] = field(default_factory=dict[Value, Point])  # where memory is read, over the axes
    nodes: int = 0
    reasons: list[str] = field(default_factory=list[str])
    closed: bool = False

    @property
    def folds(self) -> bool:
        return any(item.kind is Kind.REDUCE for item in self.items)

    def inner(self, item: Item) -> frozenset[int]:
        """The axes of an item that its stage iterates."""
        return frozenset(item.axes).difference(self.outer)

    def add(self, item: Item, fit: Fit) -> None:
        """Takes an item as the fit says."""
        self.extents.extend(fit.added)
        if fit.outer is not None:
            self.outer = list(fit.outer)
        item.axes = fit.axes
        item.level = fit.level
        self.items.append(item)
        self.nodes += 1 + len(item.nodes)
        if item.result is not None:
            self.values[item.result] = item
        for value, point in item.leaves:
            self.loads.add(value)
            if point is not None and value not in self.values:
                self.points.setdefault(value, renamed(point, item.axes))

    def __repr__(self) -> str:
        return f"<group {self.rank} {self.kind.value} {self.items}>"
