"""Items join into groups.

In program order, an item joins the last group it depends on if it reads that group's values at its own point: element-
wise after element-wise, a reduction after what it folds, row-wise consumers after a reduction, element-wise after a
product. Else it may join a group over the same index space that reads the same memory (siblings; scalars always). Else
it opens a group.

Ranks are integers and an order of execution, because a group only takes items all of whose dependencies are in groups
of no higher rank; no search for cycles is needed. There is room between the ranks of two groups for scalars that have
to come between them. What an item depends on, `dependencies` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import count

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim, product
from dfc.ir.graph import Value
from dfc.kernels.body import Affine
from dfc.lower.fuse.groups.dependencies import ROOM, Dependencies
from dfc.lower.fuse.groups.fit import fit, fit_sibling, fit_total
from dfc.lower.fuse.groups.groups import Access, Fit, Group, OpenGroup, may_share
from dfc.lower.fuse.items.collect import Collected
from dfc.lower.fuse.items.hazards import memory_of
from dfc.lower.fuse.items.items import (
    Analysed,
    ComputeItem,
    ContractItem,
    CopyItem,
    Item,
    Member,
    ReduceItem,
    Selector,
    StoreItem,
    Target,
    extents_of,
)
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import typical
from dfc.ops.lowering.index_maps import Point, renamed

Joining = tuple[OpenGroup, Fit]
Fitting = Callable[[Analysed, OpenGroup], Fit | None]
GROUP_LIMIT = 256  # nodes in a kernel
OPERAND_LIMIT = 24  # memory operands of a kernel, each of which takes a register
LARGE = 1 << 15  # bytes that are worth a launch of their own, rather than that others stay in memory beside them
FOR_SCALARS = 1
"""The rank behind a multiple of `ROOM` that scalars alone may have: they run at one point, once."""


@dataclass(slots=True)
class _Latest:
    """The latest group of each kind, which siblings may join: over an index space, of a reader of a value, of totals
    over an index space, of what is read at many points (by the rank that its users wait for, and its space)."""

    spaces: dict[tuple[Dim, ...], OpenGroup] = field(default_factory=dict[tuple[Dim, ...], OpenGroup])
    readers: dict[Value, OpenGroup] = field(default_factory=dict[Value, OpenGroup])
    totals: dict[tuple[Dim, ...], OpenGroup] = field(default_factory=dict[tuple[Dim, ...], OpenGroup])
    broadcasts: dict[tuple[int, tuple[Dim, ...]], OpenGroup] = field(
        default_factory=dict["tuple[int, tuple[Dim, ...]]", OpenGroup]
    )


@dataclass(slots=True)
class _Joiner:
    """The groups so far. `users` and `users_of` are of all items: how many read a value, and those that read one which
    was decided by cost."""

    scope: Scope
    collected: Collected
    dependencies: Dependencies
    groups: list[OpenGroup] = field(default_factory=list[OpenGroup])
    by_rank: dict[int, OpenGroup] = field(default_factory=dict[int, OpenGroup])
    latest: _Latest = field(default_factory=_Latest)
    users_of: dict[Value, list[Analysed]] = field(default_factory=dict[Value, list[Analysed]])
    users: Counter[Value] = field(default_factory=Counter[Value])

    def run(self, items: Sequence[Analysed]) -> list[Group]:
        for each in items:
            self.users.update({value for value, _ in each.leaves})
            for value, _ in each.leaves:
                if value in self.collected.decisions:
                    self.users_of.setdefault(value, []).append(each)
        for each in items:
            self._add(each)
        return [group.finished() for group in sorted(self.groups, key=lambda group: group.rank)]

    def _add(self, each: Analysed) -> None:
        item, bound = each.item, self.dependencies.bound(each)
        chosen = self._choose(each, bound)
        group, fitting = chosen if chosen is not None else self._open(item, bound)
        if group.members and item.name:
            group.reasons.append(f"{item.name} {self._why(each, group)}")
        member = group.add(each, fitting)
        group.touched += accesses(self.scope, self.collected, member, group)
        self.latest.readers.update((value, group) for value, point in each.leaves if point is not None)
        if isinstance(item, ReduceItem) and not group.outer:
            self.latest.totals[item.extents] = group
        self.dependencies.note(each, group.rank)

    def _why(self, each: Analysed, group: OpenGroup) -> str:
        """Why an item is in the group that it joined."""
        used = next((value.name for value, _ in each.leaves if value in group.values), "")
        if used:
            return f"uses {used} at the same point"
        shared = next((value.name for value, _ in each.leaves if value in group.loads), "")
        return f"reads {shared} as well" if shared else "is computed beside them"

    def _choose(self, each: Analysed, bound: int) -> Joining | None:
        if not self.scope.fusing or not may_share(each.item) or isinstance(each.item, ContractItem):
            return None
        last = self.by_rank.get(bound)
        if last is not None and not last.closed:
            fitting = self._fits(each, last)
            if fitting is not None:
                return last, fitting
        return self._same_broadcast(each, bound) if self._is_broadcast(each.item) else self._sibling(each, bound)

    def _is_broadcast(self, item: Item) -> bool:
        """Whether an item computes once what is read at many points."""
        decision = self.collected.decisions.get(item.result) if isinstance(item, ComputeItem) else None
        return decision is not None and decision.grows

    def _before_users(self, item: ComputeItem, bound: int) -> int:
        """The rank below which a value that is read at many points should be computed: that of the last group which its
        users depend on besides, so that they can still join it; the end if there is none after `bound`."""
        end = len(self.groups) * ROOM
        users = [self.dependencies.bound_without(each, item) for each in self.users_of.get(item.result, ())]
        return min((rank for rank in users if rank > bound), default=end)

    def _same_broadcast(self, each: Analysed, bound: int) -> Joining | None:
        """The group of other values that are read at many points, of the same shape and by the same users. Another
        sibling may come late, and what reads the value would come later still, apart from what it belongs to."""
        assert isinstance(each.item, ComputeItem)
        group = self.latest.broadcasts.get((self._before_users(each.item, bound), each.item.extents))
        if group is None or group.rank <= bound:
            return None
        fitting = self._fits(each, group, lambda _, into: Fit(tuple(range(len(into.extents))), 0))
        return (group, fitting) if fitting is not None else None

    def _fits(self, each: Analysed, group: OpenGroup, fit_into: Fitting = fit) -> Fit | None:
        loads = len(group.loads | {value for value, _ in each.leaves})
        nodes = group.nodes + len(each.nodes)
        if nodes > GROUP_LIMIT:
            group.reasons.append(f"{each.item.name} is apart: there would be {nodes} nodes, of at most {GROUP_LIMIT}")
            return None
        if loads > OPERAND_LIMIT:
            group.reasons.append(
                f"{each.item.name} is apart: {loads} operands would be in registers, of at most {OPERAND_LIMIT}"
            )
            return None
        fitting = fit_into(each, group)
        return fitting if fitting is not None and self._safe(each, group, fitting) else None

    def _safe(self, each: Analysed, group: OpenGroup, fitting: Fit) -> bool:
        """Whether the item and the group access the same memory at one point only, reads before the write."""
        outer = fitting.outer if fitting.outer is not None else group.outer
        own = fitting.level, frozenset(fitting.axes).difference(outer)
        for access in accesses(self.scope, self.collected, Member(each, fitting.axes, fitting.level), group):
            for other in group.touched:
                if other.storage is not access.storage or not (access.stored or other.stored):
                    continue
                same = access.point is not None and access.point == other.point
                stage = other.member.level, frozenset(other.member.axes).difference(outer)
                before = stage[0] < own[0] or (stage[0] == own[0] and stage[1] in (own[1], frozenset()))
                if not access.stored or other.stored or not same or not before:
                    group.reasons.append(f"{each.item.name} is apart: {access.storage.name} is used at other points")
                    return False
        return True

    def _sibling(self, each: Analysed, bound: int) -> Joining | None:
        if not extents_of(each.item):
            return self._scalars(each, bound)
        for group in self._readers(each, bound):
            fitting = self._fits(each, group, fit_sibling)
            if fitting is not None:
                return group, fitting
        return self._total(each, bound) if isinstance(each.item, ReduceItem) else self._same_space(each, bound)

    def _readers(self, each: Analysed, bound: int) -> list[OpenGroup]:
        """Groups that read memory that the item reads too and may still take it, the latest first."""
        reading = {self.latest.readers[value] for value, _ in each.leaves if value in self.latest.readers}
        able = [g for g in reading if g.rank > bound and not g.closed and not g.is_product]
        return sorted(able, key=lambda group: -group.rank)

    def _total(self, each: Analysed, bound: int) -> Joining | None:
        """The group of another total over as many elements, unless memory that nobody else reads would wait for it."""
        group = self.latest.totals.get(extents_of(each.item))
        if group is None or group.rank <= bound or any(self._waits(value) for value, _ in each.leaves):
            return None
        fitting = self._fits(each, group, fit_total)
        return (group, fitting) if fitting is not None else None

    def _waits(self, value: Value) -> bool:
        """Whether a value is in memory of the call that is large and free once its only user has run."""
        size = typical(product(value.tensor.shape)) * value.tensor.machine.size
        return value in self.collected.roots and self.users[value] == 1 and size >= LARGE

    def _same_space(self, each: Analysed, bound: int) -> Joining | None:
        extents = extents_of(each.item)
        group = self.latest.spaces.get(extents)
        if group is None or group.rank <= bound or group.closed or group.folds:
            return None
        if not any(value in group.loads for value, _ in each.leaves):
            return None
        fitting = Fit(tuple(range(len(extents))), 0)
        if group.nodes + len(each.nodes) > GROUP_LIMIT or not self._safe(each, group, fitting):
            return None
        return group, fitting

    def _scalars(self, each: Analysed, bound: int) -> Joining | None:
        """The group of scalar items right behind the group at `bound`, so that scalars never hold arrays apart."""
        group = self.by_rank.get(bound // ROOM * ROOM + FOR_SCALARS)
        if group is None or group.extents or group.rank <= bound or group.nodes + len(each.nodes) > GROUP_LIMIT:
            return None
        fitting = Fit((), 0)
        return (group, fitting) if self._safe(each, group, fitting) else None

    def _open(self, item: Item, bound: int) -> Joining:
        rank = self._new_rank(item, bound)
        group = OpenGroup.opened(rank, item)
        self.groups.append(group)
        self.by_rank[rank] = group
        if isinstance(item, ComputeItem) and self._is_broadcast(item):
            self.latest.broadcasts[self._before_users(item, bound), item.extents] = group
            return group, Fit(tuple(range(len(group.extents))), 0)
        if may_share(item) and not isinstance(item, ReduceItem | ContractItem):
            self.latest.spaces[extents_of(item)] = group
        return group, Fit(tuple(range(len(group.extents))), 0)

    def _new_rank(self, item: Item, bound: int) -> int:
        """Behind everything so far; scalars right behind what they need, if there is room; what is read at many
        points right before the kernels that its users can join."""
        end = len(self.groups) * ROOM
        if isinstance(item, ComputeItem) and self._is_broadcast(item):
            before = self._before_users(item, bound)
            if before == end:
                return end
            first = max(bound + 1, before - ROOM // 2)
            return next(rank for rank in count(first) if rank not in self.by_rank and rank % ROOM != FOR_SCALARS)
        is_scalar = isinstance(item, ComputeItem | CopyItem | StoreItem) and not item.extents
        if not self.scope.fusing or not is_scalar:
            return end
        has_room = (bound + 1) % ROOM != 0
        return bound + 1 if has_room and bound + 1 not in self.by_rank else end


def join(scope: Scope, collected: Collected, items: Sequence[Analysed]) -> list[Group]:
    """Groups in an order of execution."""
    return _Joiner(scope, collected, Dependencies(scope, collected)).run(items)


def accesses(scope: Scope, collected: Collected, member: Member, group: OpenGroup) -> list[Access]:
    """What a member of a group reads and stores of memory that changes."""
    item, axes = member.item, member.axes
    touched: list[Access] = []
    for value, point in member.analysed.leaves:
        if value in group.values:
            continue
        where = renamed(point, axes) if point is not None else None
        touched += [Access(storage, where, False, member) for storage in memory_of(scope, collected, value)]
    if isinstance(item, CopyItem):
        touched.append(Access(item.source.storage, renamed(item.point, axes), False, member))
    if isinstance(item, StoreItem):
        where = _stored_at(item.target, axes)
        touched.append(Access(item.target.view.storage, where, True, member))
    return touched


def _stored_at(target: Target, axes: tuple[int, ...]) -> Point | None:
    """Where a store writes, over group axes; None if an index is computed."""
    index: list[Affine] = []
    for i in target.index:
        if isinstance(i, Selector):
            return None
        index.append(i)
    return renamed(tuple(index), axes)
