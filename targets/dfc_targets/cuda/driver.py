"""The run half of the CUDA target: state on the device, entries as graphs, one call at a time.

Assumes that the image was checked against its hash and that the device runs it (`bits`). Guarantees that state stays on
the device from call to call: the arrays of the host follow only when `pull` and `push` are called. Needs the standard
library, NumPy and, for a real device, cuda-bindings; neither compiler nor numba.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.errors import BundleError
from dfc_runtime.formats.fields import shown
from dfc_runtime.memory import address_of
from dfc_targets.cuda import control
from dfc_targets.cuda.arena import Memory
from dfc_targets.cuda.device import Device, Function
from dfc_targets.cuda.executor import NO_SITE, EntryRun, Fault, Loaded
from dfc_targets.cuda.libcuda import device_bits, open_device
from dfc_targets.cuda.nodes import Code
from dfc_targets.cuda.places import LARGE, LINE, Region
from dfc_targets.cuda.plan_format import For, If, Plan, While, read_plan

Array = NDArray[np.generic]

DEVICE_VARIABLE = "DFC_DEVICE"


class CudaEntry:
    """One entry. `call(slots address)` gives 0, or another number after a fault."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[int], int]) -> None:
        self.call = call


class CudaDriver:
    """A loaded program on one device. Calls queue up."""

    reentrant = False

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
        device: int | Device | None = None,
    ) -> None:
        """`device` is the number of one, or one that is open; without it `DFC_DEVICE` says which, else it is 0."""
        plan = read_plan(notes.get("plan"))
        _check_resources(plan, resources)
        self._resources = dict(resources)
        self._closed = False
        self.ordinal, self._device = _opened(device)
        with self._device.current():
            self._memory = Memory(self._device)
            try:
                self._loaded = self._load(image, symbols, plan, constants, host)
            except BaseException:
                self._memory.close()
                raise
        self._entries = [EntryRun(self._loaded, number) for number in range(len(plan.entries))]
        self._fault: Fault = (NO_SITE, ())

    @classmethod
    def bits(cls, device: int | None = None) -> frozenset[str]:
        """What code the device runs: `sm_90` for its own and earlier ones of its family, `compute_80` for PTX."""
        return device_bits(_ordinal(device))

    def _load(
        self, image: bytes, symbols: Mapping[str, int], plan: Plan, constants: Array, host: Callable[..., None] | None
    ) -> Loaded:
        missing = [kernel.name for kernel in plan.kernels if kernel.name not in symbols]
        if missing:
            raise ValueError(f"the image lacks the kernel {shown(missing[0])}")
        kernels = self._device.load(image, [kernel.name for kernel in plan.kernels]) if plan.kernels else []
        return Loaded(
            device=self._device,
            memory=self._memory,
            code=Code(plan, kernels, _control(self._device, plan)),
            constants=self._placed(constants),
            state=self._state(),
            host=host,
        )

    def _placed(self, array: Array) -> Region:
        """A copy of an array on the device."""
        address = self._memory.fixed(array.nbytes)
        if array.nbytes:
            self._device.copy_in(address, address_of(array), array.nbytes)
        return Region(address, array.nbytes)

    def _state(self) -> dict[str, Region]:
        """All state in one block, as it is on the host now."""
        sizes = {name: array.nbytes for name, array in self._resources.items()}
        address = self._memory.fixed(sum(-(-size // LARGE) * LARGE for size in sizes.values()))
        found: dict[str, Region] = {}
        for name, size in sizes.items():
            found[name] = Region(address, size)
            address += -(-size // LARGE) * LARGE
            if size:
                self._device.copy_in(found[name].address, address_of(self._resources[name]), size)
        return found

    def entry(self, number: int) -> CudaEntry:
        """The calls of an entry."""
        run = self._entries[number]

        def call(slots: int) -> int:
            code = run.call(slots)
            if code:
                self._fault = run.fault
            return code

        return CudaEntry(call)

    def last_fault(self) -> Fault:
        """The site (counted from 0; -1: a host call) and the values of the last failed call."""
        return self._fault

    def pull(self, names: Iterable[str]) -> None:
        """The arrays of the host become what the state on the device is."""
        with self._device.current():
            for name in names:
                region = self._loaded.state[name]
                if region.size:
                    self._device.copy_out(address_of(self._resources[name]), region.address, region.size)

    def push(self, names: Iterable[str]) -> None:
        """The state on the device becomes what the arrays of the host are."""
        with self._device.current():
            for name in names:
                region = self._loaded.state[name]
                if region.size:
                    self._device.copy_in(region.address, address_of(self._resources[name]), region.size)

    def allocate(self, size: int) -> int:
        """Device memory for a result that stays there; the caller gives it back with `free`."""
        with self._device.current():
            return self._device.allocate(max(size, LINE))

    def free(self, address: int) -> None:
        if not self._closed:
            with self._device.current():
                self._device.free(address)

    def copy_out(self, target: int, source: int, size: int) -> None:
        """From the device to the host."""
        with self._device.current():
            self._device.copy_out(target, source, size)

    def copy_in(self, target: int, source: int, size: int) -> None:
        """From the host to the device."""
        with self._device.current():
            self._device.copy_in(target, source, size)

    def close(self) -> None:
        """Gives all memory of the program back."""
        if self._closed:
            return
        self._closed = True
        with self._device.current():
            for run in self._entries:
                run.forget()
            self._memory.close()
        self._device.close()


def _opened(device: int | Device | None) -> tuple[int, Device]:
    if device is None or isinstance(device, int):
        ordinal = _ordinal(device)
        return ordinal, open_device(ordinal)
    return 0, device


def _ordinal(stated: int | None) -> int:
    """The number of the device to use."""
    if stated is not None:
        return stated
    text = os.environ.get(DEVICE_VARIABLE, "").strip()
    if not text:
        return 0
    if not text.isascii() or not text.isdigit():
        raise BundleError(f"{DEVICE_VARIABLE} is {shown(text)}: write the number of a device, such as 0", code="E0923")
    return int(text)


def _check_resources(plan: Plan, resources: Mapping[str, Array]) -> None:
    for entry in plan.entries:
        for buffer in entry.buffers:
            if buffer.role == "resource" and buffer.resource not in resources:
                raise ValueError(f"the plan uses the unknown state {shown(buffer.resource)}")


def _control(device: Device, plan: Plan) -> dict[str, Function]:
    """The kernels of the run half that the plan needs."""
    steps = [step for entry in plan.entries for step in entry.steps]
    names = [control.CHECK, control.COPY]
    found = dict(zip(names, device.load(control.plain_module().encode(), names), strict=True))
    if device.conditional_nodes and any(isinstance(step, If | While | For) for step in steps):
        names = [control.SET, *(head + kind for kind in control.INTEGERS for head in (control.BEGIN, control.NEXT))]
        found |= zip(names, device.load(control.conditional_module().encode(), names), strict=True)
    return found
