"""Which elements a shuffled queue holds: a function of its draws.

Elements are numbered as they were put in, and element k comes to position k. Take t chooses one of the first elements
by its draw: it gets what is at the position j(t) >= t, and what was at position t goes there, where nobody looks any
more if the two are one. So what is at position p
now was put there by the last take that chose p, from the position that has that take's number, where it came in the
same way; or it is element p, if no take chose p. That is followed back for all positions at once, from the takes of the
latest past alone: an element stays as long as chance has it, which is seldom more than ln(n) times the n elements that
takes choose among.

Assumes takes of the same number of elements each, in the order of their draws, as the compiler has made sure of.
Guarantees memory and time for a multiple of the elements that are inside.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.philox import philox

if TYPE_CHECKING:
    from numpy.typing import NDArray

Numbers: TypeAlias = "NDArray[np.int64]"

_LOW = 0xFFFFFFFF
_BLOCKS = 1 << 14
"""Of random numbers that are made at once."""
_MARGIN = 5
"""With e^-5 as the chance that the first look does not go back far enough."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken of a shuffled queue: its draws have the key `key` (both of its words combined), and draw number
    `base` was that of the first take. Each take gets `take` of the first `window` elements. So far `put` elements were
    put in, and `taken` taken out."""

    key: int
    base: int
    take: int
    window: int
    put: int
    taken: int

    def inside(self) -> Numbers:
        """The numbers of the elements at the positions from `taken` to `put`."""
        span = math.ceil(self.window * (math.log(self.window) + _MARGIN))
        while True:
            start = max(0, self.taken - span)
            numbers = self._followed(start)
            if not start or not len(numbers) or int(numbers.min()) >= start + self.window - 1:
                return numbers
            span *= 2

    def _followed(self, start: int) -> Numbers:
        """Likewise, by the takes from `start` on: right, where elements did not come in among the first before that."""
        came_from = np.full(max(self.put - start, 0), -1, np.int64)
        for first, draws in self._draws(start):
            takes = np.arange(first, first + len(draws))
            windows = np.minimum(self.put - takes, self.window)
            within = np.minimum((draws * windows.astype(np.float64)).astype(np.int64), windows - 1)
            came_from[takes + within - start] = takes - start  # the last one of each counts
        indices = np.arange(self.taken, self.put) - start
        moving = np.arange(len(indices))
        while len(moving):
            before = came_from[indices[moving]]
            moving, before = moving[before >= 0], before[before >= 0]
            indices[moving] = before
        return indices + start

    def _draws(self, start: int) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """The number in [0, 1) of each take of one element from `start` on, with that of the first of them."""
        blocks = -(-self.take // 2)
        calls = max(_BLOCKS // blocks, 1)
        for call in range(start // self.take, -(-self.taken // self.take), calls):
            last = min(call + calls, -(-self.taken // self.take))
            counters = np.arange(self.base + call, self.base + last, dtype=np.uint64)[:, None]
            block = np.arange(blocks, dtype=np.uint64)[None, :]
            zero = np.uint64(0)
            counter = (block & np.uint64(_LOW), zero, counters & np.uint64(_LOW), counters >> np.uint64(32))
            words = philox([np.broadcast_to(each, (last - call, blocks)) for each in counter], self._keys)
            wide = np.stack([words[0] | words[1] << np.uint64(32), words[2] | words[3] << np.uint64(32)], axis=2)
            draws = (wide.reshape(last - call, -1)[:, : self.take] >> np.uint64(11)).astype(np.float64) * 2.0**-53
            first = max(start, call * self.take)
            yield first, draws.reshape(-1)[first - call * self.take : self.taken - call * self.take]

    @property
    def _keys(self) -> tuple[int, int]:
        return self.key & _LOW, self.key >> 32
