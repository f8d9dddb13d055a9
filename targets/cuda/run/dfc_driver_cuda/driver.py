"""The run half of the CUDA target: state on the device, entries as graphs, one call at a time.

Assumes that the image was checked against its hash and that the device runs it (`bits`). Guarantees that a call of an
entry without host work is one launch, and moves nothing but feeds, results and the error block. Needs the standard
library, NumPy and, for a real device, cuda-bindings; neither compiler nor numba.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dfc_driver_cuda import control, libcuda
from dfc_driver_cuda.arena import Memory
from dfc_driver_cuda.device import Device, Function
from dfc_driver_cuda.device_memory import CudaMemory
from dfc_driver_cuda.executor import NO_SITE, EntryRun, Fault, Loaded
from dfc_driver_cuda.libraries.choices import Libraries, has_convolutions
from dfc_driver_cuda.libraries.convolutions import ConvolutionLibrary
from dfc_driver_cuda.libraries.cublaslt import ProductError
from dfc_driver_cuda.libraries.cudnn_backend import ConvolutionError
from dfc_driver_cuda.libraries.products import ProductLibrary
from dfc_driver_cuda.memory_layout import Region
from dfc_driver_cuda.nodes import Code
from dfc_runtime.calls.memory import address_of
from dfc_runtime.driver import NativeFunction
from dfc_runtime.formats.fields import shown
from dfc_runtime.plans.plan import For, If, Plan, While, read_plan

Array = NDArray[np.generic]
T = TypeVar("T", ProductLibrary, ConvolutionLibrary)


class CudaDriver:
    """A loaded program on one device. Calls queue up."""

    reentrant = False
    has_devices = True

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
        state_owner: CudaDriver | None = None,
    ) -> None:
        plan = read_plan(notes.get("plan"))
        _check(plan, symbols, resources)
        self._fault: Fault = (NO_SITE, ())
        self._state_owner = state_owner  # lives as long, for the sake of its state
        self._device: Device = state_owner.device if state_owner is not None else libcuda.open_device(device)
        self.memory = state_owner.memory if state_owner is not None else CudaMemory(self._device, device, resources)
        self._working = Memory(self._device)
        self._entries: list[EntryRun] = []
        self._libraries: list[ProductLibrary | ConvolutionLibrary] = []
        self._no_library: dict[type[object], str] = {}
        self._guests: weakref.WeakSet[CudaDriver] = weakref.WeakSet()
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

    @property
    def guests(self) -> weakref.WeakSet[CudaDriver]:
        """Drivers that work on this one's state."""
        return self._guests

    @property
    def device(self) -> Device:
        return self._device

    def _load(self, image: bytes, plan: Plan, constants: Array, host: Callable[[int, int], None] | None) -> Loaded:
        names = [kernel.name for kernel in plan.kernels]
        libraries = self._opened(plan)
        kernels = self._device.load(image, names) if names else []
        code = Code(plan, kernels, _control(self._device, plan), libraries)
        address = self._working.fixed(constants.nbytes)
        if constants.nbytes:
            self._device.copy_in(address, address_of(constants), constants.nbytes)
        region = Region(address, constants.nbytes)
        return Loaded(self._device, self._working, code, region, self.memory.regions, host)

    @property
    def products(self) -> dict[str, str]:
        """Who made each product so far, by kernel and sizes; nothing where no library is there or asked for."""
        return self._library_notes(ProductLibrary)

    @property
    def convolutions(self) -> dict[str, str]:
        """The same of convolutions."""
        return self._library_notes(ConvolutionLibrary)

    def _library_notes(self, kind: type[ProductLibrary | ConvolutionLibrary]) -> dict[str, str]:
        libraries = (library for library in self._libraries if isinstance(library, kind))
        notes = {where: who for library in libraries for where, who in library.notes.items()}
        return notes | ({"all": self._no_library[kind]} if kind in self._no_library else {})

    def _opened(self, plan: Plan) -> Libraries:
        """The libraries that are there and that the plan has work for."""
        products, convolutions = None, None
        if any(kernel.product is not None for kernel in plan.kernels):
            products = self._open(ProductLibrary, "matrix_library")
        if has_convolutions(plan):
            convolutions = self._open(ConvolutionLibrary, "convolution_library")
        return Libraries(() if products is None else (products,), convolutions)

    def _open(self, kind: type[T], where: str) -> T | None:
        """A library that does not start is not used, and it is told why."""
        try:
            symbol = getattr(self._device, where)
            library = None if symbol is None else kind(symbol)
        except (ProductError, ConvolutionError) as problem:
            self._no_library[kind] = f"the kernel of the program, because {problem}"
            return None
        if library is not None:
            _, library.memory = self._device.memory()
            self._libraries.append(library)
        return library

    @classmethod
    def bits(cls, device: int) -> frozenset[str]:
        """What code the device runs: `sm_90` for its own and earlier ones of its family, `compute_80` for PTX."""
        return libcuda.device_bits(device)

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
    libraries: list[ProductLibrary | ConvolutionLibrary],
    working: Memory,
    memory: CudaMemory,
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


def _control(device: Device, plan: Plan) -> dict[str, Function]:
    """The kernels of the run half that the plan needs."""
    names = [control.CHECK, control.COPY]
    functions = dict(zip(names, device.load(control.plain_module().encode(), names), strict=True))
    steps = (step for entry in plan.entries for step in entry.steps)
    if device.conditional_nodes and any(isinstance(step, If | While | For) for step in steps):
        names = [control.SET, *(head + kind for kind in control.INTEGERS for head in (control.BEGIN, control.NEXT))]
        functions |= zip(names, device.load(control.conditional_module().encode(), names), strict=True)
    return functions
