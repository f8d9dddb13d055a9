"""Sums over the blocks of a batch along trees of tasks, while the tasks go on computing: carries out `task_tree`.

Assumes what `reduction` does of contributions. Guarantees the same additions as there, so the same bits. Nothing
blocks; `advance` moves on what is on its way.

A task sends its roots up once all its children's have joined, and the sum down once it has it; both in the order of the
chunks, which is the order in which they are expected, so that two tags tell all messages between two tasks apart.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from dfc_runtime.distributed.reduce.operation import ADDITIONS, Group, Operation
from dfc_runtime.distributed.reduce.reduction import LocalSums, add_to
from dfc_runtime.distributed.reduce.reduction_plan import Plan, dealt
from dfc_runtime.distributed.reduce.task_tree import branch
from dfc_runtime.distributed.reduce.transfers import Transfers
from dfc_runtime.distributed.transport.buffers import Pool
from dfc_runtime.distributed.transport.comm import Array, Bytes, Comm, Pending


class TreeSum:
    """A sum under way: from the first contribution until the result was taken and all messages have left."""

    def __init__(
        self, what: Operation, plan: Plan, group: Group, comm: Comm, pool: Pool, dtype: np.dtype[np.generic]
    ) -> None:
        self.plan = plan
        self.dtype = dtype
        self.task = group.task
        self.add = ADDITIONS[what.combination]
        self._tags = what.tags
        self._ranks = group.ranks
        self._comm = comm
        self._transfers = Transfers(comm, pool)
        self.take, self.has_left = self._transfers.take, self._transfers.has_left
        size = plan.chunks[-1][1] * dtype.itemsize
        self.local = LocalSums(plan, group.task, size, pool, self.add)
        self._last = dealt(plan.blocks, plan.tasks, group.task)[1]
        self.result = self.take(size)
        self._chunks = [_ChunkTree(self, chunk) for chunk in range(len(plan.chunks))]
        self._sent_up = self._sent_down = 0

    def part(self, whole: Bytes, chunk: int) -> Bytes:
        start, end = self.plan.chunks[chunk]
        return whole[start * self.dtype.itemsize : end * self.dtype.itemsize]

    def expect(self, buffer: Bytes, task: int, *, is_up: bool) -> Pending:
        return self._comm.irecv(buffer, self._ranks[task], self._tags[not is_up])

    def contribute(self, block: int, array: Array) -> None:
        """Adds a block."""
        assert block == self.local.next, "blocks are contributed once, and in order"
        self.local.add(array)
        self.advance()

    def advance(self) -> bool:
        """Does what can be done now; whether the result is there."""
        if self.local.next < self._last:
            return False
        for each in self._chunks[self._sent_up :]:
            each.join()
        while self._sent_up < len(self._chunks) and self._chunks[self._sent_up].is_joined:
            each = self._chunks[self._sent_up]
            if each.branch.parent is not None:
                for root in each.roots:
                    self._send(root, each.branch.parent, is_up=True)
            self._sent_up += 1
        while self._sent_down < self._sent_up and self._chunks[self._sent_down].has_sum():
            each = self._chunks[self._sent_down]
            for child in reversed(each.branch.children):  # the largest group first: it has the longest way to go
                self._send(each.sum, child.task, is_up=False)
            self._sent_down += 1
        return self._sent_down == len(self._chunks)

    def _send(self, part: Bytes, task: int, *, is_up: bool) -> None:
        self._transfers.send(part, self._ranks[task], self._tags[not is_up])

    def free(self) -> None:
        self._transfers.free(self.local.finished)
        self.local.finished.clear()

    def cancel(self) -> None:
        """Gives up what will not come. Memory that messages may still use is not used again."""
        for each in self._chunks:
            each.cancel()
        self._transfers.abandon()

    def awaited(self) -> int | None:
        """A rank that a message is missing from."""
        tasks = (each.awaited() for each in self._chunks[self._sent_down :])
        return next((self._ranks[task] for task in tasks if task is not None), None)


class _ChunkTree:
    """The part of this task in the tree of one chunk. `roots` are those of all tasks that have joined so far."""

    def __init__(self, whole: TreeSum, chunk: int) -> None:
        self._whole = whole
        self._chunk = chunk
        plan = whole.plan
        self.branch = branch(plan.blocks, plan.tasks, whole.task, plan.owner_of[chunk])
        self.sum = whole.part(whole.result, chunk)
        self.roots: list[Bytes] = []
        self._joined = 0
        self._operands = [[whole.take(self.sum.size) for _ in range(c.roots)] for c in self.branch.children]
        self._arriving = [
            deque(whole.expect(buffer, child.task, is_up=True) for buffer in buffers)
            for child, buffers in zip(self.branch.children, self._operands, strict=True)
        ]
        parent = self.branch.parent
        self._coming = None if parent is None else whole.expect(self.sum, parent, is_up=False)

    @property
    def is_joined(self) -> bool:
        return self._joined == len(self.branch.children) and bool(self.roots)

    def join(self) -> None:
        """Adds what has come from children, one after the other. All blocks of this task are contributed."""
        if not self.roots:
            self.roots = [self._whole.part(root, self._chunk) for root in self._whole.local.finished]
        while self._joined < len(self.branch.children) and _all_here(self._arriving[self._joined]):
            child, others = self.branch.children[self._joined], self._operands[self._joined]
            operands = [*others, *self.roots] if child.is_left else [*self.roots, *others]
            for left, right in child.steps:
                add_to(self._whole.add, operands[left].view(self._whole.dtype), operands[right].view(self._whole.dtype))
            self.roots = [operands[number] for number in child.kept]
            self._joined += 1

    def has_sum(self) -> bool:
        """Whether `sum` is there, of a chunk that is joined."""
        if self._coming is not None:
            if not self._coming.test():
                return False
            self._coming = None
        elif self.branch.parent is None and self.roots[0] is not self.sum:
            np.copyto(self.sum, self.roots[0])
            self.roots = [self.sum]
        return True

    def awaited(self) -> int | None:
        """A task that a message is missing from."""
        for child, arriving in zip(self.branch.children, self._arriving, strict=True):
            if not _all_here(arriving):
                return child.task
        return self.branch.parent if self._coming is not None and not self._coming.test() else None

    def cancel(self) -> None:
        for pending in (*(each for arriving in self._arriving for each in arriving), self._coming):
            if pending is not None:
                pending.cancel()


def _all_here(arriving: deque[Pending]) -> bool:
    while arriving and arriving[0].test():
        arriving.popleft()
    return not arriving
