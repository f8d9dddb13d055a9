"""order: kernels that do not depend on each other run in the order that needs the least memory.

Before: `a = x @ v`, `b = x @ w`, `p = max(a)`, `q = max(b)`: `a` and `b` are in memory at once.
After: `a = x @ v`, `p = max(a)`, `b = x @ w`, `q = max(b)`: one of them is.

So the order of lines in a program does not decide how much memory a call needs. Assumes launches in an order of
execution. Guarantees that whatever reads or writes memory stays on the side of the writes to it where it was; that
steps other than launches, launches that write state, and launches that can fail keep their places among all others; and
that an order is changed only where that takes a tenth from the largest set of bytes that are alive at one time (sizes
that only the call knows count as `dfc.lower.storage.TYPICAL`). Only these sizes and the order before decide, so equal
programs have equal orders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import groupby

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.contractions import kernel_faults
from dfc.kernels.program import BufferRole
from dfc.lower.schedule.unallocated import UnallocatedLaunch, UnallocatedStep, inner_blocks, own_views, walk
from dfc.lower.storage import Storage, typical_bytes

SEARCHED = 64
"""Launches that could be next, of which the one is taken that leaves the fewest bytes alive."""
MOST_OF_BEFORE = 0.9
"""What a new order may need at most, as a share of what the old one needs."""


def order(steps: list[UnallocatedStep]) -> list[UnallocatedStep]:
    """The steps of an entry, with those of loops and branches, which are changed in place."""
    uses = Counter(view.storage for step in walk(steps) for view in own_views(step))
    for step in walk(steps):
        for block in inner_blocks(step):
            block[:] = _ordered(block, uses)
    return _ordered(steps, uses)


def _ordered(steps: Sequence[UnallocatedStep], uses: Mapping[Storage, int]) -> list[UnallocatedStep]:
    """One block: each run of launches that may change places."""
    result: list[UnallocatedStep] = []
    for may_move, group in groupby(steps, _may_move):
        run = list(group)
        launches = [each for each in run if isinstance(each, UnallocatedLaunch)]
        result += _least(launches, uses) if may_move and len(launches) > 2 else run
    return result


def _may_move(step: UnallocatedStep) -> bool:
    if not isinstance(step, UnallocatedLaunch) or kernel_faults(step.kernel):
        return False
    return not any(storage.role is BufferRole.RESOURCE for storage in _written(step))


def _written(launch: UnallocatedLaunch) -> list[Storage]:
    operands = zip(launch.kernel.operands, launch.views, strict=True)
    return [view.storage for operand, view in operands if operand.access != "read"]


def _least(launches: list[UnallocatedLaunch], uses: Mapping[Storage, int]) -> list[UnallocatedLaunch]:
    """The order that there is, or the better one of two that are searched from the front and from the back. From the
    front, something may be begun too early whose reader waits for others; from the back, it is begun right before it
    is read."""
    run, last = _Run.of(launches, uses), len(launches) - 1
    backward = [last - number for number in reversed(_Search(run.reversed()).run())]
    positions = min(_Search(run).run(), backward, key=run.peak)
    is_better = run.peak(positions) <= MOST_OF_BEFORE * run.peak(range(len(launches)))
    return [launches[i] for i in positions] if is_better else launches


@dataclass(slots=True)
class _Run:
    """Launches by number: which have to come after which, and the memory of the arena that each uses. Memory that is
    used before or behind the run as well is alive all the time, and in no sum."""

    after: list[set[int]]
    used: list[list[Storage]]
    users: Counter[Storage] = field(default_factory=Counter[Storage])
    sizes: dict[Storage, int] = field(default_factory=dict[Storage, int])

    @staticmethod
    def of(launches: Sequence[UnallocatedLaunch], uses: Mapping[Storage, int]) -> _Run:
        mentioned = Counter(view.storage for each in launches for view in each.views)
        inside = {s for s, n in mentioned.items() if s.role is BufferRole.ARENA and uses[s] == n}
        used = [[s for s in dict.fromkeys(v.storage for v in each.views) if s in inside] for each in launches]
        users = Counter(storage for each in used for storage in each)
        return _Run(_dependences(launches), used, users, {storage: typical_bytes(storage) for storage in users})

    def reversed(self) -> _Run:
        """The same from the end to the beginning: memory is alive from its last user to its first."""
        last = len(self.after) - 1
        after: list[set[int]] = [set() for _ in self.after]
        for number, before in enumerate(self.after):
            for each in before:
                after[last - each].add(last - number)
        return _Run(after, self.used[::-1], self.users, self.sizes)

    def added_bytes(self, number: int, left: Mapping[Storage, int]) -> tuple[int, int]:
        """By how many bytes more are alive while a launch runs, and behind it."""
        new = sum(self.sizes[s] for s in self.used[number] if left[s] == self.users[s])
        return new, new - sum(self.sizes[s] for s in self.used[number] if left[s] == 1)

    def peak(self, positions: Sequence[int]) -> int:
        """The most bytes that are alive at one time in this order."""
        left, alive, most = Counter(self.users), 0, 0
        for number in positions:
            during, behind = self.added_bytes(number, left)
            most, alive = max(most, alive + during), alive + behind
            left.subtract(self.used[number])
        return most


def _dependences(launches: Sequence[UnallocatedLaunch]) -> list[set[int]]:
    """For each launch those that it has to come after: it reads what they wrote, or writes what they read or wrote."""
    writer: dict[Storage, int] = {}
    readers: dict[Storage, list[int]] = {}
    after: list[set[int]] = []
    for number, launch in enumerate(launches):
        storages, written = {view.storage for view in launch.views}, set(_written(launch))
        before = {writer[storage] for storage in storages if storage in writer}
        before.update(reader for storage in written for reader in readers.get(storage, ()))
        for storage in storages:
            if storage in written:
                writer[storage] = number
                readers[storage] = []
            else:
                readers.setdefault(storage, []).append(number)
        after.append(before - {number})
    return after


class _Search:
    """Launches one after the other: of those whose turn can be now the one that leaves the fewest bytes alive, and of
    equal ones the first."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._waits = [len(each) for each in run.after]
        self._followers: list[list[int]] = [[] for _ in run.after]
        for number, before in enumerate(run.after):
            for each in sorted(before):
                self._followers[each].append(number)

    def run(self) -> list[int]:
        left = Counter(self._run.users)
        ready = [number for number, waits in enumerate(self._waits) if not waits]
        positions: list[int] = []
        while ready:
            chosen = min(ready[:SEARCHED], key=lambda number: (self._run.added_bytes(number, left)[1], number))
            ready.remove(chosen)
            positions.append(chosen)
            left.subtract(self._run.used[chosen])
            for follower in self._followers[chosen]:
                self._waits[follower] -= 1
                if not self._waits[follower]:
                    ready.append(follower)
        return positions
