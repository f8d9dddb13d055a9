"""Memory: arena storages get offsets, drafts become the steps of a program.

Before: launches over storages `h`, `z`, `p` of sizes 4*B*100, 4*B*10, 4*B*10.
After: buffers at offsets in one arena; `p` lies over `h` if `h` is dead by then, over `z` if written in place.

Assumes draft steps. Guarantees that storages whose lives overlap do not overlap in memory, except where a kernel writes
one in place of another that it reads at the same point for the last time (then the kernel has one slot for both).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.ir.dims import Dim, Symbol
from dfc.kernels.program import EntryProgram
from dfc.lower.buffers.finish import Buffers, Finisher
from dfc.lower.buffers.inplace import share
from dfc.lower.buffers.liveness import lifetimes
from dfc.lower.buffers.slots import plan
from dfc.lower.fuse.places import Place
from dfc.lower.schedule.draft import Draft

NONE_MEASURED: Mapping[Symbol, Dim] = {}


def finish(
    finisher: Finisher,
    name: str,
    drafts: list[Draft],
    arguments: Sequence[Place | None],
    results: Sequence[Place],
    dims: tuple[Symbol, ...],
    measured: Mapping[Symbol, Dim] = NONE_MEASURED,
) -> EntryProgram:
    """Plans the memory of an entry and numbers its buffers and kernels. `measured` are the sizes that it finds out
    itself, with the largest value of each: memory is planned for these."""
    found = lifetimes(drafts)
    heirs = share(found) if finisher.in_place else {}
    arena = plan(found.lives, heirs, measured)
    buffers = Buffers(arena.offsets)
    numbered = tuple(-1 if place is None else buffers.number(place) for place in arguments)
    returned = tuple(buffers.number(place) for place in results)
    finisher.measured = frozenset(measured)
    steps = finisher.steps(drafts, buffers)
    sizes = arena.size, arena.largest_live, arena.peak_names
    return EntryProgram(name, buffers.made(), steps, numbered, returned, dims, *sizes, measured=tuple(measured.items()))
