"""The messages of sums that go along trees of tasks, level by level (`dfc_runtime.distributed.reduce.task_tree`).

Before: when each rank has summed its own blocks. After: when each rank has all sums. Of several chunks of a sum, each
of which has a tree, the messages of a rank are counted together; it waits for the last of its possible partners.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.place.cost import MEMORY_RATE
from dfc.distribute.simulate.clocks import Clocks, Ranks, Times


@dataclass(frozen=True, slots=True)
class Level:
    """What goes from groups of 2**`number` neighbours to their siblings: for each of `ranks` how many messages it sends
    and gets on the way up, of `size` bytes each. On the way down it is the other way round, one for each `roots`."""

    number: int
    ranks: Ranks
    sent: Times
    received: Times
    roots: int
    size: float


def levels(ranks: Ranks, owners: Sequence[int], roots: int, size: float) -> list[Level]:
    """Of a sum whose chunks have these owners. Where blocks are not dealt in powers of two, a group is taken to have as
    many roots as a task."""
    tasks = len(ranks)
    result: list[Level] = []
    for number in range((tasks - 1).bit_length()):
        sent, received = np.zeros(tasks), np.zeros(tasks)
        for owner, chunks in Counter(owners).items():
            leaders = _leaders(tasks, number, owner)
            left = leaders[: len(leaders) // 2 * 2 : 2]
            right = leaders[1::2]
            senders, receivers = (left, right) if owner >> number & 1 else (right, left)
            sent[senders] += chunks * roots
            received[receivers] += chunks * roots
        result.append(Level(number, ranks, sent, received, roots, size))
    return result


def _leaders(tasks: int, level: int, owner: int) -> Ranks:
    """The task that has what each group of a level adds up to."""
    group = np.arange(-(-tasks >> level))
    for below in reversed(range(level)):
        right = 2 * group + 1
        is_right = bool(owner >> below & 1) & (right << below < tasks)
        group = np.where(is_right, right, 2 * group)
    return group


def climb(sums: Sequence[Sequence[Level]], clocks: Clocks) -> None:
    """All sums up their trees and down again, a level of all of them at a time."""
    highest = max((len(each) for each in sums), default=0)
    for number in range(highest):
        _pass(
            [(level, level.sent, level.received) for each in sums for level in each[number : number + 1]],
            clocks,
            adds=True,
        )
    for number in reversed(range(highest)):
        down = [level for each in sums for level in each[number : number + 1]]
        _pass([(each, each.received / each.roots, each.sent / each.roots) for each in down], clocks, adds=False)


def _pass(messages: Sequence[tuple[Level, Times, Times]], clocks: Clocks, *, adds: bool) -> None:
    """All send, then all wait for what they get; `adds` says that it is added to what they have."""
    left: list[Times] = []
    begins: list[float] = []
    for level, sent, _ in messages:
        sends = sent > 0
        senders = level.ranks[sends]
        begins.append(float(clocks.now[senders].min()))
        clocks.handle(senders, sent[sends])
        gone = np.full(len(level.ranks), -np.inf)
        gone[sends] = clocks.send(senders, sent[sends], level.size)
        left.append(gone)
    for (level, _, received), gone, begin in zip(messages, left, begins, strict=True):
        gets = received > 0
        receivers, count = level.ranks[gets], received[gets]
        last = _of_siblings(gone, level.number)[gets]
        clocks.wait(receivers, clocks.arrive(receivers, count, level.size, last, begin))
        clocks.handle(receivers, count)
        if adds:
            clocks.compute(receivers, 2 * count * level.size / MEMORY_RATE)


def _of_siblings(times: Times, level: int) -> Times:
    """For each task the latest of the group beside its own."""
    width = 1 << level
    padded = np.full(-(-len(times) // (2 * width)) * 2 * width, -np.inf)
    padded[: len(times)] = times
    latest = padded.reshape(-1, 2, width).max(axis=2)[:, ::-1]
    return np.repeat(latest.reshape(-1), width)[: len(times)]
