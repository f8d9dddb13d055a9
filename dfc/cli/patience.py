"""How long a run that is to stop may go on with its step.

Assumes calls in a thread of their own, which says when it is in one. Guarantees that a call ends within ten seconds of
the first signal: it is interrupted before, which leaves state as it was, and if that does not help (a kernel of many
seconds, a device, a handler that sleeps), the process ends and says that nothing is saved.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc_runtime.calls import interrupting

SIGNALLED = 128
GRACE_S = 8.0
"""Seconds that a step may take to end by itself."""
ANSWER_S = 2.0
"""Seconds that an interrupted call may take to end."""
STOPPING = b"stopping after this step; again to stop now\n"
NOT_SAVED = b"error: stopped at once; state of this run is not saved\n"


def end_at_once(number: int) -> None:
    """Ends the process by its own hand, with the exit code of a signal."""
    os.write(2, NOT_SAVED)
    os._exit(SIGNALLED + number)


@dataclass(slots=True)
class Patience:
    """What becomes of the call in progress. `signals` is how many have come; `thread` makes the calls."""

    signal: Callable[[], int]
    signals: Callable[[], int]
    thread: int = 0
    calling: bool = False
    _since: float | None = field(default=None, init=False)
    _interrupted: float | None = field(default=None, init=False)

    def look(self, now: float | None = None) -> None:
        """Called now and then by the thread that waits."""
        if not self.signals():
            return
        at = time.monotonic() if now is None else now
        self._since = at if self._since is None else self._since
        if not self.calling:
            return
        if self._interrupted is None:
            if self.signals() > 1 or at - self._since >= GRACE_S:
                self._interrupted = at
                interrupting.interrupt(self.thread)
        elif at - self._interrupted >= ANSWER_S:
            end_at_once(self.signal())

    def withdraw(self) -> None:
        """The calls are over."""
        interrupting.withdraw(self.thread)
