"""parallel: steps that do not depend on each other, each too small to be shared out, become branches of one step.

    while a ..                  parallel:
    while b ..          ->        branch 0: while a ..
    launch c from a, b            branch 1: while b ..
                                launch c from a, b

A segment of steps in a row falls into branches: what depends on each other is in one. Of all segments of a block those
are taken that save the most on two threads, at predicted times (`prediction`), which have to pay for a fork and a join;
more threads save more. A step behind a loop that the loop does not need is moved before it, where that brings two loops
side by side. Blocks of loops whose steps stay apart are looked at by themselves; nothing is parallel inside a branch.

Assumes steps in an order of execution, before locks. Guarantees that no branch reads or writes what another one writes;
that branches change no state, call no host, take no lock and find out no size; that the faults of a branch come before
those of the branches behind it in the order of the steps; and that a target which runs the branches one after the other
does what the steps did.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ZERO, Dim
from dfc.kernels.contractions import kernel_faults
from dfc.kernels.program import BufferRole, Program
from dfc.lower.schedule.prediction import Prediction, launch_time
from dfc.lower.schedule.unallocated import (
    UnallocatedCheck,
    UnallocatedCopy,
    UnallocatedFor,
    UnallocatedIf,
    UnallocatedLaunch,
    UnallocatedParallel,
    UnallocatedStep,
    UnallocatedWhile,
    inner_blocks,
    own_views,
    walk,
)
from dfc.lower.storage import Storage, typical, typical_bytes

SHARED_OUT = 15_000_000
"""Picoseconds of a kernel that several threads had better share out by itself: what two parts are worth for products
and for loops (`PART_PRODUCTS`, `PART_WORK` of the target)."""
FORK = 2_000_000
"""Picoseconds of a fork and a join: the threads of a program that computes for a while watch for work."""
LEAST = 6_000_000
"""Picoseconds that a segment has to save beyond that."""
LONGEST = 96
"""Steps of a segment."""
MOST_BRANCHES = 16
SMALLEST = 2_000_000
"""Picoseconds of a branch: smaller ones are put together."""
MOST_BYTES = 8 << 20
"""Memory of the call that the steps of a segment use: all of it is alive at one time."""


def find_parallel(tables: Program, steps: Sequence[UnallocatedStep]) -> list[UnallocatedStep]:
    """The steps of an entry, with those that may run at the same time as branches."""
    return _Finder(Prediction(tables)).block(steps)


@dataclass(slots=True)
class _Item:
    """A step of a run, by what decides where it may go."""

    step: UnallocatedStep
    time: int
    launches: tuple[Dim, ...]
    """The times of the kernels in it."""
    is_small: bool
    read: frozenset[Storage]
    written: frozenset[Storage]

    @property
    def is_loop(self) -> bool:
        return isinstance(self.step, UnallocatedWhile | UnallocatedFor)

    def needs(self, earlier: _Item) -> bool:
        """Whether it has to come behind another one that stands before it."""
        if self.written & (earlier.written | earlier.read):
            return True
        return bool(self.read & earlier.written)


@dataclass(frozen=True, slots=True)
class _Finder:
    prediction: Prediction

    def block(self, steps: Sequence[UnallocatedStep]) -> list[UnallocatedStep]:
        """One block: each run of steps between those that stay where they are."""
        ordered: list[UnallocatedStep] = []
        run: list[_Item] = []
        for step in steps:
            if may_move(step):
                run.append(self._item(step))
            else:
                ordered += [*self._run(run), self._inside(step)]
                run = []
        return [*ordered, *self._run(run)]

    def _inside(self, step: UnallocatedStep) -> UnallocatedStep:
        for block in inner_blocks(step):
            block[:] = self.block(block)
        return step

    def _item(self, step: UnallocatedStep) -> _Item:
        launches = tuple(launch_time(each) for each in walk([step]) if isinstance(each, UnallocatedLaunch))
        is_small = all(typical(each) < SHARED_OUT for each in launches)
        time = typical(launches[0]) if isinstance(step, UnallocatedLaunch) else self.prediction.step(step)
        return _Item(step, time, launches, is_small, *_used(step))

    def _run(self, run: list[_Item]) -> list[UnallocatedStep]:
        for items in (_loops_together(run), run):
            segments = _best_segments(items)
            if segments:
                break
        else:
            return [self._inside(each.step) for each in run]
        steps: list[UnallocatedStep] = []
        position = 0
        for first, last in segments:
            steps += [self._inside(each.step) for each in items[position:first]]
            steps.append(_parallel(items[first:last]))
            position = last
        return [*steps, *(self._inside(each.step) for each in items[position:])]


def may_move(step: UnallocatedStep) -> bool:
    """Whether a step may run at the same time as another one, and be moved past others that it does not depend on."""
    inner = walk([step])
    plain = UnallocatedLaunch | UnallocatedCopy | UnallocatedIf | UnallocatedWhile | UnallocatedFor
    if not isinstance(step, plain) or not all(isinstance(each, plain | UnallocatedCheck) for each in inner):
        return False
    return all(storage.role is not BufferRole.RESOURCE for storage in _used(step)[1])


def may_fail(step: UnallocatedStep) -> bool:
    """Whether a step can end a call with a fault."""
    inner = walk([step])
    return any(
        isinstance(each, UnallocatedCheck) or (isinstance(each, UnallocatedLaunch) and kernel_faults(each.kernel))
        for each in inner
    )


def _used(step: UnallocatedStep) -> tuple[frozenset[Storage], frozenset[Storage]]:
    """What a step, with all inside it, reads, and what it writes; what is updated is in both."""
    read, written = set[Storage](), set[Storage]()
    for each in walk([step]):
        match each:
            case UnallocatedLaunch():
                for operand, view in zip(each.kernel.operands, each.views, strict=True):
                    (read if operand.access != "write" else set[Storage]()).add(view.storage)
                    (written if operand.access != "read" else set[Storage]()).add(view.storage)
            case UnallocatedCopy():
                read.add(each.source.storage)
                written.add(each.target.storage)
            case UnallocatedFor():
                read |= {each.start.storage, each.stop.storage}
                written.add(each.index.storage)
            case _:
                read |= {view.storage for view in own_views(each)}
    return frozenset(read), frozenset(written)


def _loops_together(run: Sequence[_Item]) -> list[_Item]:
    """The same steps, those before loops that do not need anything of the loops they stand behind."""
    items: list[_Item] = []
    held: list[_Item] = []
    for item in run:
        if held and (item.is_loop or any(item.needs(each) for each in held)):
            held.append(item)
        elif held:
            items.append(item)
        elif item.is_loop:
            held.append(item)
        else:
            items.append(item)
    return [*items, *held]


def _best_segments(items: Sequence[_Item]) -> list[tuple[int, int]]:
    """The segments, first and behind the last, that save the most together."""
    count, needed = len(items), _needed(items)
    best: list[tuple[int, int]] = [(0, 0)] * (count + 1)  # what the items from here on save, and where a segment ends
    for first in range(count - 1, -1, -1):
        best[first] = best[first + 1][0], 0
        segment = _Segment(items, needed, first)
        for last in range(first, min(count, first + LONGEST)):
            if not items[last].is_small:
                break
            segment.add(last)
            saved = segment.saved()
            if saved and saved + best[last + 1][0] > best[first][0]:
                if segment.bytes() > MOST_BYTES:
                    break
                best[first] = saved + best[last + 1][0], last + 1
    segments: list[tuple[int, int]] = []
    position = 0
    while position < count:
        end = best[position][1]
        if end:
            segments.append((position, end))
        position = end or position + 1
    return segments


def _needed(items: Sequence[_Item]) -> list[set[int]]:
    """For each item those that it has to come after, but for what follows from others."""
    writer: dict[Storage, int] = {}
    readers: dict[Storage, set[int]] = {}
    needed: list[set[int]] = []
    for number, item in enumerate(items):
        before = {writer[each] for each in (*item.read, *item.written) if each in writer}
        for each in item.written:
            before |= readers.pop(each, set())
            writer[each] = number
        for each in item.read - item.written:
            readers.setdefault(each, set()).add(number)
        needed.append(before - {number})
    return needed


class _Segment:
    """Items in a row, from `first` on; those that depend on each other are in one component."""

    def __init__(self, items: Sequence[_Item], needed: Sequence[set[int]], first: int) -> None:
        self._items, self._needed, self._first, self._last = items, needed, first, first - 1
        self._joined: dict[int, int] = {}
        self._times: dict[int, int] = {}
        self._total = self._most = 0

    def add(self, last: int) -> None:
        """Takes the next item, with all components that it depends on, into one."""
        time = self._items[last].time
        for each in {self._root(each) for each in self._needed[last] if each >= self._first}:
            time += self._times.pop(each)
            self._joined[each] = last
        self._last, self._times[last] = last, time
        self._total += self._items[last].time
        self._most = max(self._most, time)

    def _root(self, number: int) -> int:
        while number in self._joined:
            number = self._joined[number]
        return number

    def components(self) -> list[list[int]]:
        """The items of each."""
        members: dict[int, list[int]] = {}
        for number in range(self._first, self._last + 1):
            members.setdefault(self._root(number), []).append(number)
        return list(members.values())

    def saved(self) -> int:
        """Picoseconds that the segment saves on two threads, 0 if that is too little."""
        saved = min(self._total - self._most, self._total // 2) - FORK
        return saved if saved >= LEAST else 0

    def bytes(self) -> int:
        """Memory of the call that it uses."""
        inside = self._items[self._first : self._last + 1]
        storages = {storage for each in inside for storage in (*each.read, *each.written)}
        return sum(typical_bytes(storage) for storage in storages if storage.role is BufferRole.ARENA)


def _parallel(items: Sequence[_Item]) -> UnallocatedParallel:
    segment = _Segment(items, _needed(items), 0)
    for number in range(len(items)):
        segment.add(number)
    failing = {number for number, each in enumerate(items) if may_fail(each.step)}
    branches = in_order_of_faults(_together(items, segment.components()), failing)
    varying = [time for each in items for time in each.launches if time.constant is None]
    costs = tuple(sum(items[number].time for number in branch) for branch in branches)
    steps = [[items[number].step for number in branch] for branch in branches]
    return UnallocatedParallel(steps, costs, sum(varying, ZERO), SHARED_OUT * len(varying))


def _together(items: Sequence[_Item], components: Sequence[list[int]]) -> list[list[int]]:
    """Branches of components: the long ones first, each to the branch that has least so far."""
    times = {number: sum(items[each].time for each in members) for number, members in enumerate(components)}
    count = min(len(components), MOST_BRANCHES, max(2, sum(times.values()) // SMALLEST))
    branches: list[list[int]] = [[] for _ in range(count)]
    filled = [0] * count
    for number in sorted(times, key=lambda each: (-times[each], each)):
        least = min(range(count), key=lambda each: (filled[each], each))
        branches[least] += components[number]
        filled[least] += times[number]
    return sorted(sorted(branch) for branch in branches if branch)


def in_order_of_faults(branches: Sequence[list[int]], failing: Collection[int]) -> list[list[int]]:
    """Branches of step numbers, in an order in which the steps of each that can fail come before those of the next;
    branches that cannot be told apart so are one."""
    ordered: list[tuple[int, int, list[int]]] = []
    spans = [([number for number in branch if number in failing], branch) for branch in branches]
    for faults, branch in sorted(span for span in spans if span[0]):
        first, last, members = faults[0], faults[-1], branch
        if ordered and ordered[-1][1] > first:
            first, before, earlier = ordered.pop()
            last, members = max(last, before), sorted([*earlier, *branch])
        ordered.append((first, last, members))
    others = [branch for faults, branch in spans if not faults]
    return [*(members for _, _, members in ordered), *others]
