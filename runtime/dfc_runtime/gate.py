"""Who may run beside whom.

Calls of one program: exclusive ones run one after the other; concurrent ones beside each other, but not beside
exclusive ones; readonly ones beside any call. What Python does to the state itself (reading it, restoring it) runs
alone. Containers of state that programs share have a door each: calls share it, Python takes it alone.

Guarantees that who wants to be alone is not overtaken for ever by those who share, and that an interrupted call leaves
the gates as they were. Native code has locks of its own below these (`dfc_runtime.driver`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol


class Mode(Protocol):
    """A context manager that can be used again and again."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> object: ...


class Door:
    """Any number `shared`, or one `alone`."""

    def __init__(self) -> None:
        turn, lock = threading.Lock(), threading.Lock()
        self.shared: Mode = _Shared(turn, lock)
        self.alone: Mode = _Alone(turn, lock)


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


class Gate:
    """The modes of one program. Where no entry is concurrent, an exclusive call costs one lock."""

    def __init__(self, *, has_concurrent: bool = True) -> None:
        calls, readers = Door(), Door()
        self.exclusive: Mode = calls.alone if has_concurrent else threading.Lock()
        self.concurrent = calls.shared
        self.readonly = readers.shared
        self.whole: Mode = Together([self.exclusive, readers.alone])


class Queue(Gate):
    """The gate of a program of which one call is made at a time: one lock, whatever is done."""

    def __init__(self) -> None:
        self.exclusive = self.concurrent = self.readonly = self.whole = threading.Lock()


class Closed(Gate):
    """The gate of the same program for calls that the others know nothing of: each runs alone."""

    def __init__(self, gate: Gate) -> None:
        self.exclusive = self.concurrent = self.readonly = self.whole = gate.whole
