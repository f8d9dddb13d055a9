"""turns: the copies of a runner use what they share in the order of their iterations.

    take images                         turn 0: take images
    launch 0 ..                         launch 0 ..
    if launch 1: put into pool    ->    turn 1: if launch 1: put into pool
    launch 2 writes broken              turn 2: launch 2 writes broken

So a runner with copies means what it means without: iteration 7 takes the eighth element and is the eighth to put one
into the pool, whatever the threads do; what lies outside of all turns runs at the same time. Shared are the two ends of
each queue, mutexes, and state that the runner writes. A turn begins in front of the first step of the body that uses
the thing, and ends behind the last one: a branch or a loop counts as one step, since the turn has to be passed on in
any case.
Iteration 0 waits for no turn, and each other one only for those before it: so turns never wait in a ring.

What stands in front of the first effect of an iteration, if that is a take, is marked (`FIRST`): while the runner is
held for a checkpoint, an iteration that waits there is left and begun again later. `DRAWN` is it where the iteration
has drawn for the take, which is taken back then.

Assumes scheduled steps with their locks. Guarantees that each turn that is taken is passed on, but for a runner that
ends, whose later iterations leave.
"""

from __future__ import annotations

from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir.graph import Entry
from dfc.kernels.program import BufferRole, HostSite, Program, SiteValue
from dfc.lower.schedule.unallocated import (
    UnallocatedCopy,
    UnallocatedHostCall,
    UnallocatedLaunch,
    UnallocatedStep,
    own_views,
    walk,
)
from dfc.lower.storage import BufferView
from dfc.ops.effects.mutexes import ACQUIRE, RELEASE
from dfc.ops.effects.queues import CLOSE, PUT, TAKE, TAKES

TURN_TAKE, TURN_PASS = "turn_take", "turn_pass"
FIRST = "first"
BEFORE, DRAWN = 1, 2


@dataclass(frozen=True, slots=True)
class _Shared:
    """One end of a queue, or a piece of state, with the first and the last step of a block that use it."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _FirstTake:
    """The positions of a take in front of which nothing happens but that it is drawn, and of the drawing; -1: none."""

    take: int
    draw: int

    def mark(self, position: int) -> int:
        """What an iteration has done that waits in front of a step."""
        return DRAWN if 0 <= self.draw < position else BEFORE


def take_turns(tables: Program, entry: Entry, steps: list[UnallocatedStep]) -> list[UnallocatedStep]:
    """The steps of an entry; of a runner with copies, with turns around what these share."""
    first = _first_take(tables, steps) if entry.copies else None
    if first is not None:
        step = steps[first.take]
        assert isinstance(step, UnallocatedHostCall)
        site = tables.sites[step.site]
        tables.sites[step.site] = replace(site, attributes=(*site.attributes, (FIRST, first.mark(first.take))))
    if entry.copies < 2:
        return steps
    shared = sorted(_shared(tables, steps), key=lambda each: (each.first, each.last))
    before: dict[int, list[UnallocatedStep]] = {}
    behind: dict[int, list[UnallocatedStep]] = {}
    for number, each in enumerate(shared):
        for kind, turns, position in ((TURN_TAKE, before, each.first), (TURN_PASS, behind, each.last)):
            attributes: tuple[tuple[str, SiteValue], ...] = (("turn", number), ("turns", len(shared)))
            if kind == TURN_TAKE and first is not None and position <= first.take:
                attributes = (*attributes, (FIRST, first.mark(position)))
            site = tables.host_site(HostSite(kind, attributes, (), (), (entry.name,), entry.span))
            turns.setdefault(position, []).append(UnallocatedHostCall(site, (), ()))
    ordered: list[UnallocatedStep] = []
    for position, step in enumerate(steps):
        ordered += [*before.get(position, ()), step, *behind.get(position, ())]
    return ordered


def _first_take(tables: Program, steps: list[UnallocatedStep]) -> _FirstTake | None:
    """The take that an iteration begins with, if it does so."""
    written: dict[str, int] = {}
    for position, step in enumerate(steps):
        site = tables.sites[step.site] if isinstance(step, UnallocatedHostCall) else None
        if site is not None and site.kind in TAKES:
            order = f"{dict(site.attributes)['resource']}.order"
            return _FirstTake(position, written.get(order, -1)) if {*written} <= {order} else None
        inner = walk([step])
        if any(isinstance(each, UnallocatedHostCall) for each in inner):
            return None
        written |= {view.storage.resource: position for each in inner for view in _written(each)}
    return None


def _shared(tables: Program, steps: list[UnallocatedStep]) -> list[_Shared]:
    written = {view.storage.resource for step in walk(steps) for view in _written(step)} - {""}
    positions: dict[tuple[str, str], list[int]] = {}
    for position, step in enumerate(steps):
        for inner in walk([step]):
            for key in _used(tables, inner, written):
                positions.setdefault(key, []).append(position)
    return [_Shared(each[0], each[-1]) for each in positions.values()]


def _used(tables: Program, step: UnallocatedStep, written: set[str]) -> list[tuple[str, str]]:
    """What a step itself uses of all that copies share."""
    used = [("state", view.storage.resource) for view in own_views(step) if view.storage.resource in written]
    if isinstance(step, UnallocatedHostCall):
        site = tables.sites[step.site]
        end = {PUT: PUT, CLOSE: PUT, ACQUIRE: ACQUIRE, RELEASE: ACQUIRE, **dict.fromkeys(TAKES, TAKE)}.get(site.kind)
        if end is not None:
            used.append((end, str(dict(site.attributes)["resource"])))
    return used


def _written(step: UnallocatedStep) -> list[BufferView]:
    """The state that a step itself writes."""
    views: list[BufferView] = []
    if isinstance(step, UnallocatedCopy):
        views.append(step.target)
    elif isinstance(step, UnallocatedLaunch):
        pairs = zip(step.kernel.operands, step.views, strict=True)
        views += [view for operand, view in pairs if operand.access != "read"]
    return [view for view in views if view.storage.role is BufferRole.RESOURCE]
