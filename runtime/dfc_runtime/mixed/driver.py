"""A driver made of drivers: one program on the processors and on GPUs of one process.

Each device runs its part of an entry from beginning to end, in a thread of its own; what one needs of another is sent
when it is there. The calling thread runs the part that asks the host for things (that of the processors), so requests
are answered in the thread of the call. Assumes a bundle whose parts were proved to fit together. Guarantees results,
faults and state that depend on no timing: after a fault the other devices go on as far as they need nothing of the one
that failed, and of several faults the one of the first device in the plan is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.memory import Arena, aligned
from dfc_runtime.driver import Driver, Interruptible, NativeFunction, find_driver
from dfc_runtime.formats import bundle as bundles
from dfc_runtime.formats.manifest import MIXED
from dfc_runtime.instances import image_for
from dfc_runtime.mixed.calls import MixedCall
from dfc_runtime.mixed.meeting import Meeting
from dfc_runtime.mixed.memory import MixedMemory
from dfc_runtime.mixed.parts import HostCall, Messenger, Unit
from dfc_runtime.mixed.plan import DevicePlan, MixedPlan, read_plan

Array = NDArray[np.generic]
Fault = tuple[int, tuple[int, ...]]


class MixedDriver:
    """A loaded program on several devices. Calls queue up. `device` is where the GPUs of the task begin."""

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
        host: HostCall | None = None,
        device: int = 0,
        state_owner: Driver | None = None,
    ) -> None:
        del symbols, constants  # there are none but those of the parts
        plan = read_plan(notes.get(MIXED), len(image))
        self._plan = plan
        self._meeting = Meeting()
        self._arena = Arena()
        self._fault: Fault = (0, ())
        self._state_owner = state_owner  # lives as long, for the sake of its state
        self.units: list[Unit] = []
        try:
            for each in plan.devices:
                code = image[each.offset : each.offset + each.size]
                self.units.append(self._loaded(each, code, resources, threads, locks or {}, host, device))
            self.memory = self._collect_memory()
            self._check_hosts(plan)
            self._calls = [MixedCall(e, self.units, self._meeting, self.memory, self._arena) for e in plan.entries]
        except BaseException:
            self.close()
            raise

    def _loaded(
        self,
        plan: DevicePlan,
        code: bytes,
        resources: Mapping[str, Array],
        threads: int,
        locks: Mapping[str, Array],
        host: HostCall | None,
        first: int,
    ) -> Unit:
        """The driver of one device over its part of the state."""
        with bundles.opened(code) as bundle:
            manifest = bundle.manifest
            make = find_driver(manifest.driver)
            if make.has_devices != (plan.kind == "gpu"):
                raise ValueError(f"the program of {plan.name} is for the driver {manifest.driver}")
            number = first + plan.number if make.has_devices else 0
            messenger = Messenger(plan, manifest, self._meeting, host)
            image = image_for(bundle, number)
            constants = aligned((bundle.tensor(bundles.CONSTANTS).size,), np.dtype(np.uint8))
            bundle.read_into(bundles.CONSTANTS, constants.data)
            constants.flags.writeable = False
            more: dict[str, Any] = {}
            if make.has_devices:
                more = {"device": number, "state_owner": self._neighbour(plan, holds=bool(manifest.state))}
            if manifest.sites:
                more["host"] = messenger.call
            driver = make(
                image=bundle.code(image),
                symbols=image.symbols,
                notes=manifest.notes,
                constants=constants,
                resources={entry.name: resources[entry.name] for entry in manifest.state},
                threads=threads,
                locks=locks,
                **more,
            )
        return Unit(plan, manifest, driver, messenger)

    def _neighbour(self, plan: DevicePlan, *, holds: bool) -> Driver | None:
        """The driver whose copies of the state the one of this device is to work on."""
        if self._state_owner is None:
            return None
        units = self._state_owner.units if isinstance(self._state_owner, MixedDriver) else []
        driver = next((unit.driver for unit in units if unit.plan.name == plan.name), None)
        if driver is None and holds:
            raise ValueError(f"the program beside it has no state on {plan.name}")
        return driver

    def _collect_memory(self) -> MixedMemory:
        known = [(unit, unit.driver.memory) for unit in self.units]
        there = [(unit, memory) for unit, memory in known if memory is not None]
        if not there:
            raise ValueError("none of its devices has a memory of its own")
        owners = {entry.name: memory for unit, memory in there for entry in unit.manifest.state}
        return MixedMemory(there[0][1], owners)

    def _check_hosts(self, plan: MixedPlan) -> None:
        """Only the part that the calling thread runs may ask for anything."""
        for entry in plan.entries:
            for part in entry.parts if len(entry.parts) > 1 else ():
                unit = self.units[part.device]
                if unit.plan.kind != "cpu" and unit.entry(part.entry).name in unit.messenger.asks:
                    raise ValueError(f"the part on {unit.name} asks the host for something")

    @classmethod
    def bits(cls, _device: int) -> frozenset[str]:
        """Nothing of its own: each part has code for what its device runs."""
        return frozenset()

    def entry(self, number: int) -> NativeFunction:
        """The calls of an entry."""
        entry_call = self._calls[number]

        def call(slots: int) -> int:
            code = entry_call.call(slots)
            if code:
                self._fault = entry_call.fault
            return code

        return NativeFunction(call)

    def last_fault(self) -> Fault:
        """The site (counted from 0 through all devices; -1: a host call) and the values of the last failed call."""
        return self._fault

    def interruption(self) -> BaseException | None:
        """What stopped the part of the calling thread."""
        for unit in self.units:
            problem = unit.driver.interruption() if isinstance(unit.driver, Interruptible) else None
            if problem is not None:
                problem.add_note("state keeps what the parts on other devices had written by then")
                return problem
        return None

    def undo(self) -> bool:
        """The parts of a call on several devices are not put back together."""
        return False

    def close(self) -> None:
        """Ends all devices; state that lies on them is to be fetched before."""
        for unit in self.units:
            unit.close()
        self._arena.free()
