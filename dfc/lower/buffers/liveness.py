"""Lifetimes of arena memory over scheduled steps.

What several branches use that may run at the same time lives while they all do; what one of them uses alone belongs
to that branch (`owners`), and shares no memory with what belongs to the others.

Time counts leaf steps. What a loop uses and something outside it too lives for the whole loop: its value crosses the
back edge, or the loop fills it row by row. Iterative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.program import BufferRole
from dfc.lower.schedule.unallocated import (
    UnallocatedFor,
    UnallocatedLaunch,
    UnallocatedParallel,
    UnallocatedStep,
    UnallocatedWhile,
    inner_blocks,
    own_views,
)
from dfc.lower.schedule.unallocated import walk as walk_steps
from dfc.lower.storage import Storage


@dataclass(slots=True)
class Life:
    """First and last time of use, both included; `loops` are the loops that hold every use."""

    first: int
    last: int
    loops: tuple[int, ...]


Branch = tuple[int, int]
"""The number of a parallel step and of one of its branches."""


@dataclass(slots=True)
class Lifetimes:
    """`owners`: the branch in which a storage is used, of those that are used nowhere else; `spans`: when a parallel
    step begins and ends."""

    lives: dict[Storage, Life] = field(default_factory=dict[Storage, Life])
    owners: dict[Storage, Branch] = field(default_factory=dict[Storage, Branch])
    spans: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    launches: list[tuple[int, UnallocatedLaunch]] = field(default_factory=list[tuple[int, UnallocatedLaunch]])
    end: int = 0


@dataclass(slots=True)
class _Walk:
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    spans: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    crossing: dict[Storage, set[int]] = field(default_factory=dict[Storage, set[int]])
    loops: tuple[int, ...] = ()

    def use(self, storage: Storage, time: int) -> None:
        if storage.role is not BufferRole.ARENA:
            return
        life = self.lifetimes.lives.get(storage)
        if life is None:
            self.lifetimes.lives[storage] = Life(time, time, self.loops)
            return
        life.last = time
        common = _common(life.loops, self.loops)
        if common != life.loops or common != self.loops:
            crossed = self.crossing.setdefault(storage, set())
            crossed.update(life.loops[len(common) : len(common) + 1])
            crossed.update(self.loops[len(common) : len(common) + 1])
            life.loops = common

    def finish(self) -> Lifetimes:
        for storage, loops in self.crossing.items():
            life = self.lifetimes.lives[storage]
            for loop in loops:
                start, end = self.spans[loop]
                life.first, life.last = min(life.first, start), max(life.last, end)
        return self.lifetimes


def lifetimes(steps: Sequence[UnallocatedStep]) -> Lifetimes:
    """When each storage of the arena is first and last used."""
    walk = _Walk()
    branches: list[tuple[int, UnallocatedParallel]] = []
    time = 0
    pending: list[UnallocatedStep | int] = list(reversed(steps))
    while pending:
        step = pending.pop()
        if isinstance(step, int):
            walk.spans[step] = walk.spans[step][0], time
            walk.loops = walk.loops[:-1]
            continue
        if isinstance(step, UnallocatedWhile | UnallocatedFor):
            loop = len(walk.spans)
            walk.spans[loop] = time, time
            walk.loops = (*walk.loops, loop)
            pending.append(loop)
        if isinstance(step, UnallocatedParallel):
            branches.append((time, step))
        if isinstance(step, UnallocatedLaunch):
            walk.lifetimes.launches.append((time, step))
        for view in own_views(step):
            walk.use(view.storage, time)
        time += 1
        for block in reversed(inner_blocks(step)):
            pending.extend(reversed(block))
    walk.lifetimes.end = time
    lifetimes = walk.finish()
    _own(lifetimes, branches)
    return lifetimes


def _own(lifetimes: Lifetimes, parallel: Sequence[tuple[int, UnallocatedParallel]]) -> None:
    """Gives what is used in a branch alone to it, and has the rest that branches use live as long as all of them."""
    for start, step in parallel:
        number, first = len(lifetimes.spans), start + 1
        spans: list[tuple[int, int]] = []
        for branch in step.branches:
            spans.append((first, first + len(walk_steps(branch)) - 1))
            first = spans[-1][1] + 1
        lifetimes.spans.append((start, first - 1))
        for index, (branch, (begin, end)) in enumerate(zip(step.branches, spans, strict=True)):
            for storage in {view.storage for each in walk_steps(branch) for view in own_views(each)}:
                life = lifetimes.lives.get(storage)
                if life is None:
                    continue
                if begin <= life.first and life.last <= end:
                    lifetimes.owners[storage] = number, index
                else:
                    life.first, life.last = min(life.first, start), max(life.last, first)  # behind the last step


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    count = 0
    for left, right in zip(a, b, strict=False):
        if left != right:
            break
        count += 1
    return a[:count]
