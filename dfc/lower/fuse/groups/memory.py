"""Memory for values that others read: that of a variable or result they are stored to anyway, else some of their own.

Assumes groups in order. Guarantees that `scope.views` has every value read outside its group, and those read again in
a later stage of the group that are too expensive to compute twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.ir.graph import Value
from dfc.kernels.program import BufferRole
from dfc.lower.fuse.groups.groups import Group, KernelGroup, StepGroup, inner_axes
from dfc.lower.fuse.items.collect import Collected
from dfc.lower.fuse.items.cost import stage_decision
from dfc.lower.fuse.items.items import (
    ComputeItem,
    CopyItem,
    Item,
    Member,
    StepItem,
    StoreItem,
    result_point,
    writes_of,
)
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import BufferView, Storage, fresh, whole_view

NEVER_READ = -(1 << 62)


Stage = tuple[int, frozenset[int]]  # level and inner axes
Writers = Mapping[Storage, Sequence[int]]
"""The positions in the order of the program at which memory is written, ascending."""


@dataclass(slots=True)
class _Readers:
    """Who reads a value from memory."""

    outside: bool = False
    last: int = NEVER_READ  # order of the last reader in another group
    stages: set[Stage] = field(default_factory=set[Stage])  # other stages of the same group that read it


def assign_memory(scope: Scope, collected: Collected, groups: Sequence[Group]) -> set[Value]:
    """Gives memory to values; returns those that a store of their group writes (not to be stored twice)."""
    readers = _readers(collected, groups)
    writers = _writers(groups)
    stored: set[Value] = set()
    lent: set[Storage] = set()
    for group in groups:
        if isinstance(group, StepGroup):
            continue
        for value, member in reversed(list(group.values.items())):
            reading = readers.get(value)
            if reading is None:
                continue
            view = _stored_in(group, member, value, reading, writers)
            if view is not None:
                stored.add(value)
            elif reading.outside or _keep(scope, collected, group, member, reading):
                view = _borrowed(group, member, value, reading, lent) or _own(value)
            if view is not None:
                scope.views[value] = view
            if view is None:
                _pass_on(group, member, reading, readers)
    return stored


def _stage(group: KernelGroup, member: Member) -> Stage:
    return member.level, inner_axes(group, member)


def _pass_on(group: KernelGroup, member: Member, reading: _Readers, readers: dict[Value, _Readers]) -> None:
    """What a later stage computes again it reads again."""
    for value, _ in member.analysed.leaves:
        if value in group.values and value in readers:
            own = _stage(group, group.values[value])
            readers[value].stages |= {stage for stage in reading.stages if stage != own}


def _readers(collected: Collected, groups: Sequence[Group]) -> dict[Value, _Readers]:
    readers: dict[Value, _Readers] = {}
    for group in groups:
        for member in group.members:
            for value, point in member.analysed.leaves:
                root = collected.roots.get(value)
                if root is None or root is member.item:
                    continue
                reading = readers.setdefault(value, _Readers())
                source = None if isinstance(group, StepGroup) else group.values.get(value)
                if source is None or point is None or isinstance(group, StepGroup):
                    reading.outside = True
                    reading.last = max(reading.last, member.analysed.order)
                    continue
                own, stage = _stage(group, source), _stage(group, member)
                if stage[0] > own[0] or stage[1] != own[1]:
                    reading.stages.add(stage)
    return readers


def _writers(groups: Sequence[Group]) -> Writers:
    writers: dict[Storage, list[int]] = {}
    for group in groups:
        for member in group.members:
            for storage in writes_of(member.item):
                writers.setdefault(storage, []).append(member.analysed.order)
    return {storage: sorted(orders) for storage, orders in writers.items()}


def _stored_in(
    group: KernelGroup, member: Member, value: Value, reading: _Readers, writers: Writers
) -> BufferView | None:
    """Memory that a store of the same group fills with the value, if it stays so until the last reader."""
    for other in group.members:
        store = other.item
        if not isinstance(store, StoreItem):
            continue
        target = store.target
        if store.value is not value or not target.whole or target.view.shape != value.tensor.shape:
            continue
        if target.mode != ":=" or not _same_point(store, member.item):
            continue
        if any(level <= other.level for level, _ in reading.stages):
            continue
        orders = writers[target.view.storage]
        later = bisect_right(orders, other.analysed.order)
        if later == len(orders) or reading.last < orders[later]:
            return target.view
    return None


def _same_point(store: StoreItem, item: Item) -> bool:
    """Whether element i of the value is stored at i."""
    assert not isinstance(item, StoreItem | StepItem)
    return store.point == store.target.index and len(store.point) == len(result_point(item))


def _keep(scope: Scope, collected: Collected, group: KernelGroup, member: Member, reading: _Readers) -> bool:
    """Whether later stages should read the value back: it is expensive, or what it reads has changed by then."""
    if isinstance(member.item, CopyItem) or not reading.stages:
        return bool(reading.stages)
    if not isinstance(member.item, ComputeItem):
        return False
    decision = stage_decision(member.item.result, member.analysed.weight, len(reading.stages))
    collected.read_back[member.item.result] = decision
    if decision.keeps:
        return True
    views = (scope.view_of(value) for value, _ in member.analysed.leaves)  # those of earlier groups are known
    read = member.analysed.reads.union(view.storage for view in views if view is not None)
    return any(access.stored and access.storage in read for access in group.touched)


def _own(value: Value) -> BufferView:
    return whole_view(fresh(value.tensor.machine, value.tensor.shape, value.name))


def _borrowed(
    group: KernelGroup, member: Member, value: Value, reading: _Readers, lent: set[Storage]
) -> BufferView | None:
    """For a value that only later stages read back: the memory of a result that one of them, or a later one, writes."""
    if reading.outside or not inner_axes(group, member):
        return None
    for other in group.members:
        store = other.item
        if not isinstance(store, StoreItem) or not store.target.whole:
            continue
        view = store.target.view
        if view.storage.role is not BufferRole.RESULT:
            continue
        fits = view.shape == value.tensor.shape and view.dtype == value.tensor.machine and view.storage not in lent
        unread = all(access.stored for access in group.touched if access.storage is view.storage)
        last = _stage(group, other)
        late = any(stage[0] > last[0] or (stage[0] == last[0] and stage != last) for stage in reading.stages)
        if fits and unread and other.axes == member.axes and not late:
            lent.add(view.storage)
            return view
    return None
