"""locks: where an entry holds locks on a program's own state, against concurrent readers.

    launch 0 ..                                   launch 0 ..
    launch 1 writes w                             locked default alone:
    launch 2 ..                         ->          launch 1 writes w
    launch 3 writes b                               launch 2 ..
    launch 4 ..                                     launch 3 writes b
                                                  launch 4 ..

An entry that changes what a readonly one reads holds the lock from its first such write to its last, so that a readonly
call sees all of them or none. A readonly entry shares the locks of what it reads from start to end.

Assumes scheduled steps, and that the run side runs nothing concurrently with an entry that saves or restores.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.kernels.program import DEFAULT_CONTAINER, BufferRole, EntrySignature, Program, lock_order
from dfc.lower.schedule.unallocated import UnallocatedCopy, UnallocatedLaunch, UnallocatedLocked, UnallocatedStep, walk
from dfc.lower.storage import BufferView

NAME = "locks"


def lock(tables: Program, entries: Sequence[list[UnallocatedStep]]) -> list[list[UnallocatedStep]]:
    """The steps of every entry, with locks around those that need any; `tables` has signatures and state."""
    readers = [each for each in tables.signatures if each.readonly and not each.is_test]
    seen = {name for each in readers for name in each.resources_read}
    own = {name for name in seen if tables.resources[name].container == DEFAULT_CONTAINER}
    pairs = zip(entries, tables.signatures, strict=True)
    return [steps if each.is_test else _locked(tables, steps, each, own) for steps, each in pairs]


def _locked(
    tables: Program, steps: list[UnallocatedStep], signature: EntrySignature, seen: set[str]
) -> list[UnallocatedStep]:
    if signature.readonly:
        containers = lock_order(tables.resources[name].container for name in signature.resources_read)
        return [UnallocatedLocked(containers, False, steps)] if containers else steps
    watched = seen.intersection(signature.resources_written)
    if signature.concurrent or not watched:
        return steps
    return _from_first_to_last(steps, watched)


def _from_first_to_last(steps: list[UnallocatedStep], watched: set[str]) -> list[UnallocatedStep]:
    """The steps with the writes of watched state, and what is between them, under one lock."""
    writes = [number for number, step in enumerate(steps) if _writes(step, watched)]
    if not writes:
        return steps
    first, last = writes[0], writes[-1] + 1
    return [*steps[:first], UnallocatedLocked((DEFAULT_CONTAINER,), True, steps[first:last]), *steps[last:]]


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
