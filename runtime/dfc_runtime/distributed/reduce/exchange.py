"""Small parts of sums, on their way between the tasks of a job: what a task has at hand goes out as one message.

Assumes that whoever is about to wait for anything says `flush` first: what is held back here may be what the other side
waits for. Guarantees that the parts of one edge arrive in the order in which their rank added them. A message says what
it holds, so ranks need not agree on what goes together.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence

import numpy as np

from dfc_runtime.distributed.transport.comm import Bytes, Comm, Pending

FULL_BYTES = 64 << 10
"""A message that has so many bytes is not held back."""
_HEAD = struct.Struct("<QQ")
_ALIGNMENT = 16


def framing(number: int, size: int) -> tuple[bytes, bytes]:
    """What stands before and behind so many bytes of an edge."""
    return _HEAD.pack(number, size), bytes(-size % _ALIGNMENT)


class Exchange:
    """What one rank sends to, and has from, the others. All parts go to the same ranks."""

    def __init__(self, comm: Comm, tag: int) -> None:
        self._comm = comm
        self._tag = tag
        self._ranks: Sequence[int] = ()
        self._held: list[bytes | Bytes] = []
        self._size = 0
        self._leaving: list[Pending] = []
        self._coming: deque[tuple[int, Bytes, Pending]] = deque()
        self._arrived: dict[tuple[int, int], deque[Bytes]] = {}

    def add(self, before: bytes, parts: Sequence[Bytes], behind: bytes, ranks: Sequence[int]) -> None:
        """Something of this rank for these others. Its memory stays as it is until `flush`."""
        assert not self._held or ranks == self._ranks, "a rank has one job, whose tasks make sums together"
        self._ranks = ranks
        self._held += (before, *parts, behind)
        self._size += len(before) + sum(part.size for part in parts) + len(behind)
        if self._size >= FULL_BYTES:
            self.flush()

    def flush(self) -> None:
        """Sends what was held back."""
        if not self._held:
            return
        message = np.frombuffer(b"".join(self._held), np.uint8)  # type: ignore[arg-type]  # of anything that has bytes
        self._held.clear()
        self._size = 0
        self.has_left()
        for rank in self._ranks:
            pending = self._comm.isend(message, rank, self._tag)
            if not pending.test():
                self._leaving.append(pending)

    def take(self, number: int, rank: int) -> Bytes | None:
        """The next part of an edge from a rank, if it has come. It is the caller's."""
        arrived = self._arrived.get((number, rank))
        return arrived.popleft() if arrived else None

    def look(self) -> None:
        """Receives what has come."""
        while (arrival := self._comm.arrival(None, self._tag)) is not None:
            buffer = np.empty(arrival.size, np.uint8)
            self._coming.append((arrival.source, buffer, arrival.receive(buffer)))
        while self._coming and self._coming[0][2].test():
            source, buffer, _ = self._coming.popleft()
            self._open(source, buffer)

    def _open(self, source: int, message: Bytes) -> None:
        offset, data = 0, message.data
        while offset < message.size:
            number, size = _HEAD.unpack_from(data, offset)
            offset += _HEAD.size
            self._arrived.setdefault((number, source), deque()).append(message[offset : offset + size])
            offset += size + -size % _ALIGNMENT

    def has_left(self) -> bool:
        """Whether nothing is held back, or on its way."""
        if self._leaving:
            self._leaving = [each for each in self._leaving if not each.test()]
        return not self._leaving and not self._held
