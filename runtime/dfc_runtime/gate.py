"""Who may run beside whom: exclusive calls run alone, one after the other; shared calls run beside each other.

Guarantees that exclusive and shared calls never overlap, and that an interrupted call leaves the gate open. A shared
call costs two short locks more than an exclusive one.
"""

from __future__ import annotations

import threading


class Gate:
    """`exclusive` and `shared` are context managers."""

    def __init__(self) -> None:
        self.exclusive = threading.Lock()
        self.shared = _Shared(self.exclusive)


class _Shared:
    """The first to come closes the gate to exclusive calls, the last to go opens it."""

    def __init__(self, exclusive: threading.Lock) -> None:
        self._exclusive = exclusive
        self._counting = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._counting:
            if self._inside == 0:
                self._exclusive.acquire()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._counting:
            self._inside -= 1
            if self._inside == 0:
                self._exclusive.release()
