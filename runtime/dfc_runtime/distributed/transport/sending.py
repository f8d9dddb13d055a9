"""Values on their way out of a rank, from memory that the program uses again at once.

Guarantees that memory of the caller is not looked at after `send` has returned, but that large values are not copied
where their receivers are ready: a first piece goes ahead as a copy, and if it is taken in the time that copying the
rest would need, the rest goes out of the caller's memory itself, while the caller waits. A receiver is ready only once
it waits for this value, so that no two ranks can wait for each other here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.transport.buffers import Pool
from dfc_runtime.distributed.transport.comm import Bytes, Comm, Pending

PIECE = 256 << 10
"""What is larger goes in two pieces, the first of this size."""
_COPIED_PER_SECOND = 4 << 30
_AWAKE = 1000
"""Turns of waiting after which a rank would sleep, and miss its receiver."""
_SHORT = 4 << 10
"""Copies of up to so many bytes are made anew: that costs less than to look after them."""

Wait = Callable[[Callable[[], bool], str, int], None]
"""Waits until a condition holds, for the sake of an edge and a rank."""


def pieces(value: Bytes) -> list[Bytes]:
    """The messages of one value."""
    return [value[:PIECE], value[PIECE:]] if value.size > PIECE else [value]


@dataclass(slots=True)
class Outbox:
    """Messages that were sent and may not have left: nobody waits for them."""

    pending: list[Pending] = field(default_factory=list[Pending])

    def add(self, pending: Pending) -> None:
        if self.pending:
            self.pending = [each for each in self.pending if not each.test()]
        if not pending.test():
            self.pending.append(pending)


@dataclass(slots=True, eq=False)
class _Leaving:
    """Messages out of one buffer of ours."""

    buffer: Bytes
    messages: list[tuple[Pending, int]]
    key: str
    pooled: bool = True

    def has_left(self) -> bool:
        self.messages = [each for each in self.messages if not each[0].test()]
        return not self.messages


class Sender:
    """What one rank sends."""

    def __init__(self, comm: Comm, pool: Pool, wait: Wait) -> None:
        self._comm = comm
        self._pool = pool
        self._wait = wait
        self._leaving: list[_Leaving] = []
        self._abandoned: list[_Leaving] = []

    def send(self, key: str, value: Bytes, ranks: Sequence[int], tag: int) -> None:
        """Sends to all these ranks."""
        if value.size <= PIECE:
            self._send_copy(key, value, ranks, tag)
            return
        first, *rest = pieces(value)
        started = self._own(key, self._copied(first), ranks, tag, synchronous=bool(rest))
        for part in rest:
            ready = self._ready(started, part.size)
            direct = [(self._comm.isend(part, rank, tag), rank) for rank in ready]
            others = [rank for rank in ranks if rank not in ready]
            if others:
                self._own(key, self._copied(part), others, tag)
            for pending, rank in direct:
                self._wait(pending.test, key, rank)
        self.has_left()

    def _send_copy(self, key: str, value: Bytes, ranks: Sequence[int], tag: int) -> None:
        if value.size <= _SHORT:
            for rank in ranks:
                copied = value.copy()
                pending = self._comm.isend(copied, rank, tag)
                if not pending.test():
                    self._leaving.append(_Leaving(copied, [(pending, rank)], key, pooled=False))
            return
        copied = self._copied(value)
        messages = [(self._comm.isend(copied, rank, tag), rank) for rank in ranks]
        if all(pending.test() for pending, _ in messages):  # as small ones have mostly
            self._pool.give(copied)
        else:
            self._leaving.append(_Leaving(copied, messages, key))

    def send_buffer(self, key: str, buffer: Bytes, ranks: Sequence[int], tag: int) -> None:
        """Sends a buffer of the pool, which goes back to it."""
        self._own(key, buffer, ranks, tag)
        self.has_left()

    def send_once(self, key: str, buffer: Bytes, rank: int, tag: int) -> None:
        """Sends a buffer that nobody uses again, of a size that may never come again."""
        self._leaving.append(_Leaving(buffer, [(self._comm.isend(buffer, rank, tag), rank)], key, pooled=False))
        self.has_left()

    def has_left(self) -> bool:
        """Whether everything has; buffers of what has are free."""
        if not self._leaving:
            return True
        still: list[_Leaving] = []
        for each in self._leaving:
            if each.has_left():
                if each.pooled:
                    self._pool.give(each.buffer)
            else:
                still.append(each)
        self._leaving = still
        return not still

    def finish(self) -> None:
        """Waits until everything has left."""
        if not self._leaving:
            return
        while not self.has_left():
            first = self._leaving[0]
            self._wait(first.has_left, first.key, first.messages[0][1])

    def cancel(self) -> None:
        """Gives up; messages may still read their memory, so it is kept."""
        self._abandoned += self._leaving
        self._leaving = []

    def _own(
        self, key: str, buffer: Bytes, ranks: Sequence[int], tag: int, *, synchronous: bool = False
    ) -> list[tuple[Pending, int]]:
        messages = [(self._comm.isend(buffer, rank, tag, synchronous=synchronous), rank) for rank in ranks]
        self._leaving.append(_Leaving(buffer, messages, key))
        return list(messages)

    def _copied(self, value: Bytes) -> Bytes:
        copied = self._pool.take(value.size)
        np.copyto(copied, value)
        return copied

    def _ready(self, started: Sequence[tuple[Pending, int]], size: int) -> list[int]:
        """The ranks that took the first piece before the rest could have been copied."""
        end = self._comm.seconds() + size / _COPIED_PER_SECOND
        missing = [pending for pending, _ in started]
        turn = 0
        while missing and self._comm.seconds() < end:
            missing = [pending for pending in missing if not pending.test()]
            self._comm.idle(min(turn, _AWAKE))
            turn += 1
        return [rank for pending, rank in started if pending not in missing]
