"""Asking the call that a thread is in to stop.

The main thread needs none of it: while native code runs there, handlers of signals run now and then, and what they
raise stops the call. Guarantees that the call which is stopped raises `KeyboardInterrupt` in its thread.
"""

from __future__ import annotations

import threading

_asked: set[int] = set()


def interrupt(thread: int) -> None:
    """Has the call that runs in this thread (`threading.get_ident()`) stop; the next one, if none does."""
    _asked.add(thread)


def withdraw(thread: int) -> None:
    """Takes back what nobody has heard."""
    _asked.discard(thread)


def check() -> None:
    """`KeyboardInterrupt` if this thread was asked to stop."""
    if _asked:
        thread = threading.get_ident()
        if thread in _asked:
            _asked.discard(thread)
            raise KeyboardInterrupt
