"""Calls of one entry of a program on several devices: slots to each part, all parts at once, results back.

Assumes one call at a time. Guarantees that a call is over when it returns, on all devices, whatever it ends with.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.calls.memory import Arena, address_of
from dfc_runtime.driver import ON_DEVICE, DeviceMemory
from dfc_runtime.formats.manifest import Entry
from dfc_runtime.mixed.meeting import Meeting
from dfc_runtime.mixed.parts import Unit
from dfc_runtime.mixed.plan import EntryPlan, PartPlan

Words = ctypes.Array[ctypes.c_uint64]
Fault = tuple[int, tuple[int, ...]]
HOST_FAILED = -1
_MOST_SIZES = 4096


class _Part:
    """The part of an entry on one device, with the slots of its call. `memory` is that of arrays which are fed from a
    device."""

    def __init__(self, unit: Unit, plan: PartPlan, whole: EntryPlan, memory: DeviceMemory) -> None:
        self.unit, self._plan = unit, plan
        self._entry: Entry = unit.entry(plan.entry)
        entry = self._entry
        signature = (len(plan.arguments), len(plan.results), len(plan.measured), whole.dims)
        if signature != (len(entry.parameters), len(entry.results), len(entry.measured), len(entry.dims)):
            raise ValueError(f"the part of `{entry.name}` on {unit.name} is not what the plan says")
        self._memory = memory
        own = unit.driver.memory
        self._takes_arrays = own is not None and own.kind == memory.kind
        self._has_arena = own is None
        self.native = unit.driver.entry(plan.entry).call
        self._slots: Words = (ctypes.c_uint64 * entry.slot_count)()
        self.address = ctypes.addressof(self._slots)
        first = len(plan.arguments) + len(plan.results)
        self._dims = [(first + n, entry.dims.index(name)) for n, name in enumerate(entry.slot_dims)]
        self._arena_slot = first + len(entry.slot_dims)
        pairs = zip(plan.results, entry.results, strict=True)
        self._scalars = [(len(plan.arguments) + n, r) for n, (r, result) in enumerate(pairs) if not result.shape]
        self._tensors = [n for n, parameter in enumerate(entry.parameters) if parameter.shape]
        self._arenas: dict[tuple[int, ...], int] = {}
        self._kept: list[NDArray[np.uint8]] = []
        self.code = 0
        self.fault: Fault = (HOST_FAILED, ())
        self.problem: BaseException | None = None

    def fill(self, outer: Words, whole: EntryPlan, arena: Arena) -> None:
        """Copies what the caller gave. What lies on a device that is not this one is fetched."""
        slots, arguments = self._slots, self._plan.arguments
        for mine, number in enumerate(arguments):
            slots[mine] = outer[number]
        for mine, number in enumerate(self._plan.results, len(arguments)):
            slots[mine] = outer[whole.arguments + number]
        first = whole.arguments + whole.results
        dims = tuple(outer[first : first + whole.dims])
        for mine, number in self._dims:
            slots[mine] = dims[number]
        self._kept.clear()
        if not self._takes_arrays:
            for mine in self._tensors:
                if slots[mine] & ON_DEVICE:
                    slots[mine] = self._fetched(mine, slots[mine] & ~ON_DEVICE, dims)
        if self._has_arena:
            slots[self._arena_slot] = arena.reserve(self._arena(dims))
        self.code, self.problem, self.unit.messenger.problem = 0, None, None

    def _fetched(self, number: int, address: int, dims: Sequence[int]) -> int:
        """The address of a copy in the memory of the host."""
        parameter, sizes = self._entry.parameters[number], dict(zip(self._entry.dims, dims, strict=True))
        elements = math.prod(axis.evaluate(sizes) for axis in parameter.shape)
        copy = np.empty(elements * numpy_dtype(parameter.dtype).itemsize, np.uint8)
        self._memory.copy_out(address, copy)
        self._kept.append(copy)
        return address_of(copy)

    def _arena(self, dims: tuple[int, ...]) -> int:
        arena_size = self._arenas.get(dims)
        if arena_size is None:
            if len(self._arenas) >= _MOST_SIZES:
                self._arenas.clear()
            sizes: Mapping[str, int] = dict(zip(self._entry.dims, dims, strict=True))
            arena_size = self._arenas[dims] = self._entry.arena.evaluate(sizes)
        return arena_size

    def run(self, meeting: Meeting, call: int) -> None:
        """Runs it; what goes wrong is kept."""
        if not meeting.enter(self.unit.name, call):
            return
        try:
            self.code = self.native(self.address)
            if self.code:
                self.fault = self.unit.driver.last_fault()
        except BaseException as problem:
            self.problem = problem
        finally:
            meeting.end(self.unit.name)

    def failure(self) -> BaseException | None:
        return self.problem or self.unit.messenger.problem

    def answer(self, outer: Words, whole: EntryPlan) -> None:
        """Copies scalars and sizes to where the caller looks for them."""
        for mine, number in self._scalars:
            outer[whole.arguments + number] = self._slots[mine]
        first = whole.arguments + whole.results + whole.dims + 1
        for mine, number in enumerate(self._plan.measured, self._arena_slot + 1):
            outer[first + number] = self._slots[mine]


class MixedCall:
    """One entry. `arena` is the working memory of the processors, shared by all entries."""

    def __init__(
        self, plan: EntryPlan, units: Sequence[Unit], meeting: Meeting, memory: DeviceMemory, arena: Arena
    ) -> None:
        self._plan, self._meeting, self._arena = plan, meeting, arena
        self._parts = [_Part(units[part.device], part, plan, memory) for part in plan.parts]
        self._own = next((part for part in self._parts if part.unit.plan.kind == "cpu"), None) or (
            self._parts[0] if self._parts else None
        )
        self._others = [part for part in self._parts if part is not self._own]
        self._names = [part.unit.name for part in self._parts]
        count = plan.arguments + plan.results + plan.dims + 1 + plan.measured
        self._words = ctypes.c_uint64 * count
        self.fault: Fault = (HOST_FAILED, ())

    def call(self, slots: int) -> int:
        """Runs all parts on the slots at this address: 0 when they are done, 1 after a fault, which `fault` gives."""
        outer = self._words.from_address(slots)
        for part in self._parts:
            part.fill(outer, self._plan, self._arena)
        self._run()
        for part in self._parts:
            problem = part.failure()
            if problem is not None:
                raise problem
        for part in self._parts:
            if part.code and not self._meeting.was_stopped(part.unit.name):
                site, values = part.fault
                self.fault = (site if site == HOST_FAILED else part.unit.plan.faults + site, values)
                return 1
        for part in self._parts:
            part.answer(outer, self._plan)
        return 0

    def _run(self) -> None:
        """All parts, each in its thread: the caller's is that of the processors."""
        own, meeting = self._own, self._meeting
        if own is None:
            return
        call = meeting.begin(self._names)
        try:
            for part in self._others:
                part.unit.worker.do(_task(part, meeting, call))
            own.run(meeting, call)
        except BaseException:  # an interrupt, which the rest is not to wait for
            meeting.stop()
            raise
        finally:
            meeting.wait()


def _task(part: _Part, meeting: Meeting, call: int) -> Callable[[], None]:
    return lambda: part.run(meeting, call)
