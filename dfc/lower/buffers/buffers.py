"""buffers: arena storages get offsets, steps over views of them become those of a program over buffers.

Before: launches over storages `h`, `z`, `p` of sizes 4*B*100, 4*B*10, 4*B*10.
After: buffers at offsets in one arena; `p` lies over `h` if `h` is dead by then, over `z` if written in place.

Assumes scheduled steps, which it takes over: a launch that writes in place is changed. Guarantees that storages whose
lives overlap do not overlap in memory, except where a kernel writes one in place of another that it reads at the same
point for the last time (then the kernel has one slot for both).
"""

from __future__ import annotations

from dataclasses import replace

from dfc.kernels.program import EntryProgram, Program
from dfc.lower.buffers.finish import Buffers, Finisher
from dfc.lower.buffers.inplace import share
from dfc.lower.buffers.liveness import lifetimes
from dfc.lower.buffers.offsets import bind_offsets
from dfc.lower.buffers.slots import plan
from dfc.lower.schedule.schedule import Scheduled, ScheduledEntry


def assign_buffers(scheduled: Scheduled, *, in_place: bool = True) -> Program:
    """The program of scheduled steps; with `in_place` off nothing is written over what its kernel reads."""
    program = replace(scheduled.tables, kernels=[], entries=[])
    finisher = Finisher(program, in_place)
    program.entries = [_entry(finisher, each) for each in scheduled.entries]
    bind_offsets(program)
    return program


def _entry(finisher: Finisher, scheduled: ScheduledEntry) -> EntryProgram:
    """Plans the memory of an entry and numbers its buffers and kernels. Memory is planned for the largest values of
    the sizes that the entry finds out itself."""
    entry, steps, measured = scheduled.entry, scheduled.steps, scheduled.measured
    lifetime = lifetimes(steps)
    heirs = share(lifetime) if finisher.in_place else {}
    arena = plan(lifetime, heirs, measured)
    buffers = Buffers(arena.offsets)
    numbered = tuple(-1 if view is None else buffers.number(view) for view in scheduled.arguments)
    returned = tuple(buffers.number(view) for view in scheduled.results)
    finisher.measured = frozenset(measured)
    finished = finisher.steps(steps, buffers)
    sizes = arena.size, arena.largest_live, arena.peak_names
    return EntryProgram(
        entry.name,
        buffers.buffers(),
        finished,
        numbered,
        returned,
        entry.dims,
        *sizes,
        measured=tuple(measured.items()),
    )
