"""Everything that the tasks of a job make together, by name: sums and other combinations over the blocks of a batch.

Assumes that every task contributes each of its blocks once, in order, and then takes the result, which may be repeated
as often as one likes; and that `flush` comes before any wait elsewhere. Guarantees the same bits on all tasks for any
number of them, and memory that is used again. Large values leave as soon as they are there; small ones when somebody
waits, all in one message.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from dfc_runtime.distributed.reduce.exchange import Exchange
from dfc_runtime.distributed.reduce.gathering import Gathering
from dfc_runtime.distributed.reduce.operation import CONCAT, Group, Operation
from dfc_runtime.distributed.reduce.reduction import Combination
from dfc_runtime.distributed.reduce.reduction_plan import CHUNK_BYTES, EXCHANGE, TREES, Plan, make_plan
from dfc_runtime.distributed.reduce.small_sums import SmallSum
from dfc_runtime.distributed.reduce.tree_sums import TreeSum
from dfc_runtime.distributed.transport.buffers import Pool
from dfc_runtime.distributed.transport.comm import TOGETHER, Array, Comm

Work = Combination | TreeSum | Gathering
_OTHERS_EVERY = 4
"""Looks at one thing between two looks at all others."""
Wait = Callable[[Callable[[], bool], str], None]
"""Waits until a condition holds, for the sake of what has that name."""


class Reducer:
    """Everything that tasks make together, by name. `tag` is that of small values."""

    def __init__(self, comm: Comm, pool: Pool, wait: Wait, chunk_bytes: int = CHUNK_BYTES, tag: int = TOGETHER) -> None:
        self._comm = comm
        self._pool = pool
        self._wait_for = wait
        self._exchange = Exchange(comm, tag)
        self._small: dict[str, SmallSum] = {}
        self.flush = self._exchange.flush
        self._chunk_bytes = chunk_bytes
        self._declared: dict[str, tuple[Operation, Group]] = {}
        self._plans: dict[tuple[str, int, int], Plan] = {}
        self._open: dict[str, Work] = {}
        self._leaving: dict[str, Work] = {}
        self._abandoned: list[Work] = []
        self._turns = 0

    def declare(self, key: str, what: Operation, group: Group) -> None:
        """What a name means; said once, before it is used."""
        self._declared[key] = (what, group)

    def knows(self, key: str) -> bool:
        return key in self._declared

    def contribute(self, key: str, block: int, array: Array) -> None:
        """One block of this task, in order. The array is not needed afterwards."""
        small = self._small.get(key)
        if small is not None and small.elements == array.size:
            small.contribute(block, array)
            return
        combination = self._open.get(key)
        if combination is None:
            combination = self._begin(key, array)
            if isinstance(combination, SmallSum):
                self._small[key] = combination
                combination.contribute(block, array)
                return
            self._small.pop(key, None)
            self._open[key] = combination
        assert array.dtype == combination.dtype
        combination.contribute(block, array)
        self._advance_another()

    def contribute_all(self, key: str, first: int, stack: Array) -> None:
        """All blocks of this task, one behind the other along the first axis."""
        small = self._small.get(key)
        if small is not None and small.elements * len(stack) == stack.size:
            small.contribute_all(first, stack)
            return
        for block, part in enumerate(stack, first):
            self.contribute(key, block, part)

    def combined(self, key: str, out: Array, scale: float = 1.0) -> None:
        """Waits for the sum, and writes it to `out`, which is row-major, times the scale."""
        self.flush()
        small = self._small.get(key)
        if small is not None and key not in self._open:
            if not small.advance():
                self._wait(self._progress(small) if self._open else small.advance, key)
            small.finish(out, scale)
            return
        combination = self._open[key]
        if not combination.advance():
            self._wait(self._progress(combination), key)
        if out.size:
            _write(combination.result.view(out.dtype), out.reshape(-1), scale)
        del self._open[key]
        if combination.has_left():
            combination.free()
        else:
            self._leaving[key] = combination

    def _wait(self, condition: Callable[[], bool], key: str) -> None:
        self.flush()
        self._wait_for(condition, key)

    def _progress(self, work: Work | SmallSum) -> Callable[[], bool]:
        """A condition that moves this on at every look, and everything else at some of them."""
        looks = itertools.count(1)

        def has_come() -> bool:
            if next(looks) % _OTHERS_EVERY == 0:
                self.advance()
            return work.advance()

        return has_come

    def advance(self) -> bool:
        """Moves everything on that can be; always true, to be part of a condition."""
        for combination in self._open.values():
            combination.advance()
        for key in [key for key, combination in self._leaving.items() if combination.has_left()]:
            self._leaving.pop(key).free()
        return True

    def _advance_another(self) -> None:
        """One of the others in turn: to look at all of them each time would cost too much where they are many."""
        self._turns += 1
        others = list(self._open.values())
        others[self._turns % len(others)].advance()

    def finish(self) -> None:
        """Waits until all messages have left."""
        self.flush()
        if self._leaving:
            self._wait(lambda: self.advance() and not self._leaving, next(iter(self._leaving)))
        if not self._exchange.has_left():
            self._wait(self._exchange.has_left, next(iter(self._small)))

    def cancel(self) -> None:
        """Gives up all that is under way. Its messages must not be taken for those of a later sum of that name."""
        for combination in self._open.values():
            combination.cancel()
        self._abandoned += [*self._open.values(), *self._leaving.values()]  # MPI may still read their memory
        self._open.clear()
        self._leaving.clear()

    def awaited(self, key: str) -> int | None:
        """The rank whose part of a sum is missing, if one is."""
        work = self._open.get(key) or self._small.get(key)
        return work.awaited() if work is not None else None

    def _begin(self, key: str, array: Array) -> Work | SmallSum:
        what, group = self._declared[key]
        known = self._leaving.pop(key, None)
        if known is not None:
            self._wait(known.has_left, key)
            known.free()
        if what.combination == CONCAT:
            return Gathering(what, group, self._comm, self._pool, array)
        plan = self._plan(key, array)
        if plan.how == EXCHANGE:
            return SmallSum(what, plan, group, self._exchange, self._pool, array)
        kind = TreeSum if plan.how == TREES else Combination
        return kind(what, plan, group, self._comm, self._pool, array.dtype)

    def _plan(self, key: str, array: Array) -> Plan:
        shape = (key, array.size, array.dtype.itemsize)
        plan = self._plans.get(shape)
        if plan is None:
            what, group = self._declared[key]
            first, tasks = what.number % len(group.ranks), len(group.ranks)
            plan = self._plans[shape] = make_plan(what.blocks, tasks, *shape[1:], first, self._chunk_bytes)
        return plan


def _write(value: Array, out: Array, scale: float) -> None:
    if scale == 1.0:
        np.copyto(out, value)
    else:
        with np.errstate(all="ignore"):
            np.multiply(value, out.dtype.type(scale), out=out)  # type: ignore[call-overload]
