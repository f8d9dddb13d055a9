"""Calls of entries: feeds in, native code, results out.

Assumes a driver and state that belong to the same manifest. Guarantees that nothing runs before all feeds are checked,
that calls run concurrently only where their entries say so, and that no two results share memory. What a call costs
beyond native code is what stands in `scalar_call` and `tensor_call`; everything that is not needed each time is decided
when the module is loaded, or once per combination of shapes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from math import prod
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls import feeds
from dfc_runtime.calls.binding import Binder, Bound
from dfc_runtime.calls.device_arrays import DeviceArray, DeviceFeed
from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.calls.faults import run_error
from dfc_runtime.calls.feed import Feed
from dfc_runtime.calls.frames import Frame, FrameLayout
from dfc_runtime.calls.gate import Gate, Mode, Together
from dfc_runtime.calls.hosts import Calling, Hosts
from dfc_runtime.calls.memory import UNLIMITED, Arena, ResultMemory, address_of
from dfc_runtime.calls.results import results_type
from dfc_runtime.calls.sizes import Shape, plan, result_shape
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.driver import Driver, Interruptible
from dfc_runtime.errors import LimitError
from dfc_runtime.formats.manifest import DEFAULT_CONTAINER, RESTORE, SAVE, SEND, Entry, Manifest
from dfc_runtime.state.state import State

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
    arena: Arena
    limit: int
    hosts: Hosts
    results: ResultMemory
    results_on_device: bool = False


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
        self.gate = self._gate()
        self.native = machinery.driver.entry(number).call
        self.makers = tuple((numpy_dtype(r.dtype), bool(r.shape)) for r in entry.results)
        self.open = [(n, r) for n, r in enumerate(r for r in entry.results if r.shape) if r.most is not None]
        self.large = UNLIMITED if self.open else ResultMemory.SMALLEST  # what is resized owns its memory
        in_slots = [feed.is_tensor for feed in self.feeds if not feed.is_text]
        self.first_tensor = in_slots.index(True) if True in in_slots else None
        self.plans: dict[tuple[object, ...], Plan] = {}
        self.wrap = self._wrapper()

    def _gate(self) -> Mode:
        """What a call holds. Saving and restoring work on the state in Python, so such an entry runs alone."""
        entry, gate, state = self.entry, self.machinery.gate, self.machinery.state
        if not self.asked.isdisjoint((SAVE, RESTORE)):
            return state.alone
        used = {state.entries[name].container for name in (*entry.reads, *entry.writes)} - {DEFAULT_CONTAINER}
        doors = [state.containers[name].door.shared for name in sorted(used)]
        mode = gate.whole
        if self.machinery.driver.reentrant:
            mode = gate.readonly if entry.readonly else gate.concurrent if entry.concurrent else gate.exclusive
            self.is_concurrent = mode is not gate.exclusive
        return Together([mode, *doors]) if doors else mode

    def _wrapper(self) -> Callable[[Sequence[object]], object]:
        if self.entry.unnamed_result:
            return itemgetter(0)
        return results_type(self.entry.name, [r.name for r in self.entry.results]) if self.makers else _nothing

    def frame(self) -> Frame:
        """A frame that no call uses. Call with the gate held, and give it back to `frames`."""
        try:
            return self.frames.pop()
        except IndexError:
            return Frame(self.layout, Arena() if self.is_concurrent else self.machinery.arena)

    def collect(self, arguments: Sequence[object]) -> tuple[list[object], list[object], tuple[Shape, ...]]:
        """Values for the slots, arrays that must stay alive, and the shapes."""
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
        return run_error(self.machinery.manifest.faults, site, values)

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


def _getter(entry_call: EntryCall) -> tuple[frozenset[str], Callable[[Mapping[str, object]], Sequence[object]] | None]:
    """The names of the feeds, and the quick way from feeds by name to their order; None where there is none."""
    names = [feed.parameter.name for feed in entry_call.feeds]
    if not names or entry_call.entry.dim_feeds:
        return frozenset(names), None
    if len(names) == 1:
        return frozenset(names), lambda named: (named[names[0]],)
    return frozenset(names), itemgetter(*names)


def _nothing(_: Sequence[object]) -> None:
    return None


def make_call(machinery: Machinery, number: int) -> Callable[..., object]:
    """The function behind an entry."""
    entry_call = EntryCall(machinery, number)
    entry = entry_call.entry
    sending = sending_call(entry_call)
    if sending is not None:
        return sending
    plain = not entry.dims and not any(feed.is_text for feed in entry_call.feeds)
    if plain and not any(each.shape for each in (*entry.parameters, *entry.results)):
        return machinery.hosts.counted(entry.name, scalar_call(entry_call))
    return machinery.hosts.counted(entry.name, tensor_call(entry_call))


def sending_call(entry_call: EntryCall) -> Callable[..., object] | None:
    """For parts of entries that do nothing but send variables: they need no native code. None for others, for what may
    run concurrently with others, and where variables lie in the memory of a device."""
    entry, machinery = entry_call.entry, entry_call.machinery
    if entry_call.asked != frozenset({SEND}):
        return None
    calling = Calling(-1)
    requests = machinery.hosts.handed(entry.name, machinery.state.arrays, calling)
    if not requests or entry.writes or entry.results or machinery.driver.memory is not None:
        return None
    gate, unset, bind, takes_none = entry_call.gate, machinery.state.unset, entry_call.binder.bind, not entry.parameters

    def call(*arguments: object, **named: object) -> None:
        if arguments or named or not takes_none:
            entry_call.collect(bind(arguments, named).feeds)
        with gate:
            if unset:
                machinery.state.require(entry)
            calling.number += 1
            machinery.hosts.hand(requests)

    return call


def scalar_call(entry_call: EntryCall) -> Callable[..., object]:
    """For entries of one native function whose feeds and results all have rank 0."""
    count = len(entry_call.feeds)
    names, by_name = _getter(entry_call)
    known: dict[tuple[type, ...], bool] = {}
    native, pack, gate, wrap = entry_call.native, entry_call.pack, entry_call.gate, entry_call.wrap
    arena = entry_call.plan((), None).arena
    unset, entry = entry_call.machinery.state.unset, entry_call.entry
    has_one_result = entry.unnamed_result
    own_frame = None if entry_call.is_concurrent else entry_call.frame()
    frames = entry_call.frames

    def is_packable(types: tuple[type, ...]) -> bool:
        """Whether values of these types are packed as they are; remembered for the usual ones."""
        packable = all(kind in feed.quick for feed, kind in zip(entry_call.feeds, types, strict=True))
        if len(known) < _MOST_KINDS:
            known[types] = packable
        return packable

    def call(*arguments: object, **named: object) -> object:
        values: Sequence[object] = arguments
        if named or len(arguments) != count:
            if by_name is not None and len(named) == count and not arguments and named.keys() == names:
                values = by_name(named)
            else:
                values = entry_call.binder.bind(arguments, named).feeds
        ordered = values
        types = tuple(map(type, values))
        if not (known[types] if types in known else is_packable(types)):
            values, _, _ = entry_call.collect(values)
        with gate:
            frame = own_frame or (frames.pop() if frames else entry_call.frame())
            try:
                if unset:
                    entry_call.machinery.state.require(entry)
                pack(frame.buffer, 0, *values, entry_call.reserve(frame, arena) if arena else 0)
                if native(frame.address):
                    raise entry_call.fault()
                if unset:
                    entry_call.machinery.state.wrote(entry.writes)
                return frame.scalars[0][0] if has_one_result else wrap([scalar[0] for scalar in frame.scalars])
            except (struct.error, OverflowError):
                entry_call.refuse_scalars(ordered)
                raise
            finally:
                if own_frame is None:
                    frames.append(frame)

    return call


def tensor_call(entry_call: EntryCall) -> Callable[..., object]:
    """For every entry."""
    count = len(entry_call.feeds)
    binds_always = bool(entry_call.entry.dim_feeds)
    names, by_name = _getter(entry_call)
    unset, entry, pack, gate = entry_call.machinery.state.unset, entry_call.entry, entry_call.pack, entry_call.gate
    own_frame = None if entry_call.is_concurrent else entry_call.frame()
    native, plans, frames = entry_call.native, entry_call.plans, entry_call.frames
    has_text_feeds = bool(entry_call.asked) and any(feed.is_text for feed in entry_call.feeds)
    mixed = {is_tensor for _, is_tensor in entry_call.makers} == {False, True}

    def call(*arguments: object, **named: object) -> object:
        bound = None
        ordered: Sequence[object] = arguments
        if named or len(arguments) != count or binds_always:
            if by_name is not None and len(named) == count and not arguments and named.keys() == names:
                ordered = by_name(named)
            else:
                bound = entry_call.binder.bind(arguments, named)
                ordered = bound.feeds
        values, _kept, shapes = entry_call.collect(ordered)
        sizes = (plans.get(shapes) if bound is None else None) or entry_call.plan(shapes, bound)
        tensors = entry_call.allocate(sizes, values)
        if has_text_feeds:
            entry_call.set_call_context(ordered, bound)
        with gate:
            frame = own_frame or (frames.pop() if frames else entry_call.frame())
            try:
                if unset:
                    entry_call.machinery.state.require(entry)
                pack(frame.buffer, 0, *values, *sizes.dims, entry_call.reserve(frame, sizes.arena))
                if native(frame.address):
                    raise entry_call.fault()
                if unset:
                    entry_call.machinery.state.wrote(entry.writes)
                if entry_call.open:
                    entry_call.resize_results(sizes, frame, tensors)
                if mixed:
                    return entry_call.wrap(_merged(entry_call, tensors, frame))
                return entry_call.wrap([scalar[0] for scalar in frame.scalars] if frame.scalars else tensors)
            except (struct.error, OverflowError):
                entry_call.refuse_scalars(ordered)
                raise
            finally:
                if own_frame is None:
                    frames.append(frame)

    return call


def _merged(entry_call: EntryCall, tensors: Sequence[Array | DeviceArray], frame: Frame) -> list[object]:
    """Tensors and scalars in the order of the signature."""
    arrays, scalars = iter(tensors), iter(frame.scalars)
    return [next(arrays) if is_tensor else next(scalars)[0] for _, is_tensor in entry_call.makers]
