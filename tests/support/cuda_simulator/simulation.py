"""Blocks of kernel text executed lane by lane on the host: a deterministic stand-in for a device, for tests.

`simulate(function, blocks, threads, arguments)` runs the blocks one after the other. The lanes of a block run in
threads of which one at a time holds the turn; a lane gives it up only at `barrier()` and at exchanges between the lanes
of a warp. They are all bound to the processor of the calling thread: to wake a thread of another one takes three times
as long. Text without lanes that meet runs in the calling thread alone.

Assumes the names of `simulated_names`. Guarantees the same order of lanes in each run, and an error where a device
would hang: lanes that wait at different places of the text. The same text also runs in numba's simulator, whose
threads offer what a lane is asked for here.
"""

from __future__ import annotations

import ctypes
import heapq
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

ATOMIC = threading.Lock()

Function = Callable[..., None]

_WAITING = frozenset(("barrier", "barrier_any", "warp_barrier"))


class SimulationError(RuntimeError):
    """The text does what would hang or break a device."""


class Lane(Protocol):
    """What runs a text: its place, memory of its block, and how it waits for others."""

    block: int
    blocks: int
    lane: int
    lanes: int
    shared_calls: int

    def barrier(self, site: int) -> None: ...

    def gather(self, value: Any, warp: int, site: int) -> list[Any]: ...

    def memory(self, number: int, count: int, kind: Any) -> Any: ...


_active: Lane | None = None


def _current() -> Lane:
    if _active is not None:
        return _active
    return _numba_lane()


def here() -> dict[str, Any]:
    """The names of the prelude that ask where a lane is, and the barrier."""
    return {
        "thread": lambda: _current().lane,
        "block_size": lambda: _current().lanes,
        "block_index": lambda: _current().block,
        "block_count": lambda: _current().blocks,
        "barrier": lambda: _current().barrier(_line(2)),
        "barrier_any": _barrier_any,
        "fence": lambda: None,
    }


def _barrier_any(flag: bool) -> bool:
    """The barrier, and whether the flag of any lane is set."""
    lane, site = _current(), _line(2)
    flags = lane.memory(0, lane.lanes, np.uint8)
    flags[lane.lane] = 1 if flag else 0
    lane.barrier(site)
    is_any = bool((flags == 1).any())
    lane.barrier(site)
    return is_any


def exchange(value: Any, warp: int, source: Callable[[int], int]) -> Any:
    """The value of the lane `source(own number within the warp)`; the own one where there is no such lane."""
    lane = _current()
    values = lane.gather(value, warp, _line(3))
    other = source(lane.lane % warp) % warp
    return values[other] if other < len(values) else value


def gather(value: Any, warp: int) -> tuple[int, list[Any]]:
    """The own number within the warp, and the values of all its lanes."""
    lane = _current()
    return lane.lane % warp, lane.gather(value, warp, _line(3))


def _line(depth: int) -> int:
    """The line of the text, this many calls up."""
    return sys._getframe(depth).f_lineno  # pyright: ignore[reportPrivateUsage]


def shared(count: int, kind: Any) -> Any:
    """Memory of the block: the n-th request of each lane is the same memory."""
    lane = _current()
    lane.shared_calls += 1
    return lane.memory(lane.shared_calls, count, kind)


def simulate(function: Function, blocks: int, threads: int, arguments: Sequence[Any]) -> None:
    """Runs a kernel. Arrays stand for pointers, integers for sizes."""
    together = bool(_names(function) & _WAITING) or any(
        word in name for name in _names(function) for word in ("shuffle", "_warp_", "matrix_")
    )
    for block in range(blocks):
        if together:
            _Block(function, arguments, block, blocks, threads).run()
        else:
            _one_by_one(function, arguments, block, blocks, threads)


def _names(function: Function) -> set[str]:
    return set(function.__code__.co_names)


def _one_by_one(function: Function, arguments: Sequence[Any], block: int, blocks: int, threads: int) -> None:
    global _active
    before = _active
    memories: dict[int, Any] = {}
    try:
        with np.errstate(all="ignore"):
            for lane in range(threads):
                _active = _Alone(block, blocks, lane, threads, memories)
                function(*arguments)
    finally:
        _active = before


class _Alone:
    """A lane of a text in which lanes do not meet."""

    def __init__(self, block: int, blocks: int, lane: int, lanes: int, memories: dict[int, Any]) -> None:
        self.block, self.blocks, self.lane, self.lanes, self._memories = block, blocks, lane, lanes, memories
        self.shared_calls = 0

    def barrier(self, site: int) -> None:
        raise SimulationError("a lane waits for others in a text without barriers")

    def gather(self, value: Any, warp: int, site: int) -> list[Any]:
        raise SimulationError("a lane exchanges values in a text without exchanges")

    def memory(self, number: int, count: int, kind: Any) -> Any:
        return self._memories.setdefault(number, _poisoned(count, kind))


def _poisoned(count: int, kind: Any) -> Any:
    """Memory whose content must not matter."""
    return np.frombuffer(bytearray(b"\xcb" * (count * np.dtype(kind).itemsize)), kind)


class _Block:
    """The lanes of one block, and whose turn it is."""

    def __init__(self, function: Function, arguments: Sequence[Any], block: int, blocks: int, threads: int) -> None:
        self.function, self.arguments, self.block, self.blocks = function, arguments, block, blocks
        self.memories: dict[int, Any] = {}
        self.lanes = [_Turn(self, lane, threads) for lane in range(threads)]
        self._ready = list(range(threads))  # a heap
        self.workers: list[_Worker] = []
        self.done = threading.Lock()
        self.done.acquire()
        self.failure: BaseException | None = None

    def run(self) -> None:
        global _active
        before = _active
        try:
            with _on_one_processor() as processor:
                self.processor = processor
                self.pass_on()
                self.done.acquire()
        finally:
            _active = before
        for worker in self.workers:
            worker.leave()
        if self.failure is not None:
            raise self.failure

    def pass_on(self) -> None:
        """Gives the turn to the next lane that can go on; ends the block if none is left."""
        lane = self._next()
        if lane is None and any(not each.finished for each in self.lanes) and self.failure is None:
            self.failure = SimulationError(self._stuck())
        if self.failure is not None:
            lane = next((each for each in self.lanes if not each.finished), None)
        if lane is None:
            self.done.release()
            return
        global _active
        _active = lane
        if not lane.started:
            lane.started = True
            self.workers.append(_worker(self.processor))
            self.workers[-1].begin(lane.work)
        lane.turn.release()

    def _next(self) -> _Turn | None:
        """Lanes go on in order; those that wait do once all of their group wait at the same place."""
        if self._ready:
            return self.lanes[heapq.heappop(self._ready)]
        left = [lane for lane in self.lanes if not lane.finished]
        for warp, group in {lane.waits[:2]: None for lane in left if lane.waits is not None}:
            members = [lane for lane in left if warp == 0 or lane.lane // warp == group]
            if members and len({lane.waits for lane in members}) == 1:
                for lane in members:
                    lane.waits = None
                self._ready = [lane.lane for lane in members[1:]]
                return members[0]
        return None

    def _stuck(self) -> str:
        waiting_at = sorted({lane.waits[2] for lane in self.lanes if not lane.finished and lane.waits is not None})
        return f"lanes wait for each other at different lines of the text: {waiting_at}"


@contextmanager
def _on_one_processor() -> Iterator[int]:
    """The calling thread stays where it is."""
    allowed = os.sched_getaffinity(0)
    processor = int(ctypes.CDLL(None).sched_getcpu())
    os.sched_setaffinity(0, {processor})
    try:
        yield processor
    finally:
        os.sched_setaffinity(0, allowed)


class _Worker:
    """A thread for one lane after the other: to start one takes longer than most lanes run."""

    def __init__(self, processor: int) -> None:
        self._work: Callable[[], None] = lambda: None
        self._requested, self._over = threading.Lock(), threading.Lock()
        self._requested.acquire()
        self._over.acquire()
        self._processor = processor  # a new thread is bound as the one that starts it
        self._thread = threading.Thread(target=self._run, name="dfc-lane", daemon=True)
        self._thread.start()

    def bind(self, processor: int) -> None:
        if processor != self._processor:
            assert self._thread.native_id is not None
            os.sched_setaffinity(self._thread.native_id, {processor})
            self._processor = processor

    def begin(self, work: Callable[[], None]) -> None:
        self._work = work
        self._requested.release()

    def leave(self) -> None:
        """Waits until the work is over; then there may be other work."""
        self._over.acquire()
        _IDLE.append(self)

    def _run(self) -> None:
        while True:
            self._requested.acquire()
            self._work()
            self._work = lambda: None
            self._over.release()


_IDLE: list[_Worker] = []
"""Workers without work. A process that forks has them no longer."""
os.register_at_fork(after_in_child=_IDLE.clear)


def _worker(processor: int) -> _Worker:
    try:
        worker = _IDLE.pop()
    except IndexError:
        return _Worker(processor)
    worker.bind(processor)
    return worker


class _Turn:
    """A lane that runs while it holds the turn."""

    def __init__(self, block: _Block, lane: int, lanes: int) -> None:
        self._block, self.block, self.blocks = block, block.block, block.blocks
        self.lane, self.lanes = lane, lanes
        self.shared_calls = 0
        self.started = self.finished = False
        self.waits: tuple[int, int, int] | None = None  # size (0: the block) and number of the warp, and the line
        self.turn = threading.Lock()
        self.turn.acquire()
        self.offered: list[Any] = [None, None]  # values of even and odd exchanges: one may still be read
        self.exchanges = 0

    def work(self) -> None:
        self.turn.acquire()
        try:
            if self._block.failure is None:
                with np.errstate(all="ignore"):
                    self._block.function(*self._block.arguments)
        except BaseException as error:
            if self._block.failure is None:
                self._block.failure = error
        self.finished = True
        self._block.pass_on()

    def _wait(self, warp: int, group: int, site: int) -> None:
        self.waits = (warp, group, site)
        self._block.pass_on()
        self.turn.acquire()
        if self._block.failure is not None:
            raise SimulationError("another lane failed")

    def barrier(self, site: int) -> None:
        self._wait(0, 0, site)

    def gather(self, value: Any, warp: int, site: int) -> list[Any]:
        slot, first = self.exchanges % 2, self.lane // warp * warp
        self.exchanges += 1
        self.offered[slot] = value
        self._wait(warp, self.lane // warp, site)
        return [lane.offered[slot] for lane in self._block.lanes[first : first + warp]]

    def memory(self, number: int, count: int, kind: Any) -> Any:
        return self._block.memories.setdefault(number, _poisoned(count, kind))


# --- numba's simulator: a thread a lane, found by the thread that asks


class _NumbaLane:
    """A thread of numba's simulator as a lane."""

    def __init__(self, thread: Any) -> None:
        self._thread, manager = thread, thread._manager
        self.block, self.blocks = thread.blockIdx.x, manager._grid_dim[0]
        self.lane, self.lanes = thread.threadIdx.x, manager._block_dim[0]
        self.shared_calls, self._turns = 0, 0
        with ATOMIC:
            self._common: dict[Any, Any] = manager.__dict__.setdefault("dfc_common", {})

    def barrier(self, site: int) -> None:
        self._thread.syncthreads()

    def gather(self, value: Any, warp: int, site: int) -> list[Any]:
        group, first = self.lane // warp, self.lane // warp * warp
        with ATOMIC:
            meeting = self._common.setdefault(("meeting", group), threading.Barrier(min(warp, self.lanes)))
            values = self._common.setdefault(("values", group, self._turns % 2), {})
        self._turns += 1
        values[self.lane] = value
        meeting.wait()
        return [values[lane] for lane in range(first, min(first + warp, self.lanes))]

    def memory(self, number: int, count: int, kind: Any) -> Any:
        with ATOMIC:
            return self._common.setdefault(("shared", number), _poisoned(count, kind))


def _numba_lane() -> Lane:
    thread: Any = threading.current_thread()
    if not hasattr(thread, "_manager"):
        raise SimulationError("a text is running outside of a simulated launch")
    if not hasattr(thread, "dfc_lane"):
        thread.dfc_lane = _NumbaLane(thread)
    return thread.dfc_lane
