"""Calls that are started and waited for later: `model.train.start(..)` gives a `concurrent.futures.Future`.

Calls begin in the order that `ordering` asks for, on threads of their own. Of those that compute, as many run at a time
as the process has processors; those that may wait for a queue or a mutex are not counted, since others may have to come
to help them. Assumes functions of entries, with their gates. Guarantees that a started call does not keep the process
from ending; that one which has not begun can be cancelled; that those of a program that is closed have ended or never
begin; and that nobody waits for himself: neither a handler for the call that it answers, nor a thread for a call that
waits for ever (`waiting_threads`, which the search for deadlocks looks at).
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Protocol
from weakref import WeakSet

from dfc_runtime.calls import interrupting
from dfc_runtime.calls.gate import Gate
from dfc_runtime.calls.started import workers
from dfc_runtime.calls.started.ordering import Order, Uses, uses_of
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import LimitError, RunError
from dfc_runtime.formats.manifest import MUTEX_KINDS, QUEUE_KINDS, QUEUE_SIZE, Entry, Manifest

_PATIENCE = 2.0
"""Seconds in which calls can end when the process does, before they are stopped."""


_WAITING = QUEUE_KINDS - {QUEUE_SIZE} | MUTEX_KINDS
"""Requests for which a call may have to wait for another one."""


class _Runners(Protocol):
    waiting_threads: set[int]


class Program(Protocol):
    """What calls need to know of their program."""

    started: StartedCalls | None

    @property
    def manifest(self) -> Manifest: ...

    @property
    def gate(self) -> Gate: ...

    @property
    def runners(self) -> _Runners | None: ...


@dataclass(frozen=True, slots=True)
class StartedEntry:
    """What is known of the calls of an entry before they are made."""

    name: str
    uses: Uses
    may_wait: bool

    @staticmethod
    def of(manifest: Manifest, entry: Entry) -> StartedEntry:
        kinds = {site.kind for site in manifest.sites if site.entry == entry.name}
        return StartedEntry(entry.name, uses_of(manifest, entry), bool(kinds & _WAITING))


class StartedCall(Future[object]):
    """A call that was started: `result()` is what it gives, or raises what it raises."""

    def __init__(self, calls: StartedCalls, entry: StartedEntry, run: Callable[[], object]) -> None:
        super().__init__()
        self.entry, self.label = entry, f"call of `{entry.name}`"
        self.thread: int | None = None
        self._calls, self._run, self._process = calls, run, os.getpid()
        self._ending, self._has_callbacks = threading.Lock(), False

    def result(self, timeout: float | None = None) -> object:
        """What the call gives; waits for it, so many seconds at most. `TimeoutError` when they are over, as the call
        goes on."""
        with self._waited_for(timeout):
            return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the call raises, or None; waits for it as `result` does."""
        with self._waited_for(timeout):
            return super().exception(timeout)

    @contextmanager
    def _waited_for(self, timeout: float | None) -> Generator[None]:
        if self.done():
            yield
        elif self._process != os.getpid():
            text = f"this call of `{self.entry.name}` was started in the parent process, and goes on there alone"
            raise RunError(f"{text}\n  start it again in the child, or fork when it has ended", code="E0903")
        else:
            self._calls.refuse()
            with self._calls.waited_for(forever=timeout is None):
                yield

    def add_done_callback(self, fn: Callable[[Future[object]], object]) -> None:
        """As for any future: `fn` is called when the call has ended, on the thread that has made it."""
        with self._ending:
            self._has_callbacks = self._has_callbacks or not self.done()
            super().add_done_callback(fn)

    def make(self) -> StartedCall | None:
        """Makes the call, on the thread of it, unless it was cancelled. The one that the thread is to make next."""
        result: object = None
        problem: BaseException | None = None
        if self.set_running_or_notify_cancel():
            self.thread = threading.get_ident()
            try:
                result = self._run()
            except BaseException as raised:  # whatever it is, it belongs to who waits
                problem = raised
            self.thread = None
            interrupting.withdraw(threading.get_ident())
        del self._run  # with the feeds
        begins = self._calls.after(self)  # before it is seen that this one has ended
        with self._ending:
            following = begins.popleft() if begins and not self._has_callbacks else None
            self._calls.begin(begins)
            if following is not None:
                self._end(result, problem)
        if following is None:
            self._end(result, problem)  # what is called now may wait for later calls
        del self, problem  # the traceback of the one holds this frame, and with it the other
        return following

    def _end(self, result: object, problem: BaseException | None) -> None:
        if problem is not None:
            self.set_exception(problem)
        elif not self.cancelled():
            self.set_result(result)
        del self, problem


def _make(call: StartedCall) -> None:
    """Makes a call, and those that only its thread has to make: it stays on its processor, and nobody is woken."""
    following: StartedCall | None = call
    del call
    while following is not None:
        threading.current_thread().name = following.label
        following = following.make()


class StartedCalls:
    """Those of one program."""

    def __init__(self, program: Program) -> None:
        runners = program.runners
        self._waiting = runners.waiting_threads if runners is not None else set[int]()
        self.refuse = program.gate.serving.refuse
        self._entries: dict[str, StartedEntry] = {}
        self._manifest = program.manifest
        self._most = max(2, len(os.sched_getaffinity(0)))
        self.forget_threads()
        _programs.add(self)

    def forget_threads(self) -> None:
        """As at first, and in a forked child: none of the calls is there."""
        self._lock = threading.Lock()
        self._order: Order[StartedCall] = Order()
        self._ready: deque[StartedCall] = deque()
        self._computing = 0

    def start(self, entry: Entry, run: Callable[[], object]) -> StartedCall:
        """The future of a call of this entry, which `run` makes."""
        known = self._entries.get(entry.name)
        if known is None:
            known = self._entries[entry.name] = StartedEntry.of(self._manifest, entry)
        call = StartedCall(self, known, run)
        with self._lock:
            begins = self._admitted([call] if self._order.add(call, known.uses) else [])
        self.begin(begins)
        return call

    def after(self, call: StartedCall) -> deque[StartedCall]:
        """Those that begin because a call has ended, or will never begin."""
        with self._lock:
            if call not in self._order:
                return deque()  # of the parent process
            self._computing -= not call.entry.may_wait
            return self._admitted(self._order.remove(call))

    def _admitted(self, ready: Iterable[StartedCall]) -> deque[StartedCall]:
        """Those that may begin now, of calls whose turn it is."""
        begins: deque[StartedCall] = deque()
        for call in ready:
            (begins if call.entry.may_wait else self._ready).append(call)
        while self._ready and self._computing < self._most:
            self._computing += 1
            begins.append(self._ready.popleft())
        return begins

    def begin(self, calls: deque[StartedCall]) -> None:
        """Has threads make these calls. Those that were cancelled, or for which there is no thread, end here."""
        while calls:
            call = calls.popleft()
            problem: LimitError | None = None
            if not call.cancelled():
                try:
                    workers.give(call.label, partial(_make, call))
                    continue
                except LimitError as raised:
                    problem = raised
            calls.extend(self.after(call))
            if call.set_running_or_notify_cancel():
                call.set_exception(problem)

    def cancel(self) -> None:
        """Lets no call begin any more that has not begun."""
        with self._lock:
            calls = list(self._order)
        for call in reversed(calls):
            call.cancel()

    def interrupt(self) -> None:
        """Stops the calls that run, where they next look."""
        with self._lock:
            calls = list(self._order)
        for call in calls:
            thread = call.thread
            if thread is not None:
                interrupting.interrupt(thread)

    def join(self, end: float) -> None:
        """Waits for those that run, until `end` of the monotonic clock."""
        while len(self._order) and time.monotonic() < end:
            time.sleep(0.005)

    @contextmanager
    def waited_for(self, *, forever: bool) -> Generator[None]:
        """This thread does nothing else until a call has ended."""
        thread = threading.get_ident()
        if forever:
            self._waiting.add(thread)
        try:
            yield
        finally:
            self._waiting.discard(thread)


_programs: WeakSet[StartedCalls] = WeakSet()
_creating = threading.Lock()


def start(
    program: Program,
    entry: Entry,
    function: Callable[..., object],
    feeds: Sequence[object],
    named: Mapping[str, object],
) -> StartedCall:
    """Starts a call of an entry of a program."""
    if program.started is None:
        with _creating:
            program.started = program.started or StartedCalls(program)
    return program.started.start(entry, lambda: function(*feeds, **named))


def _after_fork() -> None:
    global _creating
    _creating = threading.Lock()
    for program in list(_programs):
        program.forget_threads()


def _at_exit() -> None:
    """No thread is in native code when the interpreter is gone."""
    programs = list(_programs)
    for program in programs:
        program.cancel()
    for stop in (False, True):
        end = time.monotonic() + _PATIENCE
        for program in programs:
            if stop:
                program.interrupt()
            program.join(end)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
