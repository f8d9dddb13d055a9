"""locks: where an entry holds locks on a program's own state, beside calls that only read it.

    launch 0 ..                                   launch 0 ..
    launch 1 writes w                             locked default alone:
    launch 2 ..                         ->          launch 1 writes w
    launch 3 writes b                               launch 2 ..
    launch 4 ..                                     launch 3 writes b
                                                  launch 4 ..

An entry that changes what a readonly one reads holds the lock from its first such write to its last, so that a readonly
call sees all of them or none. A readonly entry shares the locks of what it reads from start to end.

Assumes scheduled steps, and that the run side lets nothing run beside an entry that saves or restores.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.kernels.form import Kernel
from dfc.kernels.program import (
    DEFAULT_CONTAINER,
    Copy,
    EntryProgram,
    EntrySignature,
    Launch,
    Locked,
    Program,
    Role,
    Step,
    lock_order,
    walk,
)

NAME = "locks"


def lock(program: Program) -> None:
    """Puts locks around the steps of every entry that needs any."""
    readers = [each for each in program.signatures if each.readonly and not each.is_test]
    seen = {name for each in readers for name in each.resources_read}
    own = {name for name in seen if program.resources[name].container == DEFAULT_CONTAINER}
    for entry, signature in zip(program.entries, program.signatures, strict=True):
        if not signature.is_test:
            entry.steps = _locked(program, entry, signature, own)


def _locked(program: Program, entry: EntryProgram, signature: EntrySignature, seen: set[str]) -> tuple[Step, ...]:
    if signature.readonly:
        containers = lock_order(program.resources[name].container for name in signature.resources_read)
        return (Locked(containers, False, entry.steps),) if containers else entry.steps
    watched = seen.intersection(signature.resources_written)
    if signature.concurrent or not watched:
        return entry.steps
    return _from_first_to_last(entry, program.kernels, watched)


def _from_first_to_last(entry: EntryProgram, kernels: Sequence[Kernel], watched: set[str]) -> tuple[Step, ...]:
    """The steps with the writes of watched state, and what is between them, under one lock."""
    steps = entry.steps
    writes = [number for number, step in enumerate(steps) if _writes(step, entry, kernels, watched)]
    if not writes:
        return steps
    first, last = writes[0], writes[-1] + 1
    return (*steps[:first], Locked((DEFAULT_CONTAINER,), True, steps[first:last]), *steps[last:])


def _writes(step: Step, entry: EntryProgram, kernels: Sequence[Kernel], watched: set[str]) -> bool:
    """Whether a step, or one inside it, writes watched state."""
    written: list[int] = []
    for each in walk([step]):
        if isinstance(each, Copy):
            written.append(each.target)
        elif isinstance(each, Launch):
            pairs = zip(each.buffers, kernels[each.kernel].operands, strict=True)
            written += [buffer for buffer, operand in pairs if operand.access != "read"]
    buffers = [entry.buffers[number] for number in written]
    return any(buffer.role is Role.RESOURCE and buffer.resource in watched for buffer in buffers)
