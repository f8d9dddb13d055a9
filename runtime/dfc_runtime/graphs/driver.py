"""What drivers inherit whose devices run graphs: state on the device, entries as graphs, one call at a time.

Assumes that the image was checked against its hash and that the device runs it (`bits`). Guarantees that a call of an
entry without host work is one launch, and moves nothing but feeds, results and the error block.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.memory import address_of
from dfc_runtime.driver import NativeFunction
from dfc_runtime.formats.fields import shown
from dfc_runtime.graphs import control
from dfc_runtime.graphs.arena import Memory
from dfc_runtime.graphs.device import Device, Function
from dfc_runtime.graphs.device_memory import ProgramMemory
from dfc_runtime.graphs.executor import NO_SITE, EntryRun, Fault, Loaded
from dfc_runtime.graphs.library_calls import LaunchLibrary
from dfc_runtime.graphs.memory_layout import Region
from dfc_runtime.graphs.nodes import Code
from dfc_runtime.plans.plan import Plan, read_plan
from dfc_runtime.plans.steps import For, If, While

Array = NDArray[np.generic]
D = TypeVar("D", bound=Device)


class Closing(Protocol):
    """What is given back with the program."""

    def close(self) -> None: ...


class GraphDriver(ABC, Generic[D]):
    """A loaded program on one device. Calls queue up."""

    reentrant = False
    has_devices = True
    kind: int
    """The kind of its devices, as DLPack counts them."""

    def __init__(
        self,
        *,
        image: bytes,
        symbols: Mapping[str, int],
        notes: Mapping[str, object],
        constants: Array,
        resources: Mapping[str, Array],
        threads: int = 1,
        locks: Mapping[str, Array] | None = None,
        host: Callable[[int, int], None] | None = None,
        device: int = 0,
        state_owner: GraphDriver[D] | None = None,
    ) -> None:
        plan = read_plan(notes.get("plan"))
        _check(plan, symbols, resources)
        self._fault: Fault = (NO_SITE, ())
        self._state_owner = state_owner  # lives as long, for the sake of its state
        self._device = state_owner.device if state_owner is not None else self.open_device(device)
        own = (self._device, (self.kind, device), resources)
        self.memory = state_owner.memory if state_owner is not None else ProgramMemory(*own)
        self._working = Memory(self._device)
        self._entries: list[EntryRun] = []
        self._libraries: list[Closing] = []
        self._guests: weakref.WeakSet[GraphDriver[D]] = weakref.WeakSet()
        parts = (self._device, self._entries, self._libraries, self._working, self.memory, state_owner is None)
        self._end = weakref.finalize(self, _close, *parts)
        self._end.atexit = False  # the process gives all of it back
        try:
            with self._device.current():
                loaded = self._load(image, plan, constants, host)
        except BaseException:
            self.close()
            raise
        self._entries += [EntryRun(loaded, number) for number in range(len(plan.entries))]
        if state_owner is not None:
            state_owner.guests.add(self)

    # --- what differs from device to device

    @abstractmethod
    def open_device(self, number: int) -> D:
        """The device of that number."""

    @abstractmethod
    def control_module(self, *, conditional: bool) -> bytes:
        """Code with the kernels `control.CONDITIONAL`, or `control.PLAIN`."""

    def open_libraries(self, plan: Plan) -> Sequence[LaunchLibrary]:
        """The libraries that are there and that the plan has work for, those first that are asked first."""
        return ()

    def close_with_program(self, library: Closing) -> None:
        """Closes a library when the program is closed."""
        self._libraries.append(library)

    # --- what is the same

    @property
    def guests(self) -> weakref.WeakSet[GraphDriver[D]]:
        """Drivers that work on this one's state."""
        return self._guests

    @property
    def device(self) -> D:
        return self._device

    def _load(self, image: bytes, plan: Plan, constants: Array, host: Callable[[int, int], None] | None) -> Loaded:
        names = [kernel.name for kernel in plan.kernels]
        libraries = self.open_libraries(plan)
        kernels = self._device.load(image, names) if names else []
        code = Code(plan, kernels, self._control(plan), libraries)
        address = self._working.fixed(constants.nbytes)
        if constants.nbytes:
            self._device.copy_in(address, address_of(constants), constants.nbytes)
        region = Region(address, constants.nbytes)
        return Loaded(self._device, self._working, code, region, self.memory.regions, host)

    def _control(self, plan: Plan) -> dict[str, Function]:
        """The kernels of the device itself that the plan needs."""
        steps = (step for entry in plan.entries for step in entry.steps)
        nested = self._device.conditional_nodes and any(isinstance(step, If | While | For) for step in steps)
        functions: dict[str, Function] = {}
        for names, conditional in ((control.PLAIN, False), *([(control.CONDITIONAL, True)] if nested else ())):
            loaded = self._device.load(self.control_module(conditional=conditional), names)
            functions |= zip(names, loaded, strict=True)
        return functions

    def entry(self, number: int) -> NativeFunction:
        """The calls of an entry."""
        run = self._entries[number]

        def call(slots: int) -> int:
            code = run.call(slots)
            if code:
                self._fault = run.fault
            return code

        return NativeFunction(call)

    def last_fault(self) -> Fault:
        """The site (counted from 0; -1: a host call) and the values of the last failed call."""
        return self._fault

    def close(self) -> None:
        """Gives all memory of the program back; that of results that are in use stays. Also done when nobody has the
        driver any more."""
        for guest in list(self._guests):
            guest.close()
        self._end()


def _close(
    device: Device,
    entries: list[EntryRun],
    libraries: list[Closing],
    working: Memory,
    memory: ProgramMemory,
    owns_state: bool,
) -> None:
    if memory.is_closed:
        return
    with device.current():
        for run in entries:
            run.forget()
        for library in libraries:
            library.close()
        working.close()
    if owns_state:
        memory.close()


def _check(plan: Plan, symbols: Mapping[str, int], resources: Mapping[str, Array]) -> None:
    """`ValueError` if the parts of the bundle do not belong together."""
    for kernel in plan.kernels:
        if kernel.name not in symbols:
            raise ValueError(f"the image lacks the kernel {shown(kernel.name)}")
    for entry in plan.entries:
        for buffer in entry.buffers:
            if buffer.role == "resource" and buffer.resource not in resources:
                raise ValueError(f"the plan uses the unknown state {shown(buffer.resource)}")
