"""Threads that make calls which were started: each has one call at a time, and is kept for a next one.

Assumes that calls raise nothing. Guarantees that a call begins at once, however many others wait; that no thread keeps
the process from ending; and that a thread bears the name of its call for as long as it has one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

from dfc_runtime.errors import LimitError

IDLE = "dfc-idle"
"""The name of a thread without a call: one that begins with `dfc-` is none that could call a program."""
_MOST_IDLE = 16
Run = Callable[[], None]


class _Worker:
    """A thread."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Run] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self, name: str, call: Run) -> None:
        """Named by whoever gives the call: from here on it is on its way. Before the thread has it, which may be done
        with it at once, and has no call then."""
        if self._thread is not None:
            self._thread.name = name
            self._calls.put(call)
            return
        self._calls.put(call)
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as problem:  # the system gives no further thread, or the process ends
            raise LimitError(f"there is no thread for the {name}: {problem}", code="E0905") from None

    def _serve(self) -> None:
        thread = threading.current_thread()
        while True:
            call = self._calls.get()
            call()
            del call  # with all that it holds
            thread.name = IDLE
            if not _keep(self):
                return


def give(name: str, call: Run) -> None:
    """Has a thread of this name make the call. `LimitError` if there is none."""
    with _lock:
        worker = _idle.pop() if _idle else None
    (worker or _Worker()).begin(name, call)


def _keep(worker: _Worker) -> bool:
    """Whether a thread that has no call waits for another one."""
    with _lock:
        is_kept = len(_idle) < _MOST_IDLE
        if is_kept:
            _idle.append(worker)
    return is_kept


_lock = threading.Lock()
_idle: list[_Worker] = []


def _after_fork() -> None:
    """In a forked child: no thread is there."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()


os.register_at_fork(after_in_child=_after_fork)
