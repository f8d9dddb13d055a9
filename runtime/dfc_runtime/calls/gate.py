"""Which calls may run concurrently.

Calls of one program exclude each other by the state they share: each group of `conflicts` is a lock, and a call takes
those of its entry, in one order. Exclusive calls hold a lock alone, concurrent ones share it; readonly ones take none,
and run with any call. What Python does to the state itself (reading it, restoring it) takes all locks and
runs alone. Calls that use queues and no other state run beside all of that: they may wait for what only others can
bring, and are kept apart from the end of the program alone. Containers of state that programs share have a door each:
calls share it, Python takes it alone.

Guarantees that who wants to be alone is not overtaken for ever by those who share, that an interrupted call leaves
the gates as they were, and that nobody waits for himself: a handler that answers a request of a program may not come
back to the gate of that program. And who waits here does not keep out for ever a call that could bring what another one
waits for inside. Native code has locks of its own below these (`dfc_runtime.driver`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol

from dfc_runtime.calls.conflicts import Group
from dfc_runtime.errors import RunError

_ANYBODY = -1
"""In place of the number of an entry: whoever takes the locks of all groups."""
_PATIENCE, _PAUSE = 0.05, 0.005
"""Seconds after which who waits for a lock looks whether to let others in, and for so long they are let in."""


class Mode(Protocol):
    """A context manager that can be used again and again."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Lock(Mode, Protocol):
    """One that can be waited for a limited time, as `threading.Lock`: whether it was entered."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...


class Door:
    """Any number `shared`, or one `alone`."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._shared = _Shared(self._turn)
        self.shared: Lock = self._shared
        self.alone: Lock = _Alone(self._turn, self._shared)

    def forget_threads(self, held: Sequence[Mode] = ()) -> bool:
        """In a forked child, whose thread holds these modes: nobody else is here any more; whether somebody was."""
        is_alone, own = self.alone in held, sum(each is self.shared for each in held)
        busy = [not is_alone and released(self._turn), self._shared.forget_threads(own, is_alone=is_alone)]
        return any(busy)


class _Alone:
    """Whoever waits here holds the turn, so that nobody else comes in."""

    def __init__(self, turn: threading.Lock, shared: _Shared) -> None:
        self._turn, self._shared = turn, shared

    def __enter__(self) -> None:
        self.acquire()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._turn.acquire(blocking, timeout):
            return False
        try:
            is_alone = self._shared.close(None if timeout < 0 else timeout)
        except BaseException:
            self.__exit__()
            raise
        if not is_alone:
            self.__exit__()
        return is_alone

    def __exit__(self, *_: object) -> None:
        self._shared.is_closed = False
        self._turn.release()


class _Shared:
    """Who comes signs in and then looks whether the door is closed; who closes it does so and then looks who
    is there: so one of the two sees the other. As long as nobody closes the door, no lock is taken."""

    __slots__ = ("_inside", "_left", "_turn", "is_closed")

    def __init__(self, turn: threading.Lock) -> None:
        self._turn = turn
        self._inside: list[None] = []  # appending and popping are one step each
        self._left = threading.Event()
        self.is_closed = False

    def forget_threads(self, own: int, *, is_alone: bool) -> bool:
        busy = (self.is_closed and not is_alone) or len(self._inside) > own
        self._inside = [None] * own
        self._left, self.is_closed = threading.Event(), is_alone
        return busy

    def __enter__(self) -> None:
        self._inside.append(None)
        if self.is_closed:
            self._wait()

    def __exit__(self, *_: object) -> None:
        self._inside.pop()
        if self.is_closed:
            self._left.set()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self._inside.append(None)
        return not self.is_closed or self._wait(blocking, timeout)

    def _wait(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Goes out again until the turn is free. Whoever wants to be alone next may have taken it by then."""
        while self.is_closed:
            self.__exit__()
            if blocking and timeout < 0:
                with self._turn:  # no signal comes in between
                    pass
            elif self._turn.acquire(blocking, timeout):
                self._turn.release()
            else:
                return False
            self._inside.append(None)
        return True

    def close(self, timeout: float | None) -> bool:
        """Lets nobody in any more, and waits until all have left: whether they have. The turn is held."""
        self.is_closed = True
        while True:
            self._left.clear()
            if not self._inside:
                return True
            if not self._left.wait(timeout):
                return False


def together(modes: Sequence[Mode]) -> Mode:
    """Several modes as one."""
    return Together(modes) if len(modes) > 1 else modes[0]


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


class _Yielding:
    """Several locks of a gate, taken in their order. Who waits for one of them keeps others from those before it, and
    from the door that it closes; one of these could bring what a call inside waits for, which would wait for ever. So
    as long as there is such a call, all are given back for a moment, again and again."""

    def __init__(self, locks: Sequence[Lock], gate: Gate) -> None:
        self.locks, self._gate = tuple(locks), gate

    def __enter__(self) -> None:
        while not self._acquire():
            time.sleep(_PAUSE)

    def _acquire(self) -> bool:
        entered, patience = 0, -1 if self._gate.is_waited_for is None else _PATIENCE
        try:
            for lock in self.locks:
                while not lock.acquire(timeout=patience):
                    if self._gate.is_waited_for is not None and self._gate.is_waited_for():
                        self._leave(entered)
                        return False
                entered += 1
        except BaseException:
            self._leave(entered)
            raise
        return True

    def __exit__(self, *_: object) -> None:
        self._leave(len(self.locks))

    def _leave(self, count: int) -> None:
        for lock in reversed(self.locks[:count]):
            lock.__exit__(None, None, None)


def released(lock: threading.Lock) -> bool:
    """Opens a lock whose owner is not there any more; whether it was held."""
    held = lock.locked()
    if held:
        lock.release()
    return held


class Serving(threading.local):
    """Which request of a program this thread answers: the kind, the entry and the place; empty between requests. And
    what it holds of the gate meanwhile."""

    request: str = ""

    def __init__(self) -> None:
        self.held: list[Mode] = []

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
        self._serving.held.append(self._mode)

    def __exit__(self, *_: object) -> None:
        held = self._serving.held
        if self._mode in held:
            held.remove(self._mode)
        self._mode.__exit__(None, None, None)


class Gate:
    """The modes of one program. An exclusive call costs one lock where its state is in one group, which no concurrent
    entry is in; programs that make requests also look whether it is a handler of theirs that comes."""

    lets_in_one = False
    """Whether there is never more than one call at a time, of those that use more than queues."""

    def __init__(self, groups: Sequence[Group] = (), *, has_requests: bool = False) -> None:
        readers, queueing = Door(), Door()
        self._doors = [readers, queueing]
        self._locks: list[threading.Lock] = []
        self.groups = groups
        self.is_waited_for: Callable[[], bool] | None = None
        """Whether a call that was let in by its locks waits for a queue; None where there are no queues."""
        self.serving = Serving()
        watched = self.watched if has_requests else _as_it_is
        ways_in = [self._ways_in(group) for group in groups]
        self.readonly = watched(readers.shared)
        self._calls = {
            number: watched(self._all([way[number] for way in ways_in if number in way]))
            for number in sorted({number for way in ways_in for number in way} - {_ANYBODY})
        }
        self.queueing: Mode = watched(queueing.shared)
        self.closing: Mode = watched(queueing.alone)
        self.whole: Mode = watched(self._all([*(way[_ANYBODY] for way in ways_in), readers.alone]))

    def _all(self, locks: Sequence[Lock]) -> Mode:
        """Several locks, or one, which keeps others out while it is waited for if it is that of a door."""
        is_plain = len(locks) == 1 and not isinstance(locks[0], _Alone)
        return locks[0] if is_plain else _Yielding(locks, self)

    def _ways_in(self, group: Group) -> dict[int, Lock]:
        """How calls of the entries of a group take its lock, and how whoever else wants it takes it."""
        if not group.concurrent:
            self._locks.append(threading.Lock())
            return dict.fromkeys([_ANYBODY, *group.exclusive], self._locks[-1])
        self._doors.append(Door())
        alone, shared = self._doors[-1].alone, self._doors[-1].shared
        return {**dict.fromkeys([_ANYBODY, *group.exclusive], alone), **dict.fromkeys(group.concurrent, shared)}

    def call(self, number: int) -> Mode:
        """What a call of this entry holds that is neither readonly nor uses queues alone."""
        return self._calls.get(number, self.readonly)

    def arena(self, number: int) -> int:
        """The number of the working memory for calls of an exclusive entry: calls that have the same never overlap."""
        return next((index for index, group in enumerate(self.groups) if number in group.exclusive), 0)

    def watched(self, mode: Mode) -> Mode:
        """The same mode, but for handlers of the program."""
        return Refusing(mode, self.serving)

    def turn(self, shared: threading.Lock | None = None) -> Mode:
        """A lock that is held through calls, of this gate or shared with others."""
        if shared is not None:
            return self.watched(shared)
        self._locks.append(threading.Lock())
        return self.watched(self._locks[-1])

    def forget_threads(self) -> bool:
        """In a forked child, which has one thread: opens what other threads held; whether they held anything. The
        thread that forked may be in a handler: then it goes on, and holds what it held."""
        held: list[Mode] = []
        for mode in self.serving.held if self.serving.request else ():
            held += mode.locks if isinstance(mode, _Yielding) else [mode]
        busy = [lock not in held and released(lock) for lock in self._locks]
        return any([*busy, *(door.forget_threads(held) for door in self._doors)])


def _as_it_is(mode: Mode) -> Mode:
    return mode


class Queue(Gate):
    """The gate of a program of which one call is made at a time: one lock, whatever is done."""

    lets_in_one = True

    def __init__(self, *, has_requests: bool = False) -> None:
        super().__init__()
        self._locks.append(threading.Lock())
        mode: Mode = self.watched(self._locks[0]) if has_requests else self._locks[0]
        self.readonly = self.whole = self.queueing = mode


class Closed(Gate):
    """The gate of the same program for calls that the others know nothing of: each runs alone."""

    lets_in_one = True

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.serving = gate.serving
        self.readonly = self.whole = gate.whole
        self.queueing = gate.queueing
