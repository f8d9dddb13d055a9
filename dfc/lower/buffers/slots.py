"""Colouring of lifetimes into slots of the arena; sizes are formulas of the entry's dimensions.

A slot is as large as the largest of its members and starts at a multiple of 64 bytes. Two ways are tried, and the
smaller arena is taken; sizes that only the call knows count as 64 in this. In the order of time a storage takes the
slot of one that just died: of the same size if there is one, else the closest of comparable size, else any. In the
order of size the large ones come first, and each takes the first slot that is free while it lives: nothing small keeps
a large one from its slot, and no slot grows. Where both leave much of the arena unused, storages are packed without
slots (`packing`). What belongs to one of several branches that may run at
the same time takes slots of that branch first, each of which then counts as one storage that lives as long as all do.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ZERO, Dim, Symbol, ceil_divide, dim, maximum
from dfc.ir.measured import upper_elements
from dfc.lower.buffers.liveness import Branch, Life, Lifetimes
from dfc.lower.buffers.packing import ALIGNMENT, pack
from dfc.lower.storage import Storage, typical

SEARCHED = 32  # free slots that are compared with a storage of another size
NO_BOUNDS: Mapping[Symbol, Dim] = {}
MOST_BY_SIZE = 2000
"""Storages that are planned in the order of size, too: the time for that grows with the square of their number."""
MOST_PACKED = 600
"""Storages that are packed: half a second for so many that all live at one time."""
PACKING_THRESHOLD = 1.05
"""How much larger an arena of slots may be than one of offsets that are formulas of their own."""


@dataclass(slots=True)
class Slot:
    size: Dim
    number: int


@dataclass(slots=True)
class Arena:
    """Where each storage is, and how large the arena and its largest live set are."""

    offsets: dict[Storage, Dim]
    size: Dim
    largest_live: Dim
    peak_names: tuple[str, ...]


def byte_size(storage: Storage, most: Mapping[Symbol, Dim] = NO_BOUNDS) -> Dim:
    """The bytes of a storage; `most` says how large the sizes can be that only the run finds out."""
    return upper_elements(storage.shape, most) * storage.dtype.size


def aligned(size: Dim) -> Dim:
    return ceil_divide(size, dim(ALIGNMENT)) * ALIGNMENT


def plan(lifetimes: Lifetimes, heirs: Mapping[Storage, Storage], most: Mapping[Symbol, Dim] = NO_BOUNDS) -> Arena:
    """Offsets for all storages. `heirs` says which storage is written in place over which dying one."""
    lives = lifetimes.lives
    sizes = {storage: byte_size(storage, most) for storage in lives}
    roots = _roots(lives, heirs)
    tenants: dict[Storage, Life] = {}
    for storage, root in roots.items():
        life, joint = lives[storage], tenants.get(root)
        first, last = (life.first, life.last) if joint is None else (joint.first, max(joint.last, life.last))
        tenants[root] = Life(first, last, ())
    leaders = _in_branches(lifetimes, tenants, sizes)
    roots = {storage: leaders.get(root, root) for storage, root in roots.items()}
    starts, size = _starts(tenants, sizes)
    offsets = {storage: starts[root] for storage, root in roots.items()}
    return Arena(offsets, size, *_peak(tenants, sizes))


def _starts(tenants: Mapping[Storage, Life], sizes: Mapping[Storage, Dim]) -> tuple[dict[Storage, Dim], Dim]:
    """Where each storage begins and all end: in slots, or packed where that saves what is worth longer formulas."""
    slots = _slots(tenants, sizes)
    size = ZERO
    starts: dict[int, Dim] = {}
    for slot in {slot.number: slot for slot in slots.values()}.values():
        starts[slot.number] = size
        size = size + aligned(slot.size)
    if len(tenants) <= MOST_PACKED and typical(size) > typical(_peak(tenants, sizes)[0]) * PACKING_THRESHOLD:
        packed = pack(tenants, sizes)
        if packed is not None and typical(size) > typical(packed[1]) * PACKING_THRESHOLD:
            return packed
    return {storage: starts[slot.number] for storage, slot in slots.items()}, size


def _slots(tenants: Mapping[Storage, Life], sizes: Mapping[Storage, Dim]) -> dict[Storage, Slot]:
    """The better one of two ways."""
    slots = _in_time(tenants, sizes)
    if len(tenants) <= MOST_BY_SIZE and not _is_least(slots, tenants, sizes):
        slots = min(slots, _by_size(tenants, sizes), key=_total)
    return slots


def _in_branches(
    lifetimes: Lifetimes, tenants: dict[Storage, Life], sizes: dict[Storage, Dim]
) -> dict[Storage, Storage]:
    """Puts those that belong to a branch together; whom each that is no tenant any more shares its memory with."""
    owned: dict[Branch, dict[Storage, Life]] = {}
    for storage, life in tenants.items():
        if storage in lifetimes.owners:
            owned.setdefault(lifetimes.owners[storage], {})[storage] = life
    leaders: dict[Storage, Storage] = {}
    for (parallel, _), members in owned.items():
        first: dict[int, Storage] = {}
        for storage, slot in _slots(members, sizes).items():
            leader = first.setdefault(slot.number, storage)
            if leader is not storage:
                leaders[storage] = leader
                del tenants[storage]
            tenants[leader] = Life(*lifetimes.spans[parallel], ())
            sizes[leader] = slot.size
    return leaders


def _roots(lives: Mapping[Storage, Life], heirs: Mapping[Storage, Storage]) -> dict[Storage, Storage]:
    """For each storage the first one of its chain of in-place writes, in the order of time."""
    roots: dict[Storage, Storage] = {}
    for storage in sorted(lives, key=lambda s: lives[s].first):
        before = heirs.get(storage)
        roots[storage] = storage if before is None else roots[before]
    return roots


def _in_time(tenants: Mapping[Storage, Life], sizes: Mapping[Storage, Dim]) -> dict[Storage, Slot]:
    taken: dict[Storage, Slot] = {}
    free: list[Slot] = []
    dying: list[tuple[int, int, Slot]] = []
    count = 0
    for storage in sorted(tenants, key=lambda s: (tenants[s].first, -tenants[s].last)):
        life, size = tenants[storage], sizes[storage]
        while dying and dying[0][0] < life.first:
            free.append(heappop(dying)[2])
        slot = _reuse(size, free)
        if slot is None:
            slot = Slot(size, count)
            count += 1
        slot.size = maximum(slot.size, size)
        taken[storage] = slot
        heappush(dying, (life.last, slot.number, slot))
    return taken


def _by_size(tenants: Mapping[Storage, Life], sizes: Mapping[Storage, Dim]) -> dict[Storage, Slot]:
    taken: dict[Storage, Slot] = {}
    slots: list[tuple[Slot, list[tuple[int, int]]]] = []
    for storage in sorted(tenants, key=lambda s: (-typical(sizes[s]), tenants[s].first)):
        life, size = tenants[storage], sizes[storage]
        fitting = next((each for each in slots if _is_free(each[1], life)), None)
        if fitting is None:
            fitting = Slot(size, len(slots)), list[tuple[int, int]]()
            slots.append(fitting)
        slot, lives = fitting
        slot.size = maximum(slot.size, size)
        insort(lives, (life.first, life.last))
        taken[storage] = slot
    return taken


def _is_free(lives: Sequence[tuple[int, int]], life: Life) -> bool:
    """Whether nothing of these lives, which are apart and in order, lives at the same time."""
    following = bisect_left(lives, (life.first, life.first))
    if following < len(lives) and lives[following][0] <= life.last:
        return False
    return not following or lives[following - 1][1] < life.first


def _is_least(slots: Mapping[Storage, Slot], tenants: Mapping[Storage, Life], sizes: Mapping[Storage, Dim]) -> bool:
    """Whether no arena can be smaller: this one has room for what lives at one time, and for nothing else."""
    return _total(slots) <= typical(_peak(tenants, sizes)[0])


def _total(slots: Mapping[Storage, Slot]) -> int:
    """Bytes of an arena of these slots, with typical sizes."""
    return sum(typical(aligned(slot.size)) for slot in {slot.number: slot for slot in slots.values()}.values())


def _reuse(size: Dim, free: list[Slot]) -> Slot | None:
    """Takes the free slot that fits best out of the last ones that became free."""
    best: tuple[int, int] | None = None
    target_size = typical(size)
    for position in range(len(free) - 1, max(-1, len(free) - 1 - SEARCHED), -1):
        distance = abs(typical(free[position].size) - target_size)
        if best is None or distance < best[0]:
            best = distance, position
        if distance == 0:
            break
    return None if best is None else free.pop(best[1])


def _peak(tenants: Mapping[Storage, Life], sizes: Mapping[Storage, Dim]) -> tuple[Dim, tuple[str, ...]]:
    """The largest sum of sizes that are alive at one time, and whose they are."""
    changes: dict[int, int] = {}
    for storage, life in tenants.items():
        amount = typical(sizes[storage])
        changes[life.first] = changes.get(life.first, 0) + amount
        changes[life.last + 1] = changes.get(life.last + 1, 0) - amount
    level = highest = 0
    peak = -1
    for time in sorted(changes):
        level += changes[time]
        if level > highest:
            highest, peak = level, time
    alive = [storage for storage, life in tenants.items() if life.first <= peak <= life.last]
    total = ZERO
    for storage in alive:
        total = total + sizes[storage]
    return total, tuple(storage.name for storage in alive)
