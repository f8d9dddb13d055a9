"""The state of a module: variables and random streams by full name.

Assumes that whoever changes it holds `alone`, but for the mapping itself, which takes it. Guarantees that arrays never
move (native code holds their addresses), that reading copies, and that writing checks type and shape. Where a program
works in the memory of a device, the arrays here are copies: they are brought up to date when they are looked at.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.element_types import numpy_dtype, numpy_name
from dfc_runtime.calls.gate import Gate, Mode, Serving, together
from dfc_runtime.calls.memory import address_of, aligned, check_limit, give_back_zeros
from dfc_runtime.calls.scalars import as_number
from dfc_runtime.driver import LOCK_BYTES, DeviceMemory
from dfc_runtime.errors import FeedError, RunError
from dfc_runtime.formats.manifest import BACKGROUND, DEFAULT_CONTAINER, QUEUE, Entry, StateEntry, described
from dfc_runtime.names import did_you_mean
from dfc_runtime.state.containers import Container, container
from dfc_runtime.state.former_names import present_name

Array = NDArray[np.generic]


_SHARED = threading.Lock()
_CLOSED = ""  # among the names of what is not set: makes every call ask `require`
_FORKED = "\0"  # likewise
_IN_CHILD = (
    "this process was forked while a call of the program ran, which does not go on here\n"
    "  load the program in the child, or fork while no call runs"
)
_STATES: WeakValueDictionary[int, State] = WeakValueDictionary()


def _after_fork() -> None:
    """In a forked child: programs that other threads were in are no more to be used."""
    states = list(_STATES.values())
    shared = {id(each): each.door for state in states for each in state.shared()}
    busy = {key for key, door in shared.items() if door.forget_threads()}
    for state in states:
        state.forget_threads(busy)


os.register_at_fork(after_in_child=_after_fork)


class _Unbroken:
    """A mode in which Python looks at state, which must not be what a call has left that is not going on."""

    def __init__(self, mode: Mode, state: State) -> None:
        self._mode, self._unset = mode, state.unset

    def __enter__(self) -> None:
        if _FORKED in self._unset:
            raise RunError(f"the state is of no use: {_IN_CHILD}", code="E0903")
        self._mode.__enter__()

    def __exit__(self, *_: object) -> None:
        self._mode.__exit__(None, None, None)


class Background:
    """A mode that holds the lock of what runners share with entries, once native code has it."""

    def __init__(self) -> None:
        self.memory: Array = aligned((LOCK_BYTES,), np.dtype(np.uint8))
        self._lock: Callable[[int], None] = _ignore
        self._unlock: Callable[[int], None] = _ignore

    def attach(self, lock: Callable[[int], None], unlock: Callable[[int], None]) -> None:
        """From now on native code that runs in the background may hold it; these take it and give it back."""
        self._lock, self._unlock = lock, unlock

    def detach(self) -> None:
        """Nothing runs in the background any more."""
        self._lock = self._unlock = _ignore
        self.memory[...] = 0

    def __enter__(self) -> None:
        self._lock(address_of(self.memory))

    def __exit__(self, *_: object) -> None:
        self._unlock(address_of(self.memory))


def _ignore(_: int) -> None:
    """Nothing is locked."""


class UnknownStateError(FeedError, KeyError):
    """There is no state of that name."""

    __str__ = FeedError.__str__


class State(Mapping[str, "Array | np.generic"]):
    """`state["w1"]` is a copy (a NumPy scalar if it has rank 0); `state["w1"] = array` writes it. Queues are not seen:
    threads are at them at any time."""

    def __init__(
        self,
        entries: Sequence[StateEntry],
        gate: Gate,
        limit: int,
        idle: Set[str] = frozenset(),
        omitted: Set[str] = frozenset(),
    ) -> None:
        """`idle` is what no entry that is called mentions; it lies behind all else. `omitted` is what only entries
        mention that were left out."""
        self.omitted = omitted
        self.entries = {entry.name: entry for entry in entries}
        self._seen = {entry.name: entry for entry in entries if entry.kind != QUEUE}
        self.size = sum(numpy_dtype(e.dtype).itemsize * _elements(e.shape) for e in entries)
        check_limit("the state of the program", self.size, limit)
        self.containers = {
            name: container(name) for name in sorted({DEFAULT_CONTAINER, *(e.container for e in entries)})
        }
        memory: dict[str, Array] = {}
        for name, each in self.containers.items():
            memory |= each.arrays(sorted((e for e in entries if e.container == name), key=lambda e: e.name in idle))
        self.arrays: dict[str, Array] = {e.name: memory[e.name] for e in entries}
        self.unset: set[str] = {e.name for e in entries if e.kind == "variable" and not self._is_set_by_others(e)}
        doors = [each.door.alone for name, each in self.containers.items() if name != DEFAULT_CONTAINER]
        self.background = Background()
        has_queues = any(entry.kind == QUEUE for entry in entries)
        modes = [gate.whole, *doors]
        self.gates: Mode = _Unbroken(together(modes), self)
        """Held by Python while no call is to look at or change state; runners may."""
        self.alone: Mode = _Unbroken(together([*modes, self.background] if has_queues else modes), self)
        """Held by Python while it looks at or changes state; nothing else does meanwhile."""
        self.turn = gate.turn(_SHARED if doors else None)
        """Held through calls that may put state back: by one after the other, of all programs that share state."""
        self._memory: DeviceMemory | None = None
        self._idle = [e.name for e in entries if e.name in idle and e.container == DEFAULT_CONTAINER]
        self._gate = gate
        _STATES[id(self)] = self

    def shared(self) -> list[Container]:
        """The containers that other programs may use, too."""
        return [each for name, each in self.containers.items() if name != DEFAULT_CONTAINER]

    def forget_threads(self, busy: Set[int]) -> None:
        """In a forked child: calls of other threads do not go on here, and what they left is of no use. `busy` are the
        containers of which that is known."""
        self.background.detach()
        if self._gate.forget_threads() or any(id(each) in busy for each in self.shared()):
            self.unset.add(_FORKED)

    @property
    def is_broken(self) -> bool:
        """Whether this is a child that was forked while a call ran."""
        return _FORKED in self.unset

    @property
    def serving(self) -> Serving:
        """Which request of the program this thread answers."""
        return self._gate.serving

    def attach(self, memory: DeviceMemory | None) -> None:
        """From now on the program works on copies in the memory of a device."""
        self._memory = memory

    def detach(self) -> None:
        """Fetches all of it from the device, which is not asked again."""
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.pull(list(self._seen))

    def current(self, names: Iterable[str]) -> dict[str, Array]:
        """The arrays as they are now, not copied; the caller holds `alone`."""
        values = {name: self.arrays[name] for name in names}
        if self._memory is not None:
            self._memory.pull(list(values))
        return values

    def release_idle(self) -> None:
        """Gives back the memory of zeros that no entry mentions, such as what an optimiser keeps of each weight in a
        program that is loaded to be asked alone. Nobody uses the state meanwhile."""
        for name in self._idle if self._memory is None else ():
            give_back_zeros(self.arrays[name])

    def empty_queues(self) -> None:
        """Takes all elements out of the queues, and opens those that are closed; nobody uses one, and the caller holds
        `alone`."""
        for entry in self.entries.values():
            if entry.kind == QUEUE:
                self.arrays[entry.name][...] = 0

    @property
    def locks(self) -> dict[str, Array]:
        """The locks of native code, by container, and that of what runners share."""
        return {BACKGROUND: self.background.memory, **{name: each.lock for name, each in self.containers.items()}}

    def set_by_others(self) -> list[str]:
        """What another program that is loaded has set already."""
        return [entry.name for entry in self.entries.values() if self._is_set_by_others(entry)]

    def _is_set_by_others(self, entry: StateEntry) -> bool:
        return entry.container != DEFAULT_CONTAINER and entry.name in self.containers[entry.container].set

    def __getitem__(self, name: str) -> Array | np.generic:
        known = self._known(name)
        with self.alone:
            array = self.current([known])[known]
            return array.copy() if array.ndim else array[()]

    def __setitem__(self, name: str, value: object) -> None:
        known = self._known(name)
        checked = checked_value(self.entries[known], value)
        with self.alone:
            self.fill(known, checked)

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    def __repr__(self) -> str:
        return "\n".join(["<state", *(f"  {name}: {entry}" for name, entry in self._seen.items())]) + ">"

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
            container = self.entries[name].container
            if container != DEFAULT_CONTAINER:
                self.containers[container].set.add(name)

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
        if self.is_broken:
            raise RunError(f"`{entry.name}` cannot run: {_IN_CHILD}", code="E0903")
        missing = [name for name in entry.reads if name in self.unset]
        missing = [name for name in missing if not self._is_set_by_others(self.entries[name])]
        if missing and entry.name != "init":
            text = f"`{entry.name}` reads {missing[0]}, which nothing has set: call init or restore first"
            location = self.entries[missing[0]].location
            raise RunError(
                f"{text}\n  it is declared at {location.name}:{location.line}", code="E0903", spans=[location]
            )

    def _known(self, name: str) -> str:
        if name not in self._seen:
            present = present_name(str(name), self._seen)
            if present:
                return present
            if name in self.arrays:
                raise UnknownStateError(f"`{name}` is a queue: entries put into it and take out of it", code="E0901")
            near = did_you_mean(str(name), self._seen)
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
        expected = f"{entry.name} is {described(entry.dtype, entry.shape)} ({numpy_name(entry.dtype)})"
        raise FeedError(f"{expected}, but got {array.dtype.name} of shape {array.shape}", code="E0901")
    return array


def _elements(shape: Sequence[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count
