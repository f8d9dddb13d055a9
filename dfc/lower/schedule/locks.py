"""locks: where an entry holds locks on a program's own state, against concurrent readers.

    launch 0 ..                                   launch 0 ..
    launch 1 writes w                             locked default alone:
    launch 2 ..                         ->          launch 1 writes w
    launch 3 writes b                               launch 2 ..
    launch 4 ..                                     launch 3 writes b
                                                  launch 4 ..

An entry that changes what a readonly one reads holds the lock from its first such write to its last, so that a readonly
call sees all of them or none. A readonly entry shares the locks of what it reads from start to end. Variables that no
entry changes together have different locks: two entries that run at the same time, each with variables of its own,
do not wait for each other because a third one reads both. Nothing waits for a
queue while it holds a lock: there the lock is given back, and a readonly call may see what was written until then.

Assumes scheduled steps, and that the run side runs nothing concurrently with an entry that saves or restores.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from dfc.ir.graph import ResourceKind
from dfc.kernels.program import OWN_LOCK, BufferRole, EntrySignature, Program, is_own_lock, lock_order
from dfc.lower.schedule.unallocated import (
    UnallocatedCopy,
    UnallocatedHostCall,
    UnallocatedLaunch,
    UnallocatedLocked,
    UnallocatedStep,
    walk,
)
from dfc.lower.storage import BufferView
from dfc.ops.effects.mutexes import ACQUIRE, RELEASE
from dfc.ops.effects.queues import PUT, TAKES

NAME = "locks"


MOST_OWN_LOCKS = 8
"""A readonly call takes those of all it reads, some 20 nanoseconds each: what is more shares the last one."""
_WRITES_ALL = frozenset({"init"})


def own_locks(tables: Program) -> dict[str, str]:
    """The locks of a program's own variables that readonly entries see, but for those that have the first one: one lock
    for variables that some entry changes in one call. What `init` changes does not count: it takes all of them."""
    writers = [each for each in tables.signatures if not (each.readonly or each.is_test or each.name in _WRITES_ALL)]
    groups: list[set[str]] = []
    watched = _watched(tables)
    for each in writers:
        together = watched.intersection(each.resources_written) if not each.concurrent else set[str]()
        apart = [group for group in groups if group.isdisjoint(together)]
        merged = together.union(*(group for group in groups if not group.isdisjoint(together)))
        groups = [*apart, merged] if merged else apart
    groups.sort(key=min)
    numbered = {name: min(number, MOST_OWN_LOCKS - 1) for number, group in enumerate(groups) for name in group}
    return {name: f"{OWN_LOCK}{number}" for name, number in sorted(numbered.items()) if number}


def _watched(tables: Program) -> set[str]:
    """The program's own variables that readonly entries read."""
    readers = [each for each in tables.signatures if each.readonly and not each.is_test]
    seen = {name for each in readers for name in each.resources_read}
    resources = tables.resources
    return {n for n in seen if is_own_lock(tables.lock_of(n)) and resources[n].kind is not ResourceKind.QUEUE}


def lock(tables: Program, entries: Sequence[list[UnallocatedStep]]) -> list[list[UnallocatedStep]]:
    """The steps of every entry, with locks around those that need any; `tables` has signatures and state."""
    own = _watched(tables)
    pairs = zip(entries, tables.signatures, strict=True)
    return [steps if each.is_test else _locked(tables, steps, each, own) for steps, each in pairs]


def _locked(
    tables: Program, steps: list[UnallocatedStep], signature: EntrySignature, seen: set[str]
) -> list[UnallocatedStep]:
    if signature.readonly:
        containers = lock_order(tables.lock_of(name) for name in signature.resources_read)
        return [UnallocatedLocked(containers, False, steps)] if containers else steps
    watched = seen.intersection(signature.resources_written)
    if signature.concurrent or not watched:
        return steps
    return _from_first_to_last(tables, steps, watched)


def _from_first_to_last(tables: Program, steps: list[UnallocatedStep], watched: set[str]) -> list[UnallocatedStep]:
    """The steps with the writes of watched state, and what is between them, under one lock, which is not held where
    the entry uses a queue."""
    locked: list[UnallocatedStep] = []
    for uses_queue, run in groupby(steps, lambda step: _uses_queue(tables, step)):
        part = list(run)
        writes = [number for number, step in enumerate(part) if _writes(step, watched)]
        if uses_queue or not writes:
            locked += part
            continue
        first, last = writes[0], writes[-1] + 1
        inner = UnallocatedLocked(lock_order(map(tables.lock_of, watched)), True, part[first:last])
        locked += [*part[:first], inner, *part[last:]]
    return locked


def _uses_queue(tables: Program, step: UnallocatedStep) -> bool:
    """Whether a step, or one inside it, may wait for a queue or a mutex, or lets others in."""
    sites = [tables.sites[each.site] for each in walk([step]) if isinstance(each, UnallocatedHostCall)]
    return any(site.kind in (PUT, *TAKES, ACQUIRE, RELEASE) for site in sites)


def _writes(step: UnallocatedStep, watched: set[str]) -> bool:
    """Whether a step, or one inside it, writes watched state."""
    written: list[BufferView] = []
    for each in walk([step]):
        if isinstance(each, UnallocatedCopy):
            written.append(each.target)
        elif isinstance(each, UnallocatedLaunch):
            pairs = zip(each.views, each.kernel.operands, strict=True)
            written += [view for view, operand in pairs if operand.access != "read"]
    storages = [view.storage for view in written]
    return any(storage.role is BufferRole.RESOURCE and storage.resource in watched for storage in storages)
