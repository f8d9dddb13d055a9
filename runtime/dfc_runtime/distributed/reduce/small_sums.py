"""Small sums over the blocks of a batch, and sums of one task: every task adds all of it.

Assumes what `reduction` does of contributions. Guarantees the same additions as there, so the same bits. One object
serves a sum in step after step: what is made here is made once.
"""

from __future__ import annotations

import numpy as np

from dfc_runtime.distributed.reduce.exchange import Exchange, framing
from dfc_runtime.distributed.reduce.operation import ADDITIONS, Group, Operation
from dfc_runtime.distributed.reduce.reduction import LocalSums, add_into, add_to
from dfc_runtime.distributed.reduce.reduction_plan import Plan, dealt
from dfc_runtime.distributed.transport.buffers import Pool
from dfc_runtime.distributed.transport.comm import Array, Bytes


class SmallSum:
    """A sum of values of one size. What others send of it is asked for only when it is wanted."""

    def __init__(self, what: Operation, plan: Plan, group: Group, exchange: Exchange, pool: Pool, block: Array) -> None:
        self.dtype = block.dtype
        self.elements = block.size
        self._number = what.number
        self._plan = plan
        self._group = group
        self._exchange = exchange
        self._pool = pool
        self._add = ADDITIONS[what.combination]
        self._local = LocalSums(plan, group.task, block.nbytes, pool, self._add)
        self._last = dealt(plan.blocks, plan.tasks, group.task)[1]
        self._others = tuple(task for task in range(plan.tasks) if task != group.task)
        self._ranks = tuple(group.ranks[task] for task in self._others)
        self._framing = framing(what.number, block.nbytes * len(plan.roots[group.task]))
        self._parts: dict[int, Bytes] = {}

    def contribute(self, block: int, array: Array) -> None:
        """Adds a block of this task. With the last one, all that others need is there."""
        assert block == self._local.next, "blocks are contributed once, and in order"
        self._local.add(array)
        self._share()

    def contribute_all(self, first: int, stack: Array) -> None:
        """Likewise all blocks of this task, one behind the other."""
        assert first == self._local.next, "blocks are contributed once, and in order"
        self._local.add_all(stack)
        self._share()

    def _share(self) -> None:
        local = self._local
        if local.next == self._last and self._others and self.elements:
            before, behind = self._framing
            self._exchange.add(before, local.finished, behind, self._ranks)

    def advance(self) -> bool:
        """Whether the parts of all tasks are there."""
        if not self._others or not self.elements:
            return True
        self._exchange.look()
        for task, rank in zip(self._others, self._ranks, strict=True):
            if task not in self._parts:
                part = self._exchange.take(self._number, rank)
                if part is not None:
                    self._parts[task] = part
        return len(self._parts) == len(self._others)

    def finish(self, out: Array, scale: float) -> None:
        """Writes the sum times the scale to a row-major array, and is ready for the next one."""
        flat = out.reshape(-1)
        if flat.size:
            self._sum(flat)
            if scale != 1.0:
                with np.errstate(all="ignore"):
                    np.multiply(flat, self.dtype.type(scale), out=flat)  # type: ignore[call-overload]
        self._parts.clear()
        for buffer in self._local.finished:
            self._pool.give(buffer)
        self._local.reset()

    def _sum(self, out: Array) -> None:
        operands = self._operands()
        if not self._plan.steps:
            np.copyto(out, operands[0])
            return
        *steps, (left, right) = self._plan.steps
        for first, second in steps:  # in place: nobody needs the parts any more
            add_to(self._add, operands[first], operands[second])
        add_into(self._add, operands[left], operands[right], out)

    def _operands(self) -> list[Array]:
        """The roots of all tasks, in their order."""
        operands: list[Array] = []
        size = self.elements * self.dtype.itemsize
        for task, roots in enumerate(self._plan.roots):
            if task == self._group.task:
                operands += [root.view(self.dtype) for root in self._local.finished]
            elif len(roots) == 1:
                operands.append(self._parts[task].view(self.dtype))
            else:
                part = self._parts[task]
                operands += [part[i * size : (i + 1) * size].view(self.dtype) for i in range(len(roots))]
        return operands

    def awaited(self) -> int | None:
        """A rank whose part is missing."""
        missing = (rank for task, rank in zip(self._others, self._ranks, strict=True) if task not in self._parts)
        return next(missing, None)
