"""Memory for values that others read: that of a variable or result they are stored to anyway, else some of their own.

Assumes groups in order. Guarantees that `scope.places` has every value read outside its group, and those read again in
a later stage of the group that are too expensive to compute twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dfc.ir.graph import Value
from dfc.kernels.program import BufferRole
from dfc.lower.fuse.groups.groups import Group
from dfc.lower.fuse.items.collect import Collected
from dfc.lower.fuse.items.items import Item, Kind
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import BufferView, Storage, fresh, place_of

REPEATED = 6  # weight of what a later stage may compute again


Stage = tuple[int, frozenset[int]]  # level and inner axes


@dataclass(slots=True)
class _Readers:
    """Who reads a value from memory."""

    outside: bool = False
    last: tuple[int, int] = (-1, -1)  # key of the last reader in another group
    stages: set[Stage] = field(default_factory=set[Stage])  # other stages of the same group that read it


def settle(scope: Scope, found: Collected, groups: Sequence[Group]) -> set[Value]:
    """Gives places to values; returns those that a STORE item of their group writes (not to be stored twice)."""
    readers = _readers(found, groups)
    writers = _writers(found)
    homed: set[Value] = set()
    lent: set[Storage] = set()
    for group in groups:
        for value, item in reversed(group.values.items()):
            reading = readers.get(value)
            if reading is None:
                continue
            place = _home(group, item, value, reading, writers)
            if place is not None:
                homed.add(value)
            elif reading.outside or _keep(scope, group, item, reading):
                place = _borrowed(group, item, value, reading, lent) or _own(value)
            if place is not None:
                scope.places[value] = place
            if place is None:
                _pass_on(group, item, reading, readers)
    return homed


def _pass_on(group: Group, item: Item, reading: _Readers, readers: dict[Value, _Readers]) -> None:
    """What a later stage computes again it reads again."""
    for value, _ in item.leaves:
        if value in group.values and value in readers:
            own = group.values[value].level, group.inner(group.values[value])
            readers[value].stages |= {stage for stage in reading.stages if stage != own}


def _readers(found: Collected, groups: Sequence[Group]) -> dict[Value, _Readers]:
    readers: dict[Value, _Readers] = {}
    for group in groups:
        for item in group.items:
            for value, point in item.leaves:
                root = found.roots.get(value)
                if root is None or root is item:
                    continue
                reading = readers.setdefault(value, _Readers())
                if value not in group.values or point is None:
                    reading.outside = True
                    reading.last = max(reading.last, item.key)
                elif item.level > root.level or group.inner(item) != group.inner(root):
                    reading.stages.add((item.level, group.inner(item)))
    return readers


def _writers(found: Collected) -> dict[Storage, list[tuple[int, int]]]:
    writers: dict[Storage, list[tuple[int, int]]] = {}
    for item in found.items:
        for storage in item.writes:
            writers.setdefault(storage, []).append(item.key)
    return writers


def _home(
    group: Group, item: Item, value: Value, reading: _Readers, writers: dict[Storage, list[tuple[int, int]]]
) -> BufferView | None:
    """Memory that a store of the same group fills with the value, if it stays so until the last reader."""
    for store in group.items:
        target = store.target
        if target is None or store.value is not value or not target.whole or target.place.shape != value.tensor.shape:
            continue
        if target.mode != ":=" or not _same_point(store, item):
            continue
        if any(level <= store.level for level, _ in reading.stages):
            continue
        later = (key for key in writers[target.place.storage] if key > store.key)
        overwritten = min(later, default=None)
        if overwritten is None or reading.last < overwritten:
            return target.place
    return None


def _same_point(store: Item, item: Item) -> bool:
    """Whether element i of the value is stored at i."""
    assert store.target is not None
    return store.point == store.target.index and len(store.point) == len(item.result_point)


def _keep(scope: Scope, group: Group, item: Item, reading: _Readers) -> bool:
    """Whether later stages should read the value back: it is expensive, or what it reads has changed by then."""
    if item.kind is not Kind.VALUE or not reading.stages:
        return False
    if item.weight > REPEATED or item.source is not None:
        return True
    places = (scope.place(value) for value, _ in item.leaves)  # those of earlier groups are settled
    read = item.reads.union(place.storage for place in places if place is not None)
    return any(access.stored and access.storage in read for access in group.touched)


def _own(value: Value) -> BufferView:
    return place_of(fresh(value.tensor.machine, value.tensor.shape, value.name))


def _borrowed(group: Group, item: Item, value: Value, reading: _Readers, lent: set[Storage]) -> BufferView | None:
    """For a value that only later stages read back: the memory of a result that one of them, or a later one, writes."""
    if reading.outside or not group.inner(item):
        return None
    for store in group.items:
        target = store.target
        if target is None or not target.whole or target.place.storage.role is not BufferRole.RESULT:
            continue
        place = target.place
        fits = place.shape == value.tensor.shape and place.dtype == value.tensor.machine and place.storage not in lent
        unread = all(access.stored for access in group.touched if access.storage is place.storage)
        last = store.level, group.inner(store)
        late = any(stage[0] > last[0] or (stage[0] == last[0] and stage != last) for stage in reading.stages)
        if fits and unread and store.axes == item.axes and not late:
            lent.add(place.storage)
            return place
    return None
