"""Garbage collection, put off while much is made that is needed: modules, trees, graphs."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


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
