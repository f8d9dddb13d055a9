"""The messages of one sum over the blocks of a batch, for any number of ranks, by the plan that the run side carries
out (`dfc_runtime.distributed.reduce.reduction_plan`).

Before: when each rank has summed its own blocks. After: when each rank has the whole sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.place.cost import MEMORY_RATE
from dfc.distribute.simulate.clocks import Clocks, Ranks, Times
from dfc.distribute.simulate.network import Network
from dfc.distribute.simulate.tree_messages import Level, climb, levels
from dfc_runtime.distributed.reduce.exchange import FULL_BYTES
from dfc_runtime.distributed.reduce.reduction_plan import EXCHANGE, MANNERS, TREES, Manner, make_plan

EXCHANGED, IN_CHUNKS, AT_ONE_RANK, ALONG_TREES = "everybody adds all", "in chunks, by all", "by one rank", "along trees"


@dataclass(frozen=True, slots=True)
class SumPrediction:
    """A sum of `size` bytes: who adds, and the seconds that it would take by itself in this and in other ways, by what
    these are called. Those of a step overlap with each other and with computing, and take less of it."""

    key: str
    size: int
    how: str
    alone: Mapping[str, float]


class Sum:
    """One sum: contributed, finished by those who add, then waited for. `how` says who adds. What `is_joined` is not
    added: everybody gets the parts of all, of so many elements each."""

    def __init__(
        self,
        key: str,
        elements: int,
        item_size: int,
        blocks: int,
        ranks: Ranks,
        first_owner: int,
        *,
        is_joined: bool = False,
        manner: Manner | None = None,
    ) -> None:
        self.key, self.size, self._ranks = key, elements * item_size, ranks
        plan = make_plan(blocks, len(ranks), elements, item_size, first_owner, how=manner)
        self._roots = 1 if is_joined else max(len(each) for each in plan.roots)
        self._owners = ranks[sorted(set(plan.owner_of))]
        self._others = len(ranks) - 1
        self.how = (
            EXCHANGED if plan.how == EXCHANGE or is_joined else IN_CHUNKS if len(self._owners) > 1 else AT_ONE_RANK
        )
        self._levels: list[Level] = []
        if plan.how == TREES and not is_joined:
            self.how = ALONG_TREES
            self._levels = levels(ranks, plan.owner_of, self._roots, self.size / len(plan.chunks))
        self._senders = ranks if self.how != AT_ONE_RANK else np.setdiff1d(ranks, self._owners)
        self._chunks = len(plan.chunks) // len(self._owners)
        self._chunk = self.size / len(plan.chunks)
        self._messages, self._is_finished = 0, False
        self._there = np.zeros(len(ranks))
        self._parts_there: Times | None = None
        self.is_contributed = False

    def contribute(self, clocks: Clocks, held: float) -> float:
        """Sends what each rank has. A small part goes with those that were contributed before, `held` bytes, where all
        of it fits into one message; how many bytes that message has now."""
        self.is_contributed = True
        begin = float(clocks.now[self._ranks].min())
        if not self._others or not self.size:
            self._there, self._is_finished = clocks.now[self._ranks].copy(), True
            return held
        if self.how == ALONG_TREES:  # a way up begins when all that is contributed is
            return held
        if self.how != EXCHANGED:
            messages = self._chunks * self._roots * self._to_each
            clocks.handle(self._senders, messages)
            left = float(clocks.send(self._senders, messages, self._chunk).max())
            self._parts_there = clocks.arrive(self._owners, self._arriving, self._chunk, left, begin)
            return held
        size = self._roots * self.size
        joins = held > 0 and held + size <= FULL_BYTES
        self._messages = 0 if joins else self._others
        clocks.handle(self._ranks, self._messages)
        left = clocks.send(self._ranks, self._others, size)
        self._there = clocks.arrive(self._ranks, self._others, size, float(left.max()), begin)
        self._is_finished = True
        return held + size if joins else size

    @property
    def _to_each(self) -> int:
        """How many owners a sender has messages for; itself is none."""
        return 1 if self.how == AT_ONE_RANK else self._others

    @property
    def _arriving(self) -> int:
        """How many messages with parts an owner gets."""
        return self._chunks * self._roots * self._others

    @property
    def is_held_back(self) -> bool:
        """Whether what is contributed leaves only when a rank waits: it goes with other small parts, or is summed
        along trees, whose sums share the wait for a level."""
        return self.how in (EXCHANGED, ALONG_TREES)

    def has_arrived(self, clocks: Clocks) -> bool:
        """Whether owners who look now have all parts, and have not added them yet."""
        if self._is_finished or self._parts_there is None:
            return False
        return bool((self._parts_there <= clocks.now[self._owners]).all())

    def finish(self, clocks: Clocks) -> None:
        """The owners of chunks add the parts of all, for which they wait, and send the sums to everybody."""
        if self._is_finished:
            return
        self._is_finished = True
        if self.how == ALONG_TREES:
            climb([self._levels], clocks)
            return
        assert self._parts_there is not None, "it was contributed"
        clocks.wait(self._owners, self._parts_there)
        clocks.handle(self._owners, self._arriving)
        clocks.compute(self._owners, 2 * self._arriving * self._chunk / MEMORY_RATE)
        clocks.handle(self._owners, self._chunks * self._others)
        first = float(clocks.now[self._owners].min())
        gone = clocks.send(self._owners, self._chunks * self._others, self._chunk)
        self._messages = self._chunks * self._to_each
        done = clocks.arrive(self._senders, self._messages, self._chunk, float(gone.max()), first)
        self._there = np.full(len(self._ranks), float(gone.max()))
        self._there[np.isin(self._ranks, self._senders)] = done

    @property
    def is_finished(self) -> bool:
        return self._is_finished

    def start_climbing(self) -> list[Level]:
        """The messages of a sum along trees, for whoever finishes several."""
        self._is_finished = True
        return self._levels

    def wait(self, clocks: Clocks) -> None:
        """Each rank goes on when it has the sum, and has taken its messages."""
        self.finish(clocks)
        clocks.wait(self._ranks, self._there)
        clocks.handle(self._ranks if self.how == EXCHANGED else self._senders, self._messages)


def finish_together(sums: Iterable[Sum], clocks: Clocks) -> None:
    """Finishes all of them. Those that go along trees do so side by side: their messages of a level share the wait."""
    unfinished = [each for each in sums if not each.is_finished]
    climb([each.start_climbing() for each in unfinished if each.how == ALONG_TREES], clocks)
    for each in unfinished:
        each.finish(clocks)


def compared(
    key: str, elements: int, item_size: int, blocks: int, ranks: int, network: Network, *, is_joined: bool = False
) -> SumPrediction:
    """A sum by itself on so many ranks, in each way that there is."""
    all_ranks, how, alone = np.arange(ranks), "", dict[str, float]()
    for manner in (None,) if is_joined else (None, *MANNERS):
        one = Sum(key, elements, item_size, blocks, all_ranks, 0, is_joined=is_joined, manner=manner)
        clocks = Clocks(ranks, network)
        one.contribute(clocks, 0.0)
        one.wait(clocks)
        how = how or one.how
        alone.setdefault(one.how, float(clocks.now.max()))
    return SumPrediction(key, elements * item_size, how, alone)
