"""Items join into groups.

In program order, an item joins the last group it depends on if it reads that group's values at its own point: element-
wise after element-wise, a fold after what it folds, row-wise consumers after a fold, element-wise after a product.
Else it may join a group over the same index space that reads the same memory (siblings; scalars always). Else it
opens a group.

Because a group only takes items all of whose dependencies are in groups of no higher rank, ranks are an order of
execution, and no search for cycles is needed. Dependencies are values, memory that is overwritten (read before write
before read), and failure before effects. Where an entry finds out sizes, what comes after such a step, or after a
check, runs after it: its memory and its loops may be of that size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import floor

from dfc.ir.dims import Dim
from dfc.ir.graph import Value
from dfc.kernels.body import Affine
from dfc.kernels.program import BufferRole
from dfc.lower.fuse.groups.fit import fit, fit_sibling, fit_total
from dfc.lower.fuse.groups.groups import Access, Fit, Group
from dfc.lower.fuse.indexing import Point, renamed
from dfc.lower.fuse.items.analyse import memory_of
from dfc.lower.fuse.items.collect import Collected
from dfc.lower.fuse.items.items import Item, Kind, Selector
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import Storage

LOOPS = (Kind.VALUE, Kind.REDUCE, Kind.STORE)
Fitting = Callable[[Item, Group], Fit | None]
GROUP_LIMIT = 256  # nodes in a kernel
OPERAND_LIMIT = 24  # memory operands of a kernel


@dataclass(slots=True)
class _Joiner:
    scope: Scope
    found: Collected
    groups: list[Group] = field(default_factory=list[Group])
    by_rank: dict[float, Group] = field(default_factory=dict[float, Group])
    rank_of: dict[Item, float] = field(default_factory=dict["Item", float])
    written: dict[Storage, float] = field(default_factory=dict[Storage, float])
    read: dict[Storage, float] = field(default_factory=dict[Storage, float])
    spaces: dict[tuple[Dim, ...], Group] = field(default_factory=dict[tuple[Dim, ...], Group])
    readers: dict[Value, Group] = field(default_factory=dict[Value, Group])
    totals: dict[tuple[Dim, ...], Group] = field(default_factory=dict[tuple[Dim, ...], Group])
    read_through: dict[Storage, dict[Value, float]] = field(default_factory=dict[Storage, "dict[Value, float]"])
    check: float = -1.0
    failing: float = -1.0
    barrier: float = -1.0

    def run(self) -> list[Group]:
        for item in self.found.items:
            self._place(item)
        return sorted(self.groups, key=lambda group: group.rank)

    def _place(self, item: Item) -> None:
        bound = self._bound(item)
        group, found = self._choose(item, bound)
        if group is None or found is None:
            group, found = self._open(item, bound)
        if group.items and item.name:
            group.reasons.append(f"{item.name} {self._why(item, group)}")
        group.add(item, found)
        group.touched += accesses(self.scope, self.found, item, group, item.axes)
        self.readers.update((value, group) for value, point in item.leaves if point is not None)
        if item.kind is Kind.REDUCE and not group.outer:
            self.totals[item.extents] = group
        self._note(item, group.rank)

    def _why(self, item: Item, group: Group) -> str:
        """Why an item is in the group that it joined."""
        made = next((value.name for value, _ in item.leaves if value in group.values), "")
        if made:
            return f"uses {made} at the same point"
        shared = next((value.name for value, _ in item.leaves if value in group.loads), "")
        return f"reads {shared} as well" if shared else "is computed beside them"

    def _bound(self, item: Item) -> float:
        """The highest rank that the item must not run before."""
        bound = self.barrier
        for value, _ in item.leaves:
            root = self.found.roots.get(value)
            if root is not None and root is not item:
                bound = max(bound, self.rank_of[root])
        for storage in item.reads:
            bound = max(bound, self.written.get(storage, -1.0))
        for storage in item.writes:
            bound = max(bound, self.written.get(storage, -1.0), self.read.get(storage, -1.0))
            through = self.read_through.get(storage, {})
            bound = max([bound, *(rank for value, rank in through.items() if value is not item.value)])
        if item.faults:
            bound = max(bound, self.check)
        if item.kind is Kind.STEP or any(storage.role is BufferRole.RESOURCE for storage in item.writes):
            bound = max(bound, self.check, self.failing)
        return bound

    def _note(self, item: Item, rank: float) -> None:
        self.rank_of[item] = rank
        for storage in item.reads:
            self.read[storage] = max(self.read.get(storage, -1.0), rank)
        for value, _ in item.leaves:
            for storage in self.found.homes.get(value, ()):
                through = self.read_through.setdefault(storage, {})
                through[value] = max(through.get(value, -1.0), rank)
        for storage in item.writes:
            self.written[storage] = max(self.written.get(storage, -1.0), rank)
            through = self.read_through.get(storage, {})
            self.read_through[storage] = {value: r for value, r in through.items() if value is item.value}
        if item.kind is Kind.STEP:
            self.check = max(self.check, rank)
            if self.scope.measures and item.node is not None and item.node.op in ("range", "assert"):
                self.barrier = rank
        elif item.faults:
            self.failing = max(self.failing, rank)

    def _choose(self, item: Item, bound: float) -> tuple[Group | None, Fit | None]:
        if not self.scope.fusing or item.kind not in LOOPS or (item.target is not None and item.target.ordered):
            return None, None
        last = self.by_rank.get(bound)
        if last is not None and not last.closed:
            found = self._fits(item, last)
            if found is not None:
                return last, found
        return self._sibling(item, bound)

    def _fits(self, item: Item, group: Group, fitting: Fitting = fit) -> Fit | None:
        loads = len(group.loads | {value for value, _ in item.leaves})
        if group.nodes + len(item.nodes) > GROUP_LIMIT or loads > OPERAND_LIMIT:
            group.reasons.append(f"{item.name} is apart: the kernel would grow too large")
            return None
        found = fitting(item, group)
        if found is None or not self._safe(item, group, found):
            return None
        return found

    def _safe(self, item: Item, group: Group, found: Fit) -> bool:
        """Whether the item and the group access the same memory at one point only, reads before the write."""
        outer = found.outer if found.outer is not None else group.outer
        own = found.level, frozenset(found.axes).difference(outer)
        for access in accesses(self.scope, self.found, item, group, found.axes):
            for other in group.touched:
                if other.storage is not access.storage or not (access.stored or other.stored):
                    continue
                same = access.point is not None and access.point == other.point
                stage = other.item.level, frozenset(other.item.axes).difference(outer)
                before = stage[0] < own[0] or (stage[0] == own[0] and stage[1] in (own[1], frozenset()))
                if not access.stored or other.stored or not same or not before:
                    group.reasons.append(f"{item.name} is apart: {access.storage.name} is used at other points")
                    return False
        return True

    def _sibling(self, item: Item, bound: float) -> tuple[Group | None, Fit | None]:
        if not item.extents:
            return self._scalars(item, bound)
        for group in self._readers(item, bound):
            found = self._fits(item, group, fit_sibling)
            if found is not None:
                return group, found
        if item.kind is Kind.REDUCE:
            return self._total(item, bound)
        return self._same_space(item, bound)

    def _readers(self, item: Item, bound: float) -> list[Group]:
        """Groups that read memory that the item reads too and may still take it, the latest first."""
        found = {self.readers[value] for value, _ in item.leaves if value in self.readers}
        able = [group for group in found if group.rank > bound and not group.closed and group.kind is Kind.VALUE]
        return sorted(able, key=lambda group: -group.rank)

    def _total(self, item: Item, bound: float) -> tuple[Group | None, Fit | None]:
        group = self.totals.get(item.extents)
        if group is None or group.rank <= bound:
            return None, None
        found = self._fits(item, group, fit_total)
        return (group, found) if found is not None else (None, None)

    def _same_space(self, item: Item, bound: float) -> tuple[Group | None, Fit | None]:
        group = self.spaces.get(item.extents)
        if group is None or group.rank <= bound or group.closed or group.folds:
            return None, None
        if not any(value in group.loads for value, _ in item.leaves):
            return None, None
        axes = tuple(range(len(item.extents)))
        found = Fit(axes, 0)
        if group.nodes + len(item.nodes) > GROUP_LIMIT or not self._safe(item, group, found):
            return None, None
        return group, found

    def _scalars(self, item: Item, bound: float) -> tuple[Group | None, Fit | None]:
        """The group of scalar items right behind the group at `bound`, so that scalars never hold arrays apart."""
        group = self.by_rank.get(floor(bound) + 0.5)
        if group is None or group.rank <= bound or group.nodes + len(item.nodes) > GROUP_LIMIT:
            return None, None
        found = Fit((), 0)
        return (group, found) if self._safe(item, group, found) else (None, None)

    def _open(self, item: Item, bound: float) -> tuple[Group, Fit]:
        kind = item.kind if item.kind not in LOOPS else Kind.VALUE
        rank = self._new_rank(item, bound)
        kept = [axis for axis in range(len(item.extents)) if axis not in item.folded]
        group = Group(rank, kind, list(item.extents), kept)
        group.closed = kind not in (Kind.VALUE, Kind.CONTRACT) or (item.target is not None and item.target.ordered)
        self.groups.append(group)
        self.by_rank[rank] = group
        if kind is Kind.VALUE and item.kind is not Kind.REDUCE and not group.closed:
            self.spaces[item.extents] = group
        return group, Fit(tuple(range(len(item.extents))), 0)

    def _new_rank(self, item: Item, bound: float) -> float:
        """Behind everything so far; scalars right behind what they need, if there is room."""
        end = float(len(self.groups))
        if not self.scope.fusing or item.extents or item.kind not in (Kind.VALUE, Kind.STORE):
            return end
        rank = (max(bound, floor(bound) + 0.0) + floor(bound) + 1.0) / 2
        return rank if bound < rank < floor(bound) + 1.0 and rank not in self.by_rank else end


def join(scope: Scope, found: Collected) -> list[Group]:
    """Groups in an order of execution."""
    return _Joiner(scope, found).run()


def accesses(scope: Scope, found: Collected, item: Item, group: Group, axes: tuple[int, ...]) -> list[Access]:
    """What an item of a group reads and stores of memory that changes."""
    touched: list[Access] = []
    for value, point in item.leaves:
        if value in group.values:
            continue
        at = renamed(point, axes) if point is not None else None
        touched += [Access(storage, at, False, item) for storage in memory_of(scope, found, value)]
    if item.source is not None:
        touched.append(Access(item.source.storage, renamed(item.point, axes), False, item))
    if item.target is not None:
        touched.append(Access(item.target.place.storage, target_point(item, axes), True, item))
    return touched


def target_point(item: Item, axes: tuple[int, ...]) -> Point | None:
    """Where a store writes, over group axes; None if an index is computed."""
    assert item.target is not None
    index: list[Affine] = []
    for i in item.target.index:
        if isinstance(i, Selector):
            return None
        index.append(i)
    return renamed(tuple(index), axes)
