"""Lanes in threads, for what cannot give up its turn as kernel text in Python does.

`in_threads` runs machine code in the place of `simulation.simulate`: the lanes of a block run in threads of which one
at a time holds the turn, given up only where lanes meet (`at_once`). They are all bound to the processor of the calling
thread: to wake a thread of another one takes three times as long. `numba_lane` is a thread of numba's simulator, all of
which run at once.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

import numpy as np

from tests.support.cuda_simulator.simulation import (
    BlockLane,
    Function,
    Lane,
    SimulationError,
    Steps,
    Turns,
    activate,
    block_lanes,
    block_memory,
    current,
    launched,
)

_SHARED = threading.Lock()


class _Waiting(Lane, Protocol):
    def wait(self, warp: int, site: int) -> None:
        """Returns once all lanes of the warp, or of the block for 0, have come here."""


def at_once(steps: Callable[..., Steps]) -> Callable[..., Any]:
    """A function in which lanes meet as one that waits for the others."""

    def function(*arguments: Any) -> Any:
        mine, lane = steps(*arguments), cast(_Waiting, current())
        try:
            while True:
                warp = next(mine)
                lane.wait(warp, mine.gi_frame.f_lineno)
        except StopIteration as end:
            return end.value

    return function


def in_threads(function: Function, blocks: int, threads: int, arguments: Sequence[Any]) -> None:
    """Runs code whose lanes meet through functions made by `at_once`."""
    with launched():
        for block in range(blocks):
            _Block(function, arguments, block, blocks, threads).run()


class _Block:
    """The lanes of one block, and whose turn it is."""

    def __init__(self, function: Function, arguments: Sequence[Any], block: int, blocks: int, threads: int) -> None:
        self.function, self.arguments = function, arguments
        self.lanes = block_lanes(_ThreadLane, block, blocks, threads)
        for lane in self.lanes:
            lane.begin_in(self)
        self.turns = Turns(self.lanes)
        self.workers: list[_Worker] = []
        self.done = threading.Lock()
        self.done.acquire()
        self.failure: BaseException | None = None

    def run(self) -> None:
        with _on_one_processor() as processor:
            self.processor = processor
            self.pass_on()
            self.done.acquire()
        for worker in self.workers:
            worker.leave()
        if self.failure is not None:
            raise self.failure

    def pass_on(self) -> None:
        """Gives the turn to the next lane that can go on; ends the block if none is left."""
        lane = None
        try:
            lane = self.turns.next()
        except SimulationError as error:
            self.failure = self.failure or error
        if self.failure is not None:
            lane = next((each for each in self.lanes if not each.finished), None)
        if lane is None:
            self.done.release()
            return
        activate(lane)
        if not lane.started:
            lane.started = True
            self.workers.append(_worker(self.processor))
            self.workers[-1].begin(lane.work)
        lane.turn.release()


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


class _ThreadLane(BlockLane):
    """A lane that runs while it holds the turn."""

    def begin_in(self, block: _Block) -> None:
        self._block, self.started = block, False
        self.turn = threading.Lock()
        self.turn.acquire()

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

    def wait(self, warp: int, site: int) -> None:
        self.wait_with(warp, site)
        self._block.pass_on()
        self.turn.acquire()
        if self._block.failure is not None:
            raise SimulationError("another lane failed")


class _NumbaLane:
    """A thread of numba's simulator as a lane."""

    def __init__(self, thread: Any) -> None:
        self._thread, manager = thread, thread._manager
        self.block, self.blocks = thread.blockIdx.x, manager._grid_dim[0]
        self.lane, self.lanes = thread.threadIdx.x, manager._block_dim[0]
        self.shared_calls, self._exchanges = 0, 0
        with _SHARED:
            self._common: dict[Any, Any] = manager.__dict__.setdefault("dfc_common", {})

    def wait(self, warp: int, site: int) -> None:
        if not warp:
            self._thread.syncthreads()
            return
        with _SHARED:
            members = min(warp, self.lanes)
            meeting = self._common.setdefault(("meeting", self.lane // warp), threading.Barrier(members))
        meeting.wait()

    def offer(self, value: Any, warp: int) -> Mapping[int, Any]:
        with _SHARED:
            values = self._common.setdefault(("values", self.lane // warp, self._exchanges % 2), {})
        self._exchanges += 1
        values[self.lane] = value
        return values

    def memory(self, number: int, count: int, kind: Any) -> Any:
        with _SHARED:
            return block_memory(self._common, ("shared", number), count, kind)


def numba_lane() -> Lane:
    """The lane that the calling thread is."""
    thread: Any = threading.current_thread()
    if not hasattr(thread, "_manager"):
        raise SimulationError("a text is running outside of a simulated launch")
    if not hasattr(thread, "dfc_lane"):
        thread.dfc_lane = _NumbaLane(thread)
    return thread.dfc_lane
