"""Queues and the copies of runners, as the run side sees them: the run half of `entries/queues` and `entries/runners`.

Assumes an image with queues, and memory of theirs that stays while anybody here is used. Guarantees that a copy runs
on the thread that calls `run`, without the interpreter's lock, on memory of its own; and that whoever holds a copy
holds the code it is in. What is read here of others may have changed by the time it is looked at.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dfc_driver_cpu.context import CACHE_LINE, NEVER, Context, QueueHeader, RunnerGroup, Turn
from dfc_runtime.code_memory import MappedCode
from dfc_runtime.runners.native import OPEN, RunnerEnd, Waiting

Array = NDArray[np.generic]
CLOSE_ENTRY, STOP_ENTRY, HOLD_ENTRY = "dfc_queue_close", "dfc_runner_stop", "dfc_runner_hold"
LOCK_ENTRY, UNLOCK_ENTRY = "dfc_lock", "dfc_unlock"
YIELD = ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value
"""What a runner asks when its attention is drawn: it does nothing, and so the answer is to stop."""
HOST_CALL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)


NAP = 50_000_000
"""Nanoseconds after which a call with a limit looks whether it is to stop, as others do."""
Native = Callable[..., Any]


class CallingContext(Protocol):
    """The context of a call."""

    structure: Context


class Limits(threading.local):
    """Until when the calls of this thread wait for queues, and since when, in nanoseconds of the clock; 0: always."""

    begin = end = 0


class CpuQueue:
    """A queue in memory."""

    def __init__(self, memory: Array, context: Context, close: Native) -> None:
        self._memory = memory  # lives as long as whoever looks
        self._address = memory.ctypes.data
        self._header = QueueHeader.from_address(self._address)
        self._context, self._close = context, close

    @property
    def numbers(self) -> tuple[int, int, int]:
        """How many elements were put in and taken out so far, and the state."""
        return self._header.put, self._header.taken, self._header.closed

    @property
    def acquired(self) -> int | None:
        """Of a mutex that is held, the fault site of the line that acquired it."""
        put, taken, _ = self.numbers
        line: int = self._header.acquired
        return line - 1 if put != taken and line else None

    def close(self, state: int) -> None:
        """Sets the state, if it goes further than the present one, and wakes all who wait."""
        self._close(ctypes.addressof(self._context), self._address, state)

    def wake(self) -> None:
        """Has all who wait look again."""
        self.close(OPEN)

    def set_contents(self, count: int, fullest: int, state: int) -> None:
        """Says that so many elements lie in the first slots; the caller has put them there, and holds the lock."""
        header = self._header
        header.put, header.taken, header.fullest, header.closed = count, 0, fullest, state

    def set_numbers(self, put: int, taken: int, state: int) -> None:
        """Says how many elements were put in and taken out so far; the caller holds the lock."""
        header = self._header
        header.put, header.taken, header.closed = put, taken, state

    def is_blocked(self, needed: int, *, to_put: bool) -> bool:
        """Whether a put has no room, or a take waits for more elements."""
        put, taken, state = self.numbers
        if to_put:
            return state == OPEN and put - taken >= needed
        return state == OPEN and (self._header.fullest or put - taken) < needed


class CpuCopy:
    """One copy of a runner, on memory of its own."""

    def __init__(self, runner: CpuRunner, context: Context, kept: object, ask: Callable[[int, int], None]) -> None:
        self._runner, self._context = runner, context
        self._host = HOST_CALL(ask)
        self._kept = kept
        context.host_call = ctypes.cast(self._host, ctypes.c_void_p).value
        context.poll = YIELD
        context.runner = runner.address

    @property
    def iteration(self) -> int:
        """The one that it is in, or was in last."""
        return self._context.iteration

    def run(self, slots: int) -> RunnerEnd:
        """Runs iterations on these slots until there is no further one."""
        context = self._context
        code = self._runner.loop(ctypes.addressof(context), slots)
        error = context.take_error()
        is_over = not code or bool(context.leave or context.stopping)
        context.leave = context.stopping = 0
        site, values = (error[0] - 1, error[1]) if error is not None else (-1, ())
        return RunnerEnd(context.iteration, site, values, is_over=is_over)

    def hurry(self) -> None:
        """Has it end in the midst of an iteration, where it next looks."""
        self._context.attention = 1

    def waiting(self) -> Waiting | None:
        """What it waits for."""
        return self._runner.queues.waiting(self._context)


class CpuRunner:
    """The copies of one runner, whose native code is `loop`."""

    def __init__(self, queues: CpuQueues, loop: Native, turns: int) -> None:
        self.queues, self.loop = queues, loop
        size = ctypes.sizeof(RunnerGroup) + turns * ctypes.sizeof(Turn)
        self._memory = np.zeros(size + CACHE_LINE, np.uint8)
        self.address = -(-self._memory.ctypes.data // CACHE_LINE) * CACHE_LINE
        self._group = RunnerGroup.from_address(self.address)
        self._group.ended, self._group.turns = NEVER, turns

    def copy(self, ask: Callable[[int, int, int], None]) -> CpuCopy:
        """A further copy; `ask(iteration, site, frame)` answers its requests."""
        context, scratch = self.queues.make_context()
        return CpuCopy(self, context, (scratch, self.queues), lambda site, frame: ask(context.iteration, site, frame))

    def stop(self) -> None:
        """Lets no further iteration begin, and nobody wait for a turn."""
        self.queues.stop(ctypes.addressof(self.queues.context), self.address)

    def hold(self) -> None:
        """Lets no further iteration begin; those that have begun end, as far as they get what they wait for."""
        self.queues.hold(ctypes.addressof(self.queues.context), self.address)

    @property
    def is_held(self) -> bool:
        """Whether no iteration is to begin."""
        return bool(self._group.hold)

    def rewind(self) -> int:
        """Lets those iterations be the next ones again that were left because the runner is held; how many of them
        have drawn. No such iteration is under way."""
        group = self._group
        group.next -= group.retreated
        for number in range(group.turns):
            turn = self._turn(number)
            turn.next = min(turn.next, group.next)
        drawn = int(group.drawn)
        group.retreated = group.drawn = 0
        return drawn

    def release(self) -> None:
        """Lets iterations begin again."""
        self._group.hold = 0

    def _turn(self, number: int) -> Turn:
        address = self.address + ctypes.sizeof(RunnerGroup) + number * ctypes.sizeof(Turn)
        return Turn.from_address(address)

    @property
    def iterations(self) -> int:
        """How many have begun, but for one that a copy did not begin any more."""
        return int(min(self._group.next, self._group.ended))

    @property
    def turn_wait(self) -> int:
        """Nanoseconds for which copies have waited for turns, where that is measured."""
        return int(self._group.turn_wait)

    def has_turn(self, turn: int, iteration: int) -> bool:
        """Whether it is the turn of an iteration."""
        is_next: bool = self._turn(turn).next == iteration
        return is_next

    def is_over(self, iteration: int) -> bool:
        """Whether an iteration is not to go on."""
        is_behind: bool = self._group.ended < iteration
        return is_behind or self._group.stop != 0


class CpuQueues:
    """The queues and runners of an image. `make_context` gives a context for one thread, and what it needs to live;
    `all_calls` and `free_calls` are the contexts of calls, and those that no call uses; `measure_waits` has further
    contexts count their waits."""

    def __init__(
        self,
        image: MappedCode,
        symbols: Mapping[str, int],
        resources: Mapping[str, Array],
        make_context: Callable[[], tuple[Context, Array]],
        all_calls: Sequence[CallingContext],
        free_calls: Sequence[CallingContext],
        measure_waits: Callable[[int], NDArray[np.int64]],
    ) -> None:
        self._image, self._symbols, self._resources = image, symbols, resources
        self._names = list(resources)
        self.make_context = make_context
        self.context, self._scratch = make_context()
        self._all_calls, self._free_calls = all_calls, free_calls
        self._measure_waits = measure_waits
        pair = (ctypes.c_void_p, ctypes.c_void_p)
        self._close = image.function(symbols[CLOSE_ENTRY], None, (*pair, ctypes.c_int64))
        self.stop: Native = image.function(symbols[STOP_ENTRY], None, pair)
        self.hold: Native = image.function(symbols[HOLD_ENTRY], None, pair)
        self._lock, self._unlock = (image.function(symbols[name], None, pair) for name in (LOCK_ENTRY, UNLOCK_ENTRY))
        self._queues: dict[str, CpuQueue] = {}
        self._runners: dict[int, CpuRunner] = {}
        self.on_wait: Callable[[Waiting], None] | None = None
        self.on_late: Callable[[Waiting, float], None] | None = None
        self._limits = Limits()

    def queue(self, name: str) -> CpuQueue:
        """A queue by its name."""
        if name not in self._queues:
            self._queues[name] = CpuQueue(self._resources[name], self.context, self._close)
        return self._queues[name]

    def runner(self, number: int, turns: int) -> CpuRunner:
        """The runner that is the entry of this number."""
        pair = (ctypes.c_void_p, ctypes.c_void_p)
        loop = self._image.function(self._symbols[f"runner_{number}_0"], ctypes.c_int64, pair)
        runner = CpuRunner(self, loop, turns)
        self._runners[runner.address] = runner
        return runner

    def measure_waits(self, sites: int) -> NDArray[np.int64]:
        """Before the first call, and before runners: has all count at each fault site nanoseconds of waiting, and
        times."""
        table = self._measure_waits(sites)
        for call in self._all_calls:
            call.structure.waits = table.ctypes.data
        return table

    def lock(self, address: int) -> None:
        """Returns when the lock at this address is held alone, as native code would hold it."""
        self._lock(ctypes.addressof(self.context), address)

    def unlock(self, address: int) -> None:
        """Gives it back."""
        self._unlock(ctypes.addressof(self.context), address)

    def calls(self) -> list[Waiting | None]:
        """What each call that is under way waits for."""
        free = {id(each) for each in list(self._free_calls)}
        return [self.waiting(each.structure) for each in list(self._all_calls) if id(each) not in free]

    @contextmanager
    def limited(self, seconds: float) -> Generator[None]:
        """Calls of this thread wait for so many seconds from now, and no longer."""
        limits = self._limits
        limits.begin = time.monotonic_ns()
        limits.end = limits.begin + int(seconds * 1e9)
        try:
            yield
        finally:
            limits.end = 0

    def limiting(self, function: Native) -> Native:
        """A function of a context and slots which keeps to the limit of its thread."""
        limits = self._limits

        def call(context: ctypes.c_void_p, slots: int) -> object:
            end = limits.end
            if not end:
                return function(context, slots)
            structure = Context.from_address(context.value or 0)
            _wake(structure, min(end, time.monotonic_ns() + NAP))
            try:
                return function(context, slots)
            finally:
                structure.wake_seconds = 0

        return call

    def keep(self) -> None:
        """Keeps the code in memory, as threads stay in it."""
        self._image.keep()

    def waiting(self, context: Context) -> Waiting | None:
        """What the thread with this context waits for."""
        what: int = context.waiting
        if what == 0:
            return None
        runner = self._runners.get(context.runner)
        stays = runner is None or not runner.is_over(context.iteration)
        if what < 0:
            assert runner is not None
            return Waiting("", False, 0, -1, is_blocked=stays and not runner.has_turn(-1 - what, context.iteration))
        number, to_put = divmod(what - 1, 2)
        name, needed = self._names[number], int(context.needed)
        stays = stays and context.wake_seconds == 0  # a call with a limit goes on in any case
        is_blocked = stays and self.queue(name).is_blocked(needed, to_put=bool(to_put))
        return Waiting(name, bool(to_put), needed, context.waiting_fault, is_blocked=is_blocked)

    def look(self, context: Context) -> None:
        """In the thread of a call, which is asking whether to stop: if it waits, lets that be known."""
        if self.on_wait is None or self.on_late is None or not context.waiting:
            return
        waiting = self.waiting(context)
        if waiting is None:
            return
        if not context.wake_seconds:
            self.on_wait(waiting)
            return
        now, limits = time.monotonic_ns(), self._limits
        if now >= limits.end and self.queue(waiting.queue).is_blocked(waiting.needed, to_put=waiting.to_put):
            self.on_late(waiting, (now - limits.begin) / 1e9)
        _wake(context, min(limits.end, now + NAP) if limits.end > now else now + NAP)


def _wake(context: Context, when: int) -> None:
    """Has a call that waits look at this time whether it is to stop."""
    context.wake_seconds, context.wake_nanoseconds = divmod(when, 1_000_000_000)
