"""What a driver offers whose native code has queues and runners.

Assumes that native code moves the elements and waits for them: nothing here is called for each element. Guarantees
nothing of other threads: what is read of a queue may be old when it is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.dataclasses import dataclass

OPEN, CLOSED, FAILED, STOPPED = range(4)
"""States of a queue, which only grow. Of one that is closed or failed, elements can still be taken; of one that is
stopped, none."""
END_OF_DATA, PUT_CLOSED, QUEUE_FAILED, QUEUE_STOPPED, TOO_MANY = range(1, 6)
"""Why a queue did not do what was asked: the first value of a fault of the kind `queue`. Behind `TOO_MANY` follow how
many elements were asked for, and how many can be."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a call or a runner waits for: that the queue has `needed` elements, or fewer than that where it is `to_put`;
    without the name of a queue, for its turn. `fault` is the fault site of the line. It is blocked if what it waits for
    is not there and it waits for as long as it takes: else it is about to go on."""

    queue: str
    to_put: bool
    needed: int
    fault: int
    is_blocked: bool


@dataclass(frozen=True, slots=True)
class RunnerEnd:
    """How a copy of a runner ended: in which iteration, with which fault (site -1: a request failed, or none).
    `is_over` says that there was no fault, as no further iteration was to begin."""

    iteration: int
    site: int
    values: tuple[int, ...]
    is_over: bool


class NativeQueue(Protocol):
    """A queue in memory."""

    @property
    def numbers(self) -> tuple[int, int, int]:
        """How many elements were put in and taken out so far, and the state."""
        ...

    @property
    def acquired(self) -> int | None:
        """Of a mutex that is held, the fault site of the line that acquired it; None where nobody knows."""
        ...

    def close(self, state: int) -> None:
        """Sets the state, if it goes further than the present one, and wakes all who wait."""
        ...

    def wake(self) -> None:
        """Has all who wait look again whether they are to wait any longer."""
        ...

    def set_contents(self, count: int, fullest: int, state: int) -> None:
        """Says that so many elements lie in the first slots; the caller has put them there, and holds the lock."""
        ...

    def set_numbers(self, put: int, taken: int, state: int) -> None:
        """Says how many elements were put in and taken out so far; the caller has put those between there, and holds
        the lock. While more were taken than put in, nobody gets one, and there is room."""
        ...


class NativeCopy(Protocol):
    """One copy of a runner."""

    @property
    def iteration(self) -> int:
        """The one that it is in, or was in last."""
        ...

    def run(self, slots: int) -> RunnerEnd:
        """Runs iterations on the slots at this address, on this thread, until there is no further one."""
        ...

    def hurry(self) -> None:
        """Has it end in the midst of an iteration."""
        ...

    def waiting(self) -> Waiting | None:
        """What it waits for; None while it computes."""
        ...


class NativeRunner(Protocol):
    """The copies of one runner."""

    def copy(self, ask: Callable[[int, int, int], None]) -> NativeCopy:
        """A further one. `ask(iteration, site, frame)` answers its requests, as a driver's `host` does."""
        ...

    def stop(self) -> None:
        """Lets no further iteration begin."""
        ...

    def hold(self) -> None:
        """Lets no further iteration begin. Those that have begun end, for which queues have their reserves; but where
        one waits for what it begins with, it is left as if it had not begun."""
        ...

    @property
    def is_held(self) -> bool:
        """Whether no iteration is to begin."""
        ...

    def rewind(self) -> int:
        """Lets those iterations be the next ones again that were left because the runner is held; how many of them
        have drawn for their take. No such iteration is under way."""
        ...

    def release(self) -> None:
        """Lets iterations begin again."""
        ...

    @property
    def iterations(self) -> int:
        """How many have begun; up to one more for each copy."""
        ...

    @property
    def turn_wait(self) -> int:
        """Nanoseconds for which copies have waited for turns, where that is measured."""
        ...


class NativeQueues(Protocol):
    """The queues and runners of one loaded program. `on_wait` is called by a call that waits, in its thread, several
    times a second; what it raises ends the call."""

    on_wait: Callable[[Waiting], None] | None
    on_late: Callable[[Waiting, float], None] | None

    def limited(self, seconds: float) -> AbstractContextManager[None]:
        """Calls of this thread wait for so many seconds from now: then `on_late` is called in one that still waits,
        with the seconds that have gone by, and what it raises ends the call. What is there by then is still taken."""
        ...

    def queue(self, name: str) -> NativeQueue:
        """A queue by its name."""
        ...

    def runner(self, number: int, turns: int) -> NativeRunner:
        """The runner that is the entry of this number; its copies take turns at so many things."""
        ...

    def measure_waits(self, sites: int) -> NDArray[np.int64]:
        """Before the first call, and before runners: has all count at each fault site nanoseconds of waiting, and
        times. Returns the table, which goes on to be filled."""
        ...

    def lock(self, address: int) -> None:
        """Returns when the lock of state at this address is held alone, as native code would hold it."""
        ...

    def unlock(self, address: int) -> None:
        """Gives it back."""
        ...

    def calls(self) -> Sequence[Waiting | None]:
        """What each call of an entry that is under way waits for."""
        ...

    def keep(self) -> None:
        """Keeps the code in memory, as threads stay in it."""
        ...


@runtime_checkable
class HasQueues(Protocol):
    """A driver of such a program."""

    @property
    def queues(self) -> NativeQueues: ...
