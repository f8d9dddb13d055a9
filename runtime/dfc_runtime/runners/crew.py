"""The threads of a program's runners.

Assumes native queues. Guarantees that a copy runs on a daemon thread of its own, without Python for an iteration; that
when the last copy of a runner has ended, its queues say so, with the outcome of its first iteration that did not end
well: so that what takers see does not depend on the number of copies; and that nothing here keeps the program alive.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import field
from weakref import WeakSet

from dfc_runtime.calls.faults import run_error
from dfc_runtime.calls.frames import Frame, FrameLayout
from dfc_runtime.calls.memory import Arena
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import EndOfData, LimitError
from dfc_runtime.formats.manifest import Entry, FaultSite
from dfc_runtime.runners.connections import Connections
from dfc_runtime.runners.native import (
    CLOSED,
    END_OF_DATA,
    FAILED,
    PUT_CLOSED,
    QUEUE_FAILED,
    QUEUE_STOPPED,
    STOPPED,
    NativeCopy,
    NativeQueues,
    NativeRunner,
    RunnerEnd,
)

STACK_BYTES = 1 << 20
"""Of a thread: there may be thousands."""
_QUIET = frozenset({END_OF_DATA, PUT_CLOSED, QUEUE_STOPPED})
"""Reasons for which a runner ends, and has not failed: there is nothing more to take, or nobody wants more."""
_PATIENCE = 2.0
"""Seconds in which iterations that are under way can end, before they are left in their midst."""
JOIN_SECONDS = 10.0
_LONGEST_NAP = 0.02
_starting = threading.Lock()
_crews: WeakSet[Crew] = WeakSet()


@dataclass(frozen=True, slots=True)
class Failure:
    """What made a runner fail, in which iteration."""

    runner: Entry
    iteration: int
    problem: BaseException


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an iteration came to that did not end well: the end of data, or a failure."""

    iteration: int
    failure: Failure | None


Parked = tuple[NativeCopy, Frame]
"""A copy that is not running, and the slots that it runs on."""


@dataclass(slots=True)
class Running:
    """A runner with its copies: those that run, and the outcomes of those that do not."""

    entry: Entry
    native: NativeRunner
    threads: list[threading.Thread] = field(default_factory=list[threading.Thread])
    living: list[NativeCopy] = field(default_factory=list[NativeCopy])
    parked: list[Parked] = field(default_factory=list[Parked])
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    counted: tuple[int, int] = (0, 0)
    """The iterations and the nanoseconds of waiting for turns that the total has."""
    is_apart: bool = False
    """Whether its end is not that of the runner: its queues stay open."""


@dataclass(slots=True)
class Total:
    """What the copies of a runner have done until they ended, however often it was started: iterations, and
    nanoseconds between the begin and the end of their threads, and of waiting for turns where that is measured."""

    copies: int
    iterations: int = 0
    alive: int = 0
    turn_wait: int = 0


Ask = Callable[[int, int, int], None]
"""Answers a request in an iteration: of this site, with the frame at this address."""


class Crew:
    """All runners of a program that have been started. `take_failure` is what a request of the thread has raised."""

    def __init__(
        self,
        queues: NativeQueues,
        connections: Connections,
        faults: Sequence[FaultSite],
        ask: Ask,
        take_failure: Callable[[], BaseException | None],
    ) -> None:
        self.queues, self.connections, self._faults = queues, connections, faults
        self._ask, self._take_failure = ask, take_failure
        self.running: dict[str, Running] = {}
        self.failures: dict[str, Failure] = {}
        self.totals: dict[str, Total] = {}
        self.is_stopping = self.is_forked = self.is_held = False
        self._lock = threading.Lock()
        self.changed = threading.Condition(self._lock)
        """Told when a copy has ended."""
        self._late: list[tuple[Entry, int]] = []
        _crews.add(self)

    # --- starting

    def start(self, entry: Entry, arena: int) -> None:
        """Starts all copies of a runner; nothing if it was started before. While others are held it waits."""
        with self._lock:
            if self.is_held:
                self._late.append((entry, arena))
            if entry.name in self.running or self.is_stopping or self.is_held:
                return
            running, pairs = self._prepared(entry, arena)
        self._start_threads(running, pairs, waits=True)

    def _prepared(self, entry: Entry, arena: int) -> tuple[Running, list[Parked]]:
        """A runner whose copies are about to run."""
        number, turns = self.connections.numbers[entry.name], self.connections.turns(entry.name)
        running = Running(entry, self.queues.runner(number, turns))
        pairs = [(running.native.copy(self._ask), _frame(entry, arena)) for _ in range(entry.copies)]
        running.living.extend(copy for copy, _ in pairs)
        self.running[entry.name] = running
        self.totals.setdefault(entry.name, Total(entry.copies))
        return running, pairs

    def run_apart(self, entry: Entry, arena: int) -> Failure | None:
        """Runs a runner until it has nothing more to read, while no other one runs: what made it fail, if something
        did. Afterwards it is as if it had not been started."""
        with self._lock:
            assert self.is_held and entry.name not in self.running
            running, pairs = self._prepared(entry, arena)
            running.is_apart = True
        self._start_threads(running, pairs)
        try:
            with self.changed:
                while running.living:
                    self.changed.wait()
        finally:
            running.native.stop()  # such as by Ctrl-C
            for thread in running.threads:
                thread.join()
            with self._lock:
                del self.running[entry.name]
        return min(running.outcomes, key=lambda each: each.iteration).failure if running.outcomes else None

    @contextmanager
    def holding(self) -> Generator[None]:
        """While this lasts, no runner is started."""
        with self._lock:
            self.is_held = True
        try:
            yield
        finally:
            with self._lock:
                late, self.is_held = self._late, False
                self._late = []
            for entry, arena in late:
                self.start(entry, arena)

    def end_before(self, entry: Entry) -> None:
        """Has a runner be one that has come to its end before, and is not started."""
        running = Running(entry, self.queues.runner(self.connections.numbers[entry.name], 0))
        running.outcomes.append(Outcome(0, None))
        self.running[entry.name] = running

    def resume(self, running: Running) -> None:
        """Has the copies of a runner go on that were held; nothing of them is under way."""
        with self._lock:
            pairs = running.parked
            running.parked = []
            running.native.release()
            running.threads = [thread for thread in running.threads if thread.is_alive()]
            if self.is_stopping or running.outcomes:
                return
            running.living.extend(copy for copy, _ in pairs)
        self._start_threads(running, pairs, waits=True)

    def _start_threads(self, running: Running, pairs: Sequence[Parked], *, waits: bool = False) -> None:
        with _starting:
            before = threading.stack_size(STACK_BYTES)
            try:
                for number, (copy, frame) in enumerate(pairs):
                    self._start_thread(running, copy, frame, number, waits=waits)
            finally:
                threading.stack_size(before)

    def _start_thread(self, running: Running, copy: NativeCopy, frame: Frame, number: int, *, waits: bool) -> None:
        name = f"dfc-{running.entry.name}-{number}"
        thread = threading.Thread(target=self._serve, args=(running, copy, frame, waits), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as problem:  # the system gives no further thread
            text = f"there is no thread for the runner `{running.entry.name}`: {problem}"
            failure = Failure(running.entry, 0, LimitError(text, code="E0905"))
            self._ended(running, copy, Outcome(0, failure))
        else:
            running.threads.append(thread)

    def _serve(self, running: Running, copy: NativeCopy, frame: Frame, waits: bool) -> None:
        begin = time.perf_counter_ns()
        if waits:
            self._await_room(running)
        end = copy.run(frame.address)
        alive = time.perf_counter_ns() - begin
        self._ended(running, copy, self._outcome(running.entry, end), alive, frame)

    def _await_room(self, running: Running) -> None:
        """Returns when no queue that the runner fills uses its reserve, which it may need again."""
        layouts, nap = self.connections.layouts, 0.0005
        queues = [(self.queues.queue(name), layouts[name].capacity) for name in self._filled(running.entry)]
        while any(put - taken > most for (put, taken, _), most in ((queue.numbers, most) for queue, most in queues)):
            if self.is_stopping or running.native.is_held:
                return
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP)

    def _filled(self, entry: Entry) -> list[str]:
        return sorted(name for name in self.connections.uses[entry.name].puts if name in self.connections.layouts)

    # --- how they end

    def _outcome(self, entry: Entry, end: RunnerEnd) -> Outcome | None:
        """What the last iteration of a copy came to; None if others decide, since it only left."""
        problem = self._take_failure()
        if isinstance(problem, EndOfData):
            return Outcome(end.iteration, None)  # a reader is at its end
        if problem is not None:
            return Outcome(end.iteration, Failure(entry, end.iteration, problem))
        if end.is_over:
            return None
        fault, reason = (self._faults[end.site], end.values[0]) if end.site >= 0 else (None, 0)
        if fault is not None and fault.kind == "queue" and reason in _QUIET:
            return Outcome(end.iteration, None) if reason != QUEUE_STOPPED else None
        if fault is not None and fault.kind == "queue" and reason == QUEUE_FAILED and fault.message in self.failures:
            return Outcome(end.iteration, self.failures[fault.message])
        return Outcome(end.iteration, Failure(entry, end.iteration, run_error(self._faults, end.site, end.values)))

    def _ended(
        self, running: Running, copy: NativeCopy, outcome: Outcome | None, alive: int = 0, frame: Frame | None = None
    ) -> None:
        uses, total = self.connections.uses[running.entry.name], self.totals[running.entry.name]
        with self._lock:
            total.alive += alive
            if outcome is not None:
                running.outcomes.append(outcome)
                for name in uses.puts | uses.takes if len(running.living) > 1 else ():
                    self.queues.queue(name).wake()  # the iterations behind this one wait no longer
            running.living.remove(copy)
            if outcome is None and frame is not None and running.native.is_held:
                running.parked.append((copy, frame))
            if not running.living:
                counts, before = (running.native.iterations, running.native.turn_wait), running.counted
                total.iterations += counts[0] - before[0]
                total.turn_wait += counts[1] - before[1]
                running.counted = counts
            self.changed.notify_all()
            if not running.living and running.outcomes and not self.is_stopping and not running.is_apart:
                self._finish(running)

    def _finish(self, running: Running) -> None:
        """All copies of a runner have ended: its queues are failed, or closed where nobody else fills them. The first
        iteration that did not end well says how; those behind it ended because of it."""
        uses = self.connections.uses[running.entry.name]
        first = min(running.outcomes, key=lambda each: each.iteration)
        if first.failure is not None:
            for name in sorted(uses.puts | uses.takes):
                self.failures.setdefault(name, first.failure)
                self.queues.queue(name).close(FAILED)
            return
        for name in sorted(uses.puts):
            fillers = [self.running.get(each) for each in self.connections.fillers(name)]
            is_filled = any(each is None or each.living for each in fillers)
            if not is_filled and not self.connections.is_filled_by_calls(name):
                self.queues.queue(name).close(CLOSED)

    # --- stopping

    def stop(self) -> None:
        """Has all copies end, and all calls that wait for a queue. Waits for nobody, and does nothing the second time,
        when the code may be gone. In a forked child there is nothing to stop, and a lock may be held for ever."""
        if self.is_stopping or self.is_forked:
            return
        self.is_stopping = True
        for running in list(self.running.values()):
            running.native.stop()
        for name in self.connections.queues:
            self.queues.queue(name).close(STOPPED)

    @property
    def is_used(self) -> bool:
        """Whether a runner was started, or something was put into a queue or closed."""
        return bool(self.running) or any(any(self.queues.queue(name).numbers) for name in self.connections.queues)

    def reset(self) -> None:
        """As at first. All copies have ended, and nobody uses a queue."""
        self.running = {}
        self.failures = {}
        self.is_stopping = False

    def stop_runners(self) -> None:
        """Has all copies end; queues stay as they are, and calls that wait for them go on waiting."""
        self.is_stopping = True
        for running in list(self.running.values()):
            running.native.stop()
        for name in self.connections.queues:
            self.queues.queue(name).wake()

    def join(self, seconds: float) -> list[tuple[Entry, NativeCopy]]:
        """Waits until all copies that were stopped have ended. Iterations that are under way can end, for a while; then
        they are left in their midst. Returns those copies that did not end in time."""
        if self.is_forked:
            return []
        end = time.monotonic() + seconds
        self._join_until(min(end, time.monotonic() + _PATIENCE))
        for running in list(self.running.values()):
            for copy in list(running.living):
                copy.hurry()
        self._join_until(end)
        stuck = [(running.entry, copy) for running in list(self.running.values()) for copy in list(running.living)]
        if stuck:
            self.queues.keep()
        return stuck

    def _join_until(self, end: float) -> None:
        for running in list(self.running.values()):
            for thread in list(running.threads):
                if thread is not threading.current_thread():
                    thread.join(max(0.0, end - time.monotonic()))

    def forget_threads(self) -> None:
        """In a forked child: no thread of a runner is there."""
        self._lock = threading.Lock()
        self.changed = threading.Condition(self._lock)
        self.is_forked = any(running.living for running in self.running.values())


def _frame(entry: Entry, arena: int) -> Frame:
    """Slots for a copy, with an arena of so many bytes."""
    frame = Frame(FrameLayout(entry), Arena())
    FrameLayout(entry).format.pack_into(frame.buffer, 0, frame.arena.reserve(arena) if arena else 0)
    return frame


def _after_fork() -> None:
    global _starting
    _starting = threading.Lock()
    for crew in list(_crews):
        crew.forget_threads()


def _at_exit() -> None:
    """No thread is in native code, or comes back from it, when the interpreter is gone."""
    crews = [crew for crew in list(_crews) if not crew.is_forked]
    for crew in crews:
        crew.stop()
    for crew in crews:
        crew.join(_PATIENCE)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
