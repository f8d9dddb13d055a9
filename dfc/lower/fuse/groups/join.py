"""Items join into groups.

In program order, an item joins the last group it depends on if it reads that group's values at its own point: element-
wise after element-wise, a reduction after what it folds, row-wise consumers after a reduction, element-wise after a
product. Else it may join a group over the same index space that reads the same memory (siblings; scalars always). Else
it opens a group.

Ranks are integers and an order of execution, because a group only takes items all of whose dependencies are in groups
of no higher rank; no search for cycles is needed. There is room between the ranks of two groups for scalars that have
to come between them. Dependencies are values, memory that is overwritten (read before write before read), and failure
before effects. Where an entry finds out sizes, what comes after such a step, or after a check, runs after it: its
memory and its loops may be of that size.
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
from dfc.kernels.program import BufferRole
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
    StepItem,
    StoreItem,
    Target,
    extents_of,
    writes_of,
)
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import Storage, typical
from dfc.ops.lowering.index_maps import Point, renamed

Joining = tuple[OpenGroup, Fit]
Fitting = Callable[[Analysed, OpenGroup], Fit | None]
GROUP_LIMIT = 256  # nodes in a kernel
OPERAND_LIMIT = 24  # memory operands of a kernel, each of which takes a register
LARGE = 1 << 15  # bytes that are worth a launch of their own, rather than that others stay in memory beside them
ROOM = 1 << 20  # ranks between a group and the next one: for scalars, and for what is read at many points
FOR_SCALARS = 1
"""The rank behind a multiple of `ROOM` that scalars alone may have: they run at one point, once."""
BEFORE_ALL = -ROOM


@dataclass(slots=True)
class _Joiner:
    scope: Scope
    collected: Collected
    groups: list[OpenGroup] = field(default_factory=list[OpenGroup])
    by_rank: dict[int, OpenGroup] = field(default_factory=dict[int, OpenGroup])
    rank_of: dict[Item, int] = field(default_factory=dict["Item", int])
    written: dict[Storage, int] = field(default_factory=dict[Storage, int])
    read: dict[Storage, int] = field(default_factory=dict[Storage, int])
    spaces: dict[tuple[Dim, ...], OpenGroup] = field(default_factory=dict[tuple[Dim, ...], OpenGroup])
    readers: dict[Value, OpenGroup] = field(default_factory=dict[Value, OpenGroup])
    totals: dict[tuple[Dim, ...], OpenGroup] = field(default_factory=dict[tuple[Dim, ...], OpenGroup])
    read_through: dict[Storage, dict[Value, int]] = field(default_factory=dict[Storage, "dict[Value, int]"])
    broadcasts: dict[tuple[int, tuple[Dim, ...]], OpenGroup] = field(
        default_factory=dict["tuple[int, tuple[Dim, ...]]", OpenGroup]
    )
    users_of: dict[Value, list[Analysed]] = field(default_factory=dict[Value, list[Analysed]])
    users: Counter[Value] = field(default_factory=Counter[Value])
    check: int = BEFORE_ALL
    failing: int = BEFORE_ALL
    barrier: int = BEFORE_ALL

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
        item, bound = each.item, self._bound(each)
        chosen = self._choose(each, bound)
        group, fitting = chosen if chosen is not None else self._open(item, bound)
        if group.members and item.name:
            group.reasons.append(f"{item.name} {self._why(each, group)}")
        member = group.add(each, fitting)
        group.touched += accesses(self.scope, self.collected, member, group)
        self.readers.update((value, group) for value, point in each.leaves if point is not None)
        if isinstance(item, ReduceItem) and not group.outer:
            self.totals[item.extents] = group
        self._note(each, group.rank)

    def _why(self, each: Analysed, group: OpenGroup) -> str:
        """Why an item is in the group that it joined."""
        used = next((value.name for value, _ in each.leaves if value in group.values), "")
        if used:
            return f"uses {used} at the same point"
        shared = next((value.name for value, _ in each.leaves if value in group.loads), "")
        return f"reads {shared} as well" if shared else "is computed beside them"

    def _bound(self, each: Analysed) -> int:
        """The highest rank that the item must not run before."""
        item, bound = each.item, self.barrier
        for value, _ in each.leaves:
            root = self.collected.roots.get(value)
            if root is not None and root is not item:
                bound = max(bound, self.rank_of[root])
        for storage in each.reads:
            bound = max(bound, self.written.get(storage, BEFORE_ALL))
        own = _stored_value(item)
        for storage in writes_of(item):
            bound = max(bound, self.written.get(storage, BEFORE_ALL), self.read.get(storage, BEFORE_ALL))
            through = self.read_through.get(storage, {})
            bound = max([bound, *(rank for value, rank in through.items() if value is not own)])
        if each.faults:
            bound = max(bound, self.check)
        changes_state = any(storage.role is BufferRole.RESOURCE for storage in writes_of(item))
        if isinstance(item, StepItem) or changes_state:
            bound = max(bound, self.check, self.failing)
        return bound

    def _note(self, each: Analysed, rank: int) -> None:
        item = each.item
        self.rank_of[item] = rank
        for storage in each.reads:
            self.read[storage] = max(self.read.get(storage, BEFORE_ALL), rank)
        for value, _ in each.leaves:
            for storage in self.collected.stored.get(value, ()):
                through = self.read_through.setdefault(storage, {})
                through[value] = max(through.get(value, BEFORE_ALL), rank)
        own = _stored_value(item)
        for storage in writes_of(item):
            self.written[storage] = max(self.written.get(storage, BEFORE_ALL), rank)
            through = self.read_through.get(storage, {})
            self.read_through[storage] = {value: r for value, r in through.items() if value is own}
        if isinstance(item, StepItem):
            self.check = max(self.check, rank)
            if self.scope.measures and item.node.op in ("range", "assert"):
                self.barrier = rank
        elif each.faults:
            self.failing = max(self.failing, rank)

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
        users = [self._bound_without(each, item) for each in self.users_of.get(item.result, ())]
        return min((rank for rank in users if rank > bound), default=end)

    def _bound_without(self, each: Analysed, item: ComputeItem) -> int:
        """The highest rank among what an item reads, as far as it is known, without the result of another one."""
        roots = (self.collected.roots.get(value) for value, _ in each.leaves)
        return max(
            (self.rank_of.get(root, BEFORE_ALL) for root in roots if root is not None and root != item),
            default=BEFORE_ALL,
        )

    def _same_broadcast(self, each: Analysed, bound: int) -> Joining | None:
        """The group of other values that are read at many points, of the same shape and by the same users. Another
        sibling may come late, and what reads the value would come later still, apart from what it belongs to."""
        assert isinstance(each.item, ComputeItem)
        group = self.broadcasts.get((self._before_users(each.item, bound), each.item.extents))
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
        reading = {self.readers[value] for value, _ in each.leaves if value in self.readers}
        able = [g for g in reading if g.rank > bound and not g.closed and not g.is_product]
        return sorted(able, key=lambda group: -group.rank)

    def _total(self, each: Analysed, bound: int) -> Joining | None:
        """The group of another total over as many elements, unless memory that nobody else reads would wait for it."""
        group = self.totals.get(extents_of(each.item))
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
        group = self.spaces.get(extents)
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
            self.broadcasts[self._before_users(item, bound), item.extents] = group
            return group, Fit(tuple(range(len(group.extents))), 0)
        if may_share(item) and not isinstance(item, ReduceItem | ContractItem):
            self.spaces[extents_of(item)] = group
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
    return _Joiner(scope, collected).run(items)


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


def _stored_value(item: Item) -> Value | None:
    """The value of the store that an item is, or makes under a lock."""
    store = item.store if isinstance(item, StepItem) else item
    return store.value if isinstance(store, StoreItem) else None


def _stored_at(target: Target, axes: tuple[int, ...]) -> Point | None:
    """Where a store writes, over group axes; None if an index is computed."""
    index: list[Affine] = []
    for i in target.index:
        if isinstance(i, Selector):
            return None
        index.append(i)
    return renamed(tuple(index), axes)
