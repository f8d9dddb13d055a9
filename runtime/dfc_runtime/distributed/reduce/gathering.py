"""All blocks of a value one behind the other, on all tasks of a job.

Assumes blocks of one shape. Guarantees one message from each task to each other one, which leaves when the last block
of the task is there.
"""

from __future__ import annotations

import numpy as np

from dfc_runtime.distributed.reduce.operation import Group, Operation
from dfc_runtime.distributed.reduce.reduction_plan import dealt
from dfc_runtime.distributed.transport.buffers import Pool
from dfc_runtime.distributed.transport.comm import Array, Bytes, Comm, Pending, as_bytes


class Gathering:
    """The blocks of one value, under way."""

    def __init__(self, what: Operation, group: Group, comm: Comm, pool: Pool, block: Array) -> None:
        self.dtype = block.dtype
        self._what = what
        self._group = group
        self._comm = comm
        self._pool = pool
        self._block_size = block.nbytes
        self._next, self._last = dealt(what.blocks, len(group.ranks), group.task)
        self._first = self._next
        self.result: Bytes = pool.take(block.nbytes * what.blocks)
        self._sending: list[Pending] = []
        self._arriving: list[tuple[int, Pending]] = []
        if block.nbytes:
            self._expect()

    def _expect(self) -> None:
        for task, rank in enumerate(self._group.ranks):
            if task != self._group.task:
                blocks = dealt(self._what.blocks, len(self._group.ranks), task)
                self._arriving.append((rank, self._comm.irecv(self._part(*blocks), rank, self._what.tags[0])))

    def _part(self, first: int, last: int) -> Bytes:
        return self.result[first * self._block_size : last * self._block_size]

    def contribute(self, block: int, array: Array) -> None:
        """Puts a block to its place."""
        assert block == self._next, "blocks are contributed once, and in order"
        np.copyto(self._part(block, block + 1), as_bytes(array) if array.size else self._part(block, block + 1))
        self._next += 1
        if self._next == self._last and self._block_size:
            own = self._part(self._first, self._last)
            others = [rank for task, rank in enumerate(self._group.ranks) if task != self._group.task]
            self._sending += [self._comm.isend(own, rank, self._what.tags[0]) for rank in others]
        self.advance()

    def advance(self) -> bool:
        """Whether all blocks are there."""
        self._arriving = [each for each in self._arriving if not each[1].test()]
        return not self._arriving and self._next == self._last

    def has_left(self) -> bool:
        self._sending = [each for each in self._sending if not each.test()]
        return not self._sending

    def free(self) -> None:
        self._pool.give(self.result)

    def cancel(self) -> None:
        for _, pending in self._arriving:
            pending.cancel()

    def awaited(self) -> int | None:
        return self._arriving[0][0] if self._arriving else None
