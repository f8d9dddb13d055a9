"""Which calls may run concurrently.

Calls of one program: exclusive ones run one after the other; concurrent ones together with each other, but not with
exclusive ones; readonly ones with any call. What Python does to the state itself (reading it, restoring it) runs
alone. Containers of state that programs share have a door each: calls share it, Python takes it alone.

Guarantees that who wants to be alone is not overtaken for ever by those who share, that an interrupted call leaves
the gates as they were, and that nobody waits for himself: a handler that answers a request of a program may not come
back to the gate of that program. Native code has locks of its own below these (`dfc_runtime.driver`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

from dfc_runtime.errors import RunError


class Mode(Protocol):
    """A context manager that can be used again and again."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> object: ...


class Door:
    """Any number `shared`, or one `alone`."""

    def __init__(self) -> None:
        self._turn, self._lock = threading.Lock(), threading.Lock()
        self._shared = _Shared(self._turn, self._lock)
        self.shared: Mode = self._shared
        self.alone: Mode = _Alone(self._turn, self._lock)

    def forget_threads(self) -> bool:
        """In a forked child: nobody is here any more; whether somebody was."""
        busy = [released(self._turn), released(self._lock), self._shared.forget_threads()]
        return any(busy)


class _Alone:
    """Whoever waits here holds the turn, so that nobody else comes in."""

    def __init__(self, turn: threading.Lock, lock: threading.Lock) -> None:
        self._turn, self._lock = turn, lock

    def __enter__(self) -> None:
        self._turn.acquire()
        try:
            self._lock.acquire()
        except BaseException:
            self._turn.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        self._turn.release()


class _Shared:
    """The first to come closes the door to others, the last to go opens it."""

    def __init__(self, turn: threading.Lock, lock: threading.Lock) -> None:
        self._turn, self._lock = turn, lock
        self._counting = threading.Lock()
        self._inside = 0

    def forget_threads(self) -> bool:
        busy = released(self._counting) or self._inside > 0
        self._inside = 0
        return busy

    def __enter__(self) -> None:
        with self._turn:
            pass
        with self._counting:
            if self._inside == 0:
                self._lock.acquire()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._counting:
            self._inside -= 1
            if self._inside == 0:
                self._lock.release()


class Together:
    """Several modes, entered in their order."""

    def __init__(self, modes: Sequence[Mode]) -> None:
        self._modes = tuple(modes)

    def __enter__(self) -> None:
        entered = 0
        try:
            for mode in self._modes:
                mode.__enter__()
                entered += 1
        except BaseException:
            self._leave(entered)
            raise

    def __exit__(self, *_: object) -> None:
        self._leave(len(self._modes))

    def _leave(self, count: int) -> None:
        for mode in reversed(self._modes[:count]):
            mode.__exit__(None, None, None)


def released(lock: threading.Lock) -> bool:
    """Opens a lock whose owner is not there any more; whether it was held."""
    held = lock.locked()
    if held:
        lock.release()
    return held


class Serving(threading.local):
    """Which request of a program this thread answers: the kind, the entry and the place; empty between requests."""

    request: str = ""

    def refuse(self) -> None:
        """`RunError` in a handler: whoever waits for it holds the gate."""
        if self.request:
            text = f"a handler may not come back to the program that waits for it, in {self.request}"
            helps = "do this when the call has returned, or pass on what was handed over to another thread"
            raise RunError(f"{text}\n  {helps}", code="E0903")


class Refusing:
    """A mode that a handler of the same program may not enter."""

    def __init__(self, mode: Mode, serving: Serving) -> None:
        self._mode, self._serving = mode, serving

        self.refuse = serving.refuse

    def __enter__(self) -> None:
        if self._serving.request:
            self._serving.refuse()
        self._mode.__enter__()

    def __exit__(self, *_: object) -> None:
        self._mode.__exit__(None, None, None)


class Gate:
    """The modes of one program. Where no entry is concurrent, an exclusive call costs one lock; programs that make
    requests also look whether it is a handler of theirs that comes."""

    def __init__(self, *, has_concurrent: bool = True, has_requests: bool = False) -> None:
        self._doors = Door(), Door()
        self._lock = threading.Lock()
        self._turns: list[threading.Lock] = [self._lock]
        self.serving = Serving()
        calls, readers = self._doors
        exclusive: Mode = calls.alone if has_concurrent else self._lock
        watched = self.watched if has_requests else _as_it_is
        self.exclusive = watched(exclusive)
        self.concurrent = watched(calls.shared)
        self.readonly = watched(readers.shared)
        self.whole: Mode = watched(Together([exclusive, readers.alone]))

    def watched(self, mode: Mode) -> Mode:
        """The same mode, but for handlers of the program."""
        return Refusing(mode, self.serving)

    def turn(self, shared: threading.Lock | None = None) -> Mode:
        """A lock that is held through calls, of this gate or shared with others."""
        if shared is not None:
            return self.watched(shared)
        self._turns.append(threading.Lock())
        return self.watched(self._turns[-1])

    def forget_threads(self) -> bool:
        """In a forked child, which has one thread: opens what other threads held; whether they held anything. The
        thread that forked may be in a handler: then it goes on, and holds what it held."""
        if self.serving.request:
            return False
        busy = [released(lock) for lock in self._turns] + [door.forget_threads() for door in self._doors]
        return any(busy)


def _as_it_is(mode: Mode) -> Mode:
    return mode


class Queue(Gate):
    """The gate of a program of which one call is made at a time: one lock, whatever is done."""

    def __init__(self, *, has_requests: bool = False) -> None:
        super().__init__(has_concurrent=False)
        mode: Mode = self.watched(self._lock) if has_requests else self._lock
        self.exclusive = self.concurrent = self.readonly = self.whole = mode


class Closed(Gate):
    """The gate of the same program for calls that the others know nothing of: each runs alone."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.serving = gate.serving
        self.exclusive = self.concurrent = self.readonly = self.whole = gate.whole
