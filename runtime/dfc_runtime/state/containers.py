"""State by container: that of one program, and what programs of this process share by the name of a container.

Two variables are the same if their containers, full names and types are. A shared container lives as long as any
program that uses it is loaded; whoever is loaded first initialises it. Assumes that loading programs which share holds
`loading`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.calls.gate import Door
from dfc_runtime.calls.memory import aligned, aligned_together
from dfc_runtime.driver import LOCK_BYTES
from dfc_runtime.errors import BundleError
from dfc_runtime.formats.fields import shown
from dfc_runtime.formats.manifest import DEFAULT_CONTAINER, StateEntry

Array = NDArray[np.generic]

loading = threading.RLock()
"""Held while a program that shares state is loaded and initialised."""


class Container:
    """Arrays by full name, the lock that native code takes around them, and the door for calls and for Python."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock: Array = aligned((LOCK_BYTES,), np.dtype(np.uint8))
        self.door = Door()
        self.set: set[str] = set()
        self._entries: dict[str, StateEntry] = {}
        self._arrays: dict[str, Array] = {}

    def arrays(self, entries: Sequence[StateEntry]) -> dict[str, Array]:
        """The memory of variables; what is new of it lies together. `BundleError` if one is there with another type."""
        for entry in entries:
            self._check(entry)
        new = [entry for entry in entries if entry.name not in self._arrays]
        memory = aligned_together([(entry.shape, numpy_dtype(entry.dtype)) for entry in new])
        self._arrays.update((entry.name, array) for entry, array in zip(new, memory, strict=True))
        return {entry.name: self._arrays[entry.name] for entry in entries}

    def _check(self, entry: StateEntry) -> None:
        known = self._entries.setdefault(entry.name, entry)
        if (known.kind, known.dtype, known.shape) != (entry.kind, entry.dtype, entry.shape):
            where = f"{shown(entry.name, 40)} of the container {shown(self.name, 40)}"
            raise BundleError(f"{where} is {known} in a program that is loaded, and {entry} in this one", code="E0907")


_shared: WeakValueDictionary[str, Container] = WeakValueDictionary()
_finding = threading.Lock()


def _after_fork() -> None:
    """In a forked child, whoever was loading is not there."""
    global loading, _finding
    loading, _finding = threading.RLock(), threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def container(name: str) -> Container:
    """The one of that name in this process; a new one for what no two programs share."""
    if name == DEFAULT_CONTAINER:
        return Container(name)
    with _finding:
        cached = _shared.get(name)
        if cached is None:
            cached = _shared[name] = Container(name)
        return cached
