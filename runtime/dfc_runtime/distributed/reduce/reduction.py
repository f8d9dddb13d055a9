"""Sums over the blocks of a batch, while the tasks of a job go on computing: carries out a plan of `reduction_plan`.

Assumes that every task contributes each of its blocks once, in order, with arrays of one shape, and then takes the sum.
Guarantees the same bits on all tasks for any number of them. Nothing blocks but `combined`; messages go out as soon as
their operands are there, and `advance` moves on what is on its way.

Messages of one sum between two tasks: first the roots, one after the other, each in its chunks in order, then the sums
of chunks, in order. Two tags keep these two apart; order does the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextvars import copy_context
from functools import lru_cache
from itertools import accumulate

import numpy as np

from dfc_runtime.distributed.reduce.operation import ADDITIONS, Group, Operation
from dfc_runtime.distributed.reduce.reduction_plan import Node, Plan, dealt, split_point
from dfc_runtime.distributed.reduce.transfers import Transfers
from dfc_runtime.distributed.transport.buffers import Pool
from dfc_runtime.distributed.transport.comm import Array, Bytes, Comm, Pending


class LocalSums:
    """What one task adds by itself. `roots` are finished from left to right."""

    def __init__(self, plan: Plan, task: int, size: int, pool: Pool, add: np.ufunc) -> None:
        self._first, _ = dealt(plan.blocks, plan.tasks, task)
        self.next = self._first
        self.finished: list[Bytes] = []
        self._size = size
        self._pool = pool
        self._add = add
        self._open: list[tuple[Bytes, Array]] = []
        self._roots = plan.roots[task]
        self._schedule = _schedule(self._roots)

    def reset(self) -> None:
        """For the next sum: what was finished has been given back."""
        self.next = self._first
        self.finished.clear()

    def add(self, array: Array) -> None:
        """Adds the next block: to its left neighbour if that is finished, else it is kept, as a copy."""
        joins, is_root = self._schedule[self.next - self._first]
        self.next += 1
        flat = array.reshape(-1)
        if joins:
            value, sum_ = self._open.pop()
            add_to(self._add, sum_, flat)
            for _ in range(joins - 1):
                right, addend = value, sum_
                value, sum_ = self._open.pop()
                add_to(self._add, sum_, addend)
                self._pool.give(right)
        else:
            value = self._pool.take(self._size)
            sum_ = value.view(array.dtype)
            np.copyto(sum_, flat)
        if is_root:
            self.finished.append(value)
        else:
            self._open.append((value, sum_))

    def add_all(self, stack: Array) -> None:
        """Adds all blocks of the task, which stand one behind the other: those of a root at once, if they are even."""
        lines, start = stack.reshape(len(stack), -1), 0
        for first, last in self._roots:
            count = last - first
            if count & (count - 1) or self._open:
                for line in lines[start : start + count]:
                    self.add(line)
            else:
                self.finished.append(self._sum_of(lines[start : start + count]))
                self.next += count
            start += count

    def _sum_of(self, lines: Array) -> Bytes:
        """The tree over so many blocks as are a power of two, all additions of a level together."""
        root = self._pool.take(self._size)
        total, half = root.view(lines.dtype), len(lines) // 2
        if not half:
            np.copyto(total, lines[0])
            return root
        scratch: Bytes | None = None
        if half > 1:
            scratch = self._pool.take(self._size * half)
            sums = scratch.view(lines.dtype).reshape(half, -1)
            add_into(self._add, lines[0::2], lines[1::2], sums)
            step = 1
            while 2 * step < half:
                add_to(self._add, sums[:: 2 * step], sums[step :: 2 * step])
                step *= 2
            lines = sums[::step]
        add_into(self._add, lines[0], lines[1], total)
        if scratch is not None:
            self._pool.give(scratch)
        return root


@lru_cache(maxsize=1024)
def _schedule(roots: tuple[Node, ...]) -> tuple[tuple[int, bool], ...]:
    """For each block of a task: with how many finished sums on its left it is joined, one after the other, and whether
    that makes a root."""
    steps: list[tuple[int, bool]] = []
    for root in roots:
        joins = dict.fromkeys(range(*root), 0)
        open_ = [root]
        while open_:
            node = open_.pop()
            if node[1] - node[0] > 1:
                middle = split_point(node)
                joins[node[1] - 1] += 1
                open_ += [(node[0], middle), (middle, node[1])]
        steps += [(count, block == root[1] - 1) for block, count in joins.items()]
    return tuple(steps)


class _Silent(threading.local):
    """Runs functions where NumPy does not warn; entering `errstate` for each would cost more than a small sum."""

    def __init__(self) -> None:
        context = copy_context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


_silent = _Silent()


def add_to(add: np.ufunc, left: Array, right: Array) -> None:
    """Infinities and NaNs pass through in silence, as they do in native code."""
    _silent.run(add, left, right, out=left)


def add_into(add: np.ufunc, left: Array, right: Array, out: Array) -> None:
    """Likewise, to memory of its own."""
    _silent.run(add, left, right, out=out)


class Combination:
    """A large sum under way: from the first contribution until the result was taken and all messages have left."""

    def __init__(
        self, what: Operation, plan: Plan, group: Group, comm: Comm, pool: Pool, dtype: np.dtype[np.generic]
    ) -> None:
        self.plan = plan
        self.dtype = dtype
        self._what = what
        self._group = group
        self._comm = comm
        self._transfers = Transfers(comm, pool)
        self.take, self.has_left = self._transfers.take, self._transfers.has_left
        self._elements = plan.chunks[-1][1]
        self._size = self._elements * dtype.itemsize
        self.add = ADDITIONS[what.combination]
        self.local = LocalSums(plan, group.task, self._size, pool, self.add)
        self._sent_roots = 0
        self._result: Bytes | None = None
        self._arriving: list[tuple[int, Pending]] = []
        self._sums = [_ChunkSum(self, chunk) for chunk in plan.owned(group.task)]
        self._finished_sums = 0
        self._expect()

    def part(self, whole: Bytes, chunk: int) -> Bytes:
        start, end = self.plan.chunks[chunk]
        return whole[start * self.dtype.itemsize : end * self.dtype.itemsize]

    @property
    def result(self) -> Bytes:
        if self._result is None:
            self._result = self.take(self._size)
        return self._result

    def _others(self) -> Iterable[int]:
        return (task for task in range(self.plan.tasks) if task != self._group.task)

    def _expect(self) -> None:
        """Asks for all messages that will come, in the order in which they are sent."""
        tag, last_tag = self._what.tags
        for task in self._others():
            root = self.plan.first_root(task)
            for number in range(len(self.plan.roots[task])):
                for each in self._sums:
                    buffer = self.take(self.part_size(each.chunk))
                    each.expect(root + number, buffer, self._comm.irecv(buffer, self._group.ranks[task], tag))
        for chunk, owner in enumerate(self.plan.owner_of):
            if owner != self._group.task:
                pending = self._comm.irecv(self.part(self.result, chunk), self._group.ranks[owner], last_tag)
                self._arriving.append((chunk, pending))

    def part_size(self, chunk: int) -> int:
        start, end = self.plan.chunks[chunk]
        return (end - start) * self.dtype.itemsize

    def contribute(self, block: int, array: Array) -> None:
        """Adds a block."""
        assert block == self.local.next, "blocks are contributed once, and in order"
        self.local.add(array)
        self.advance()

    def advance(self) -> bool:
        """Does what can be done now; whether the result is there."""
        if self._sent_roots < len(self.local.finished):
            self._send_roots()
        while self._finished_sums < len(self._sums) and self._sums[self._finished_sums].advance():
            self._send_sum(self._sums[self._finished_sums].chunk)  # sums go out in order
            self._finished_sums += 1
        if self._arriving:
            self._arriving = [each for each in self._arriving if not each[1].test()]
        return not self._arriving and self._finished_sums == len(self._sums)

    def _send_roots(self) -> None:
        """A root that is finished goes to the owners of its chunks; chunks of this task stay, to be added to."""
        while self._sent_roots < len(self.local.finished):
            root = self.local.finished[self._sent_roots]
            own = self.plan.first_root(self._group.task) + self._sent_roots
            for chunk, owner in enumerate(self.plan.owner_of):
                if owner != self._group.task:
                    self._send(self.part(root, chunk), owner, self._what.tags[0])
            for each in self._sums:
                each.have(own, self.part(root, each.chunk))
            self._sent_roots += 1

    def _send_sum(self, chunk: int) -> None:
        for task in self._others():
            self._send(self.part(self.result, chunk), task, self._what.tags[1])

    def _send(self, part: Bytes, task: int, tag: int) -> None:
        self._transfers.send(part, self._group.ranks[task], tag)

    def finish_sum(self, chunk: int, total: Bytes) -> None:
        """The sum of a chunk to its place; that of the only one stays where it is."""
        if len(self.plan.chunks) == 1:
            self._result = total
        else:
            np.copyto(self.part(self.result, chunk), total)

    def free(self) -> None:
        self._transfers.free(self.local.finished)
        self.local.finished.clear()

    def cancel(self) -> None:
        """Gives up what will not come. Memory that messages may still use is not used again."""
        for _, pending in self._arriving:
            pending.cancel()
        for each in self._sums:
            each.cancel()
        self._transfers.abandon()

    def awaited(self) -> int | None:
        """A rank that a message is missing from."""
        for each in self._sums[self._finished_sums :]:
            missing = each.missing()
            if missing is not None:
                ends = list(accumulate(len(roots) for roots in self.plan.roots))
                return self._group.ranks[next(task for task, end in enumerate(ends) if missing < end)]
        return self._group.ranks[self.plan.owner_of[self._arriving[0][0]]] if self._arriving else None


class _ChunkSum:
    """The additions for a chunk of which this task is the owner."""

    def __init__(self, whole: Combination, chunk: int) -> None:
        self.chunk = chunk
        self._whole = whole
        self._operands: list[Bytes | None] = [None] * sum(len(each) for each in whole.plan.roots)
        self._pending: list[Pending | None] = [None] * len(self._operands)
        self._next = 0

    def expect(self, operand: int, buffer: Bytes, pending: Pending) -> None:
        self._operands[operand] = buffer
        self._pending[operand] = pending

    def have(self, operand: int, value: Bytes) -> None:
        self._operands[operand] = value

    def advance(self) -> bool:
        """Adds as far as operands are there; whether the sum is complete."""
        dtype, steps = self._whole.dtype, self._whole.plan.steps
        while self._next < len(steps):
            left, right = steps[self._next]
            if not (self._is_there(left) and self._is_there(right)):
                return False
            add_to(self._whole.add, self._value(left).view(dtype), self._value(right).view(dtype))
            self._next += 1
        if not self._is_there(0):
            return False
        self._whole.finish_sum(self.chunk, self._value(0))
        return True

    def _value(self, operand: int) -> Bytes:
        value = self._operands[operand]
        assert value is not None
        return value

    def _is_there(self, operand: int) -> bool:
        pending = self._pending[operand]
        if pending is not None:
            if not pending.test():
                return False
            self._pending[operand] = None
        return self._operands[operand] is not None

    def missing(self) -> int | None:
        """The number of an operand that has not come."""
        return next((i for i in range(len(self._operands)) if not self._is_there(i)), None)

    def cancel(self) -> None:
        for pending in self._pending:
            if pending is not None:
                pending.cancel()
