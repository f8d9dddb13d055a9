"""The messages of a call: from rank 0 to all that take part, and back when they are done.

A call that brings each rank the same numbers, and no rank gives a result of, goes along a tree of ranks, by the run
side's own plan (`dfc_runtime.distributed.relays.call_tree`); else rank 0 sends each rank its own message, and its
arrays behind it. Before: rank 0 has the feeds. After `call`: each rank has been called; after `answer`: rank 0 knows
that all are done.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dfc.distribute.simulate.clocks import Clocks, Ranks
from dfc_runtime.distributed.relays.call_tree import FAN_OUT, pieces

ZERO = np.array([0])


class Calls:
    """Those of one step to the `others`, in the order in which the entry has them. Each message down has `down` bytes,
    in `messages` pieces, each answer `up`."""

    def __init__(
        self, clocks: Clocks, others: Ranks, *, down: float, messages: int, up: float, passes_on: bool
    ) -> None:
        self._clocks = clocks
        self._others = others
        self._down, self._messages, self._up = down, messages, up
        self._along_tree = passes_on and len(others) > FAN_OUT

    def call(self) -> None:
        clocks = self._clocks
        for sender, receiver in self._edges():
            clocks.handle(sender, self._messages)
            left = clocks.send(sender, 1, self._down)
            clocks.wait(receiver, clocks.arrive(receiver, 1, self._down, left, float(clocks.now[sender][0])))
            clocks.handle(receiver, self._messages)

    def answer(self) -> None:
        if not self._along_tree:
            self._hear(ZERO, self._others)
            return
        called: dict[int, list[int]] = {}
        for sender, receiver in self._edges():
            called.setdefault(int(sender[0]), []).append(int(receiver[0]))
        for sender in reversed(called):  # whoever is called by others comes behind them
            self._hear(np.array([sender]), np.array(called[sender]))

    def _hear(self, receiver: Ranks, senders: Ranks) -> None:
        """One rank gets an answer from each of the others."""
        clocks = self._clocks
        clocks.handle(senders, 1)
        begun, left = clocks.now[senders], clocks.send(senders, 1, self._up)
        for each in np.argsort(left, kind="stable"):  # those that come first are taken while others are still awaited
            clocks.wait(receiver, clocks.arrive(receiver, 1, self._up, float(left[each]), float(begun[each])))
            clocks.handle(receiver, 1)

    def _edges(self) -> Iterator[tuple[Ranks, Ranks]]:
        """Who sends the call to whom, those that are nearer to rank 0 first."""
        if not self._along_tree:
            yield from ((ZERO, np.array([rank])) for rank in self._others)
            return
        waiting = [(0, 0, len(self._others))]
        for sender, begin, end in waiting:
            for first, last in pieces(begin, end):
                receiver = int(self._others[first])
                yield np.array([sender]), np.array([receiver])
                waiting.append((receiver, first + 1, last))
