"""Memory of one sum, and the messages out of it, from its first contribution until all of them have left."""

from __future__ import annotations

from collections.abc import Iterable

from dfc_runtime.distributed.transport.buffers import Pool
from dfc_runtime.distributed.transport.comm import Bytes, Comm, Pending


class Transfers:
    """Guarantees that memory which messages may still read is not used again."""

    def __init__(self, comm: Comm, pool: Pool) -> None:
        self._comm = comm
        self._pool = pool
        self._scratch: list[Bytes] = []
        self._sending: list[Pending] = []

    def take(self, size: int) -> Bytes:
        """Memory until `free`."""
        buffer = self._pool.take(size)
        self._scratch.append(buffer)
        return buffer

    def send(self, part: Bytes, rank: int, tag: int) -> None:
        pending = self._comm.isend(part, rank, tag)
        if not pending.test():
            self._sending.append(pending)

    def has_left(self) -> bool:
        """Whether all messages have."""
        self._sending = [each for each in self._sending if not each.test()]
        return not self._sending

    def free(self, others: Iterable[Bytes]) -> None:
        """Gives back all that was taken, and these buffers of the pool."""
        for buffer in (*self._scratch, *others):
            self._pool.give(buffer)
        self._scratch.clear()

    def abandon(self) -> None:
        """What was taken is never used again: messages may still read it."""
        self._scratch.clear()
