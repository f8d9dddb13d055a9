"""The state of a module: variables and random streams by full name.

Assumes that whoever changes it holds `alone`, but for the mapping itself, which takes it. Guarantees that arrays never
move (native code holds their addresses), that reading copies, and that writing checks type and shape. Where a program
works in the memory of a device, the arrays here are copies: they are brought up to date when they are looked at.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.containers import container
from dfc_runtime.driver import DeviceMemory
from dfc_runtime.element_types import numpy_dtype, numpy_name
from dfc_runtime.errors import FeedError, RunError
from dfc_runtime.formats.manifest import DEFAULT_CONTAINER, Entry, StateEntry, described
from dfc_runtime.gate import Gate, Mode, Together
from dfc_runtime.memory import check_limit
from dfc_runtime.names import did_you_mean
from dfc_runtime.scalars import as_number

Array = NDArray[np.generic]


_SHARED = threading.Lock()
_CLOSED = ""  # among the names of what is not set: makes every call ask `require`


class UnknownStateError(FeedError, KeyError):
    """There is no state of that name."""

    __str__ = FeedError.__str__


class State(Mapping[str, "Array | np.generic"]):
    """`state["w1"]` is a copy (a NumPy scalar if it has rank 0); `state["w1"] = array` writes it."""

    def __init__(self, entries: Sequence[StateEntry], gate: Gate, limit: int) -> None:
        self.entries = {entry.name: entry for entry in entries}
        self.size = sum(numpy_dtype(e.dtype).itemsize * _elements(e.shape) for e in entries)
        check_limit("the state of the program", self.size, limit)
        self.containers = {
            name: container(name) for name in sorted({DEFAULT_CONTAINER, *(e.container for e in entries)})
        }
        self.arrays: dict[str, Array] = {e.name: self.containers[e.container].array(e) for e in entries}
        self.unset: set[str] = {e.name for e in entries if e.kind == "variable" and not self._is_set_by_others(e)}
        doors = [each.door.alone for name, each in self.containers.items() if name != DEFAULT_CONTAINER]
        self.alone: Mode = Together([gate.whole, *doors]) if doors else gate.whole
        """Held by Python while it looks at or changes state; nothing else does meanwhile."""
        self.turn = _SHARED if doors else threading.Lock()
        """Held through calls that may put state back: by one after the other, of all programs that share state."""
        self._memory: DeviceMemory | None = None

    def attach(self, memory: DeviceMemory | None) -> None:
        """From now on the program works on copies in the memory of a device."""
        self._memory = memory

    def detach(self) -> None:
        """Fetches all of it from the device, which is not asked again."""
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.pull(list(self.arrays))

    def current(self, names: Iterable[str]) -> dict[str, Array]:
        """The arrays as they are now, not copied; the caller holds `alone`."""
        found = {name: self.arrays[name] for name in names}
        if self._memory is not None:
            self._memory.pull(list(found))
        return found

    @property
    def locks(self) -> dict[str, Array]:
        """The locks of native code, by container."""
        return {name: each.lock for name, each in self.containers.items()}

    def set_by_others(self) -> list[str]:
        """What another program that is loaded has set already."""
        return [entry.name for entry in self.entries.values() if self._is_set_by_others(entry)]

    def _is_set_by_others(self, entry: StateEntry) -> bool:
        return entry.container != DEFAULT_CONTAINER and entry.name in self.containers[entry.container].set

    def __getitem__(self, name: str) -> Array | np.generic:
        self._known(name)
        with self.alone:
            array = self.current([name])[name]
            return array.copy() if array.ndim else array[()]

    def __setitem__(self, name: str, value: object) -> None:
        checked = checked_value(self.entries[self._known(name)], value)
        with self.alone:
            self.fill(name, checked)

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def __repr__(self) -> str:
        return "\n".join(["<state", *(f"  {name}: {entry}" for name, entry in self.entries.items())]) + ">"

    def fill(self, name: str, value: Array) -> None:
        """Writes without a lock; type and shape are known to be right."""
        self.fill_all({name: value})

    def fill_all(self, values: Mapping[str, Array]) -> None:
        """Likewise for several names."""
        for name, value in values.items():
            np.copyto(self.arrays[name], value)
        if self._memory is not None:
            self._memory.push(list(values))
        self.wrote(values)

    def wrote(self, names: Iterable[str]) -> None:
        """These have values now."""
        for name in names:
            self.unset.discard(name)
            place = self.entries[name].container
            if place != DEFAULT_CONTAINER:
                self.containers[place].set.add(name)

    @property
    def is_closed(self) -> bool:
        return _CLOSED in self.unset

    def close(self) -> None:
        """No entry may be called from now on; what is in the state stays."""
        self.unset.add(_CLOSED)

    def require(self, entry: Entry) -> None:
        """`RunError` if the entry reads what nothing has set yet, or may not be called any more."""
        if self.is_closed:
            raise RunError(f"`{entry.name}` cannot run: the module was closed", code="E0903")
        missing = [name for name in entry.reads if name in self.unset]
        missing = [name for name in missing if not self._is_set_by_others(self.entries[name])]
        if missing and entry.name != "init":
            text = f"`{entry.name}` reads {missing[0]}, which nothing has set: call init or restore first"
            place = self.entries[missing[0]].place
            raise RunError(f"{text}\n  it is declared at {place.name}:{place.line}", code="E0903", spans=[place])

    def _known(self, name: str) -> str:
        if name not in self.arrays:
            near = did_you_mean(str(name), self.arrays)
            raise UnknownStateError(f"there is no state `{name}`{near}", code="E0901")
        return name


def checked_value(entry: StateEntry, value: object) -> Array:
    """The value as an array that fits a piece of state, or a `FeedError`."""
    if not hasattr(value, "shape") and not entry.shape:
        try:
            return np.array(as_number(value, entry.dtype), numpy_dtype(entry.dtype))
        except ValueError as problem:
            raise FeedError(f"{entry.name} is {entry}: {problem}", code="E0901") from None
    array = np.asarray(value)
    if array.dtype != numpy_dtype(entry.dtype) or array.shape != entry.shape:
        wanted = f"{entry.name} is {described(entry.dtype, entry.shape)} ({numpy_name(entry.dtype)})"
        raise FeedError(f"{wanted}, but got {array.dtype.name} of shape {array.shape}", code="E0901")
    return array


def _elements(shape: Sequence[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count
