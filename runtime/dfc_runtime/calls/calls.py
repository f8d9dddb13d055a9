"""What calls of entries need: feeds in, native code, results out. `functions` puts it together.

Assumes a driver and state that belong to the same manifest. Guarantees that nothing runs before all feeds are checked,
that calls run concurrently only where their entries say so, and that no two results share memory. What is not needed
each time is decided when the module is loaded, or once per combination of shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls import feeds
from dfc_runtime.calls.binding import Binder, Bound
from dfc_runtime.calls.device_arrays import DeviceArray, DeviceFeed
from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.calls.faults import run_error
from dfc_runtime.calls.feed import Feed
from dfc_runtime.calls.frames import Frame, FrameLayout
from dfc_runtime.calls.gate import Gate, Mode, together
from dfc_runtime.calls.hosts import Hosts
from dfc_runtime.calls.memory import UNLIMITED, Arena, ResultMemory, address_of
from dfc_runtime.calls.results import results_type
from dfc_runtime.calls.sizes import Shape, plan, result_shape
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.driver import Driver, Interruptible
from dfc_runtime.errors import LimitError
from dfc_runtime.formats.manifest import DEFAULT_CONTAINER, RESTORE, SAVE, Entry, Manifest
from dfc_runtime.state.state import State

if TYPE_CHECKING:
    from dfc_runtime.calls.started.starting import StartedCalls
    from dfc_runtime.runners.runners import Runners  # programs without queues need nothing of it

Array = NDArray[np.generic]

NO_DIMS: dict[str, int] = {}
_array_type, _empty = np.ndarray, np.empty  # looked up once, not in every call
_READY = 0x101  # C-contiguous and aligned, as `flags.num` counts
_MOST_PLANS = 4096
_MOST_KINDS = 64


@dataclass(slots=True)
class Machinery:
    """What the entries of a module share."""

    manifest: Manifest
    driver: Driver
    state: State
    gate: Gate
    arenas: Sequence[Arena]
    limit: int
    hosts: Hosts
    results: ResultMemory
    results_on_device: bool = False
    runners: Runners | None = None
    started: StartedCalls | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What one combination of shapes comes to: dims, bytes of arena, shapes, types and bytes of the tensors to return,
    and the dims by name."""

    dims: tuple[int, ...]
    arena: int
    tensors: list[tuple[Shape, np.dtype[np.generic], int]]
    by_name: Mapping[str, int]


class EntryCall:
    """The machinery of one entry."""

    def __init__(self, machinery: Machinery, number: int) -> None:
        entry = machinery.manifest.entries[number]
        self.entry: Entry = entry
        self.machinery = machinery
        self.memory = machinery.driver.memory
        self.allocate = self._on_device if machinery.results_on_device else self._on_host
        self.feeds = tuple(Feed(p) for p in entry.parameters)
        self.asked = machinery.manifest.kinds_in(entry.name)
        self.binder = Binder(entry, RESTORE in self.asked)
        self.layout = FrameLayout(entry)
        self.pack = self.layout.format.pack_into
        self.frames: list[Frame] = []
        self.is_concurrent = False
        self._arena = machinery.arenas[machinery.gate.arena(number)]
        self.gate = self._gate(number)
        self.native = machinery.driver.entry(number).call
        self.makers = tuple((numpy_dtype(r.dtype), bool(r.shape)) for r in entry.results)
        self.open = [(n, r) for n, r in enumerate(r for r in entry.results if r.shape) if r.most is not None]
        self.large = UNLIMITED if self.open else ResultMemory.SMALLEST  # what is resized owns its memory
        in_slots = [feed.is_tensor for feed in self.feeds if not feed.is_text]
        self.first_tensor = in_slots.index(True) if True in in_slots else None
        plain = all(feed.is_tensor and not feed.is_text for feed in self.feeds)
        self.only_tensors = tuple(feed.dtype for feed in self.feeds) if plain else ()
        self.plans: dict[tuple[object, ...], Plan] = {}
        self.wrap = self._wrapper()

    def _gate(self, number: int) -> Mode:
        """What a call holds. Saving and restoring work on the state in Python, so such an entry runs alone."""
        entry, gate, state = self.entry, self.machinery.gate, self.machinery.state
        if not self.asked.isdisjoint((SAVE, RESTORE)):
            return state.gates
        used = {state.entries[name].container for name in (*entry.reads, *entry.writes)} - {DEFAULT_CONTAINER}
        doors = [state.containers[name].door.shared for name in sorted(used)]
        mode = gate.whole
        if self.machinery.driver.reentrant and self.machinery.manifest.uses_queues_only(entry):
            mode, self.is_concurrent = gate.queueing, True
        elif self.machinery.driver.reentrant:
            mode = gate.readonly if entry.readonly else gate.call(number)
            self.is_concurrent = (entry.readonly or entry.concurrent) and not gate.lets_in_one
        return together([mode, *doors])

    def _wrapper(self) -> Callable[[Sequence[object]], object]:
        if self.entry.unnamed_result:
            return itemgetter(0)
        return results_type(self.entry.name, [r.name for r in self.entry.results]) if self.makers else _nothing

    def frame(self) -> Frame:
        """A frame that no call uses. Call with the gate held, and give it back to `frames`."""
        try:
            return self.frames.pop()
        except IndexError:
            return Frame(self.layout, Arena() if self.is_concurrent else self._arena)

    def collect(self, arguments: Sequence[object]) -> tuple[list[object], list[object], tuple[Shape, ...]]:
        """Values for the slots, arrays that must stay alive, and the shapes."""
        values: list[object] = []
        shapes: list[Shape] = []
        if self.only_tensors:
            for dtype, value in zip(self.only_tensors, arguments):  # noqa: B905  (binding has counted)
                if type(value) is not _array_type or value.dtype is not dtype or value.flags.num & _READY != _READY:
                    break
                values.append(address_of(value))
                shapes.append(value.shape)
            else:
                return values, [], tuple(shapes)
        return self._collect_any(arguments)

    def _collect_any(self, arguments: Sequence[object]) -> tuple[list[object], list[object], tuple[Shape, ...]]:
        """Likewise where something is no array as it is wanted."""
        values: list[object] = []
        kept: list[object] = []
        shapes: list[Shape] = []
        for feed, value in zip(self.feeds, arguments):  # noqa: B905  (each call pays for `strict`; binding has counted)
            if feed.is_tensor:
                if type(value) is not _array_type or value.dtype != feed.dtype or value.flags.num & _READY != _READY:
                    value = feeds.tensor(self.entry, feed.parameter, value, self.memory)
                    kept.append(value)
                    values.append(value.slot if isinstance(value, DeviceFeed) else address_of(value))
                else:
                    values.append(address_of(value))
                shapes.append(value.shape)
            elif type(value) in feed.quick:
                values.append(value)
            elif type(value) is _array_type and feed.quick and value.dtype == feed.dtype and not value.shape:
                values.append(value.item())
            elif not feed.is_text:
                values.append(feeds.scalar(self.entry, feed.parameter, value, self.memory))
        return values, kept, tuple(shapes)

    def plan(self, shapes: tuple[Shape, ...], bound: Bound | None) -> Plan:
        """What this combination of shapes comes to; computed once."""
        dims = bound.dims if bound is not None else NO_DIMS
        key: tuple[object, ...] = (shapes, *dims.values()) if dims else shapes
        call_plan = self.plans.get(key)
        if call_plan is None:
            if len(self.plans) >= _MOST_PLANS:
                self.plans.clear()
            self._check_shapes(shapes)
            sizes = plan(self.entry, shapes, dims, self.machinery.limit, self.machinery.state.size)
            pairs = zip(self.makers, sizes.result_shapes, strict=True)
            tensors = [(shape, dtype, dtype.itemsize * prod(shape)) for (dtype, is_tensor), shape in pairs if is_tensor]
            arena = sizes.arena if self.memory is None else 0  # a device has its own
            call_plan = self.plans[key] = Plan(sizes.dims, arena, tensors, sizes.by_name)
        return call_plan

    def _check_shapes(self, shapes: tuple[Shape, ...]) -> None:
        tensors = [feed.parameter for feed in self.feeds if feed.is_tensor]
        for parameter, shape in zip(tensors, shapes, strict=True):
            feeds.check_shape(self.entry, parameter, shape)

    def _on_device(self, plan: Plan, values: list[object]) -> list[DeviceArray]:
        """Likewise, in the memory of the device."""
        assert self.memory is not None
        arrays = [DeviceArray(self.memory, shape, dtype) for shape, dtype, _ in plan.tensors]
        values += [tensor.slot for tensor in arrays]
        return arrays

    def _on_host(self, plan: Plan, values: list[object]) -> list[Array]:
        """Memory for the results that are tensors; their addresses go to the values for the slots."""
        arrays: list[Array] = []
        try:
            for shape, dtype, size in plan.tensors:
                if size < self.large:
                    tensor = _empty(shape, dtype)
                else:
                    tensor = self.machinery.results.array(shape, dtype, size, self.first_address(values))
                values.append(address_of(tensor))
                arrays.append(tensor)
        except (MemoryError, ValueError):
            raise LimitError(f"there is no memory for the results of `{self.entry.name}`", code="E0905") from None
        return arrays

    def first_address(self, values: Sequence[object]) -> int:
        """That of the first feed that is a tensor; 0 if there is none."""
        address = values[self.first_tensor] if self.first_tensor is not None else 0
        assert isinstance(address, int)
        return address

    def resize_results(self, plan: Plan, frame: Frame, tensors: Sequence[Array | DeviceArray]) -> None:
        """Gives results the shapes that the call has found out. Their elements begin where the memory for them does;
        what lies behind them is given back."""
        sizes = {**plan.by_name}
        sizes.update((name, int(value[0])) for name, value in zip(self.entry.measured, frame.measured, strict=True))
        for number, result in self.open:
            shape = result_shape(self.entry, result, sizes)
            tensors[number].resize(shape, refcheck=False)  # no view of it is there yet

    def set_call_context(self, arguments: Sequence[object], bound: Bound | None) -> None:
        """Lets the handlers of a call know its texts and options."""
        texts = {
            number: feeds.text(self.entry, feed.parameter, value)
            for number, (feed, value) in enumerate(zip(self.feeds, arguments, strict=True))
            if feed.is_text
        }
        self.machinery.hosts.set_call_context(texts, bound.options if bound is not None else {})

    def fault(self) -> BaseException:
        """The error for the call that just failed. Called with the gate held: what a signal has stopped leaves state as
        it was before the call."""
        driver = self.machinery.driver
        site, values = driver.last_fault()
        if site < 0 and isinstance(driver, Interruptible):
            problem = driver.interruption()
            if problem is not None:
                return problem
        if site < 0 and self.machinery.hosts:
            problem = self.machinery.hosts.take()
            if isinstance(problem, KeyboardInterrupt) and isinstance(driver, Interruptible) and not driver.undo():
                problem.add_note(f"state keeps what `{self.entry.name}` had written by then")
            return problem
        faults, runners = self.machinery.manifest.faults, self.machinery.runners
        if runners is not None and 0 <= site < len(faults) and faults[site].kind == "queue":
            return runners.error(faults[site], values)
        return run_error(faults, site, values)

    def reserve(self, frame: Frame, size: int) -> int:
        """The address of the arena for a call."""
        try:
            return frame.arena.reserve(size)
        except (MemoryError, ValueError):
            raise LimitError(f"there is no memory for a call of `{self.entry.name}`", code="E0905") from None

    def refuse_scalars(self, arguments: Sequence[object]) -> None:
        """Finds the number that did not fit its slot, and raises the error for it."""
        for feed, value in zip(self.feeds, arguments, strict=True):
            if not feed.is_tensor and not feed.is_text:
                feeds.scalar(self.entry, feed.parameter, value, self.memory)


def _nothing(_: Sequence[object]) -> None:
    return None
