"""Whose turn it is: which updates are made when something comes from a replica, and which replicas go on.

A pure state machine over numbers of tasks, so that an order can be looked at before it is run. Assumes an event of a
task only while that is at work. Guarantees that the same order of events gives the same updates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Turn(NamedTuple):
    """What an event brings: the tasks whose steps are one update now, in the order in which they are added; those that
    are given variables, and go on; and whether what came is too late to be used."""

    updates: Sequence[int] = ()
    answers: Sequence[int] = ()
    is_late: bool = False


class Turns(Protocol):
    """`version` counts updates, `staleness` how many came how many updates late, `busy` are the tasks at work."""

    version: int
    staleness: Counter[int]
    busy: set[int]

    @property
    def is_over(self) -> bool: ...

    def step(self, task: int) -> int:
        """The step that a task is at, counted among its own."""
        ...

    def arrived(self, task: int) -> Turn:
        """Something came from a task: that it wants variables, at first, and then a step at a time."""
        ...


class OwnPace:
    """Each step is an update. No task begins a step when it has done more than `bound` more than the one that has done
    least of those with steps left; -1: it always may."""

    def __init__(self, steps: Sequence[int], bound: int) -> None:
        self.version = 0
        self.staleness: Counter[int] = Counter()
        self.busy = set(range(len(steps)))
        self._left = list(steps)
        self._done = [0] * len(steps)
        self._read = [-1] * len(steps)
        self._bound = bound
        self._waiting: list[int] = []

    @property
    def is_over(self) -> bool:
        return not self.busy

    def step(self, task: int) -> int:
        return self._done[task]

    def arrived(self, task: int) -> Turn:
        self.busy.discard(task)
        updates: tuple[int, ...] = ()
        if self._read[task] >= 0:
            updates = (task,)
            self.staleness[self.version - self._read[task]] += 1
            self.version += 1
            self._left[task] -= 1
            self._done[task] += 1
        if self._left[task]:
            self._waiting.append(task)
            ended = ()
        else:
            ended = (task,)
        behind = min((done for done, left in zip(self._done, self._left, strict=True) if left), default=0)
        answers = [t for t in sorted(self._waiting) if self._bound < 0 or self._done[t] - behind <= self._bound]
        for each in answers:
            self._waiting.remove(each)
            self._read[each] = self.version
            self.busy.add(each)
        return Turn(updates, (*ended, *answers))


class FirstFew:
    """All tasks take each step; the first `count` of it are one update, in the order of tasks, and what comes later is
    dropped. Who is late goes on with the step that the others are at."""

    def __init__(self, tasks: int, steps: int, count: int) -> None:
        self.version = 0
        self.staleness: Counter[int] = Counter()
        self.busy = set(range(tasks))
        self._steps = steps
        self._count = count
        self._read = [-1] * tasks
        self._in_time: list[int] = []

    @property
    def is_over(self) -> bool:
        return not self.busy

    def step(self, task: int) -> int:
        return self.version

    def arrived(self, task: int) -> Turn:
        self.busy.discard(task)
        if self._read[task] != self.version:  # it wants variables at first, or is late
            is_late = self._read[task] >= 0
            return Turn((), self._go_on([task]), is_late)
        self._in_time.append(task)
        if len(self._in_time) < self._count:
            return Turn()
        in_time = sorted(self._in_time)
        self._in_time = []
        self.staleness[0] += len(in_time)
        self.version += 1
        return Turn(in_time, self._go_on(in_time))

    def _go_on(self, tasks: Sequence[int]) -> Sequence[int]:
        """All are told, also those that hear that there are no more steps."""
        for task in tasks:
            self._read[task] = self.version
            if self.version < self._steps:
                self.busy.add(task)
        return tasks


def is_possible(turns: Turns, order: Sequence[int]) -> bool:
    """Whether events can come in this order, up to the last one."""
    for task in order:
        if task not in turns.busy:
            return False
        turns.arrived(task)
    return turns.is_over
