"""The first process: begins workers, passes on what they report, and replaces one that dies."""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from mmap import mmap

import pytest

from .messages import publish
from .units import Queue, Unit, units_of
from .worker import HAS_GROWN, NOWHERE, POSITION, MemoryUse, work

READ = 1 << 16
ENDINGS = ((0, 0.5), (signal.SIGINT, 5.0), (signal.SIGKILL, 60.0))
"""Signals to workers that are to end, and the seconds that each has."""


@dataclass(slots=True)
class Worker:
    """A fork, a descriptor that tells its end, and what has been read of its pipe behind the last whole line."""

    process: int
    descriptor: int
    source: int
    slot: int
    rest: bytes = b""


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """An interrupt comes behind it. Within, one could be lost, since what Python calls around a fork raises nothing, or
    leave a worker behind that nobody knows."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Supervisor:
    """Of one session whose tests have been collected."""

    def __init__(self, session: pytest.Session, count: int, waiting: Sequence[bool], long: Sequence[bool]) -> None:
        """Of each test whether it waits, and whether it is of a module to begin with."""
        self._session, self._count = session, count
        self._units = units_of(session.items)
        late, first = ([flags[unit.start] for unit in self._units] for flags in (waiting, long))
        numbers = [number for number in range(len(first)) if first[number]]
        numbers += [number for number in range(len(first)) if not first[number]]
        self._waiting = Queue([number for number in numbers if late[number]])
        self._computing = Queue([number for number in numbers if not late[number]])
        self._shared = mmap(-1, POSITION.size * count)
        self._selector = selectors.DefaultSelector()
        self._workers: list[Worker] = []

    def run(self) -> list[float]:
        """Until all tests have run, or one that fails is to be the last. After how many seconds each worker ended."""
        begin, ends = time.monotonic(), list[float]()
        try:
            for slot in range(self._count):
                self._start(slot, ())
            while self._workers:
                for key, _ in self._selector.select():
                    worker: Worker = key.data
                    if worker not in self._workers:  # what it said has been read when its end was seen, just now
                        continue
                    if key.fd == worker.source:
                        self._read(worker)
                    else:
                        if not self._reap(worker):
                            ends.append(time.monotonic() - begin)
                    stop_if_asked(self._session)
            return ends
        finally:
            self._end()

    def _taken(self, slot: int, first: Sequence[Unit], memory: MemoryUse) -> Iterator[Unit]:
        """The units of one worker, until it is large: what its predecessor has left; then one begins with those that
        wait, so that they do not all wait at the end."""
        yield from first
        for queue in (self._waiting, self._computing) if slot == 0 else (self._computing, self._waiting):
            numbers = iter(queue)
            while not memory.is_large() and (number := next(numbers, None)) is not None:
                yield self._units[number]

    def _start(self, slot: int, first: Sequence[Unit]) -> None:
        POSITION.pack_into(self._shared, slot * POSITION.size, *NOWHERE)
        with _uninterrupted():
            source, sink = os.pipe()
            process = os.fork()
            if not process:
                for descriptor in (source, *(each.source for each in self._workers)):
                    os.close(descriptor)  # a worker whose parent was killed is to see that nobody reads
                memory = MemoryUse()
                work(self._session, self._taken(slot, first, memory), memory, self._shared, slot, sink)
            os.close(sink)
            os.set_blocking(source, False)
            worker = Worker(process, os.pidfd_open(process), source, slot)
            self._selector.register(worker.source, selectors.EVENT_READ, worker)
            self._selector.register(worker.descriptor, selectors.EVENT_READ, worker)
            self._workers.append(worker)

    def _read(self, worker: Worker) -> bool:
        """Passes on what there is; whether there was any."""
        try:
            part = os.read(worker.source, READ)
        except BlockingIOError:
            return False
        *lines, worker.rest = (worker.rest + part).split(b"\n")
        for line in lines:
            error = publish(self._session.config, line)
            if error is not None:
                raise pytest.UsageError(f"a worker ended early: {error}")
        return bool(part)

    def _reap(self, worker: Worker) -> bool:
        """Of a worker that has ended: not when its pipe does, which a process that a test has left behind may hold.
        Whether there is another one in its place."""
        while self._read(worker):
            pass
        self._forget(worker)
        code = os.waitstatus_to_exitcode(os.waitpid(worker.process, 0)[1])
        number, stop, *taken = POSITION.unpack_from(self._shared, worker.slot * POSITION.size)
        if number < 0 and code == HAS_GROWN:
            self._start(worker.slot, ())
        elif number < 0 and code:
            raise pytest.UsageError(f"a worker ended with {_named(code)} before its first test")
        elif number >= 0:
            self._report_death(self._session.items[number], code)
            self._start(worker.slot, (Unit(number + 1, stop), Unit(*taken)))
        else:
            return False
        return True

    def _report_death(self, item: pytest.Item, code: int) -> None:
        text = f"the worker ended with {_named(code)} while it ran this test"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        self._session.config.hook.pytest_runtest_logreport(report=report)

    def _forget(self, worker: Worker) -> None:
        self._workers.remove(worker)
        self._close(worker.source)
        self._close(worker.descriptor)

    def _close(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        os.close(descriptor)

    def _end(self) -> None:
        """Workers that still run are heard no more. They end at their next word; or when they are interrupted, so that
        a test ends what it has started (Ctrl-C at a terminal has reached them, too); or when they are killed."""
        for worker in self._workers:
            self._close(worker.source)
        for number, seconds in ENDINGS:
            for worker in self._workers:
                os.kill(worker.process, number)
            until = time.monotonic() + seconds
            while self._workers and (ended := self._selector.select(max(until - time.monotonic(), 0))):
                for key, _ in ended:
                    self._workers.remove(key.data)
                    self._close(key.data.descriptor)
                    os.waitpid(key.data.process, 0)
        self._selector.close()
        self._waiting.close()
        self._computing.close()
        self._shared.close()


def stop_if_asked(session: pytest.Session) -> None:
    """As pytest does after each test of its own: `-x`, `--maxfail`."""
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)


def _named(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"the code {code}"
