"""Garbage collection, put off while much is made that is needed: modules, trees, graphs."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock


@contextmanager
def uncollected() -> Generator[None]:
    """Looking for garbage among millions of new objects, all of them needed, would take a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


MANY = 50_000
"""New objects between two looks for garbage while a program is compiled."""


class _Seldom:
    """How many compilations of this process look seldom for garbage, and how often it was looked for before."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = 0
        self.before = gc.get_threshold()


_SELDOM = _Seldom()


@contextmanager
def seldom_collected() -> Generator[None]:
    """For the passes: most of what they make is needed, or freed at once because no ring holds it. Looking for rings
    after every 700 new objects takes up to a tenth of a compilation. Old graphs are rings, so they are still looked
    for. Threads may be in here together: the last one that leaves puts back what was set."""
    with _SELDOM.lock:
        if _SELDOM.count == 0:
            _SELDOM.before = gc.get_threshold()
            first, *others = _SELDOM.before
            gc.set_threshold(max(MANY, first) if first else 0, *others)
        _SELDOM.count += 1
    try:
        yield
    finally:
        with _SELDOM.lock:
            _SELDOM.count -= 1
            if _SELDOM.count == 0:
                gc.set_threshold(*_SELDOM.before)


@contextmanager
def importing() -> Generator[None]:
    """As `uncollected`, for modules: they stay until the process ends, so no later collection looks at them either."""
    with uncollected():
        yield
        gc.freeze()


def leave_uncollected() -> None:
    """For the end of a process, which gives back all its memory at once. Python would look through what is left for
    garbage first, three times, in a tenth of the time that a short command takes. Files are to be closed by now."""
    gc.freeze()
