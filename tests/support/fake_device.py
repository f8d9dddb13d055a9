"""A driver with a device whose memory is other memory of the host: copies of state, arrays that stay there."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import numpy as np

from dfc_runtime.calls.memory import address_of, aligned
from dfc_runtime.driver import ON_DEVICE
from tests.support.fake_driver import FUNCTIONS, Call, FakeDriver


class FakeMemory:
    """Remembers what was copied, which streams were waited for, and what is allocated."""

    def __init__(self, resources: Mapping[str, np.ndarray], number: int) -> None:
        self.kind = (2, number)
        self.stream = 77
        self.host = resources
        self.copies = {name: array.copy() for name, array in resources.items()}
        self.allocated: dict[int, np.ndarray] = {}
        self.log: list[tuple[str, tuple[str, ...]]] = []
        self.waited: list[int] = []

    def pull(self, names: Sequence[str]) -> None:
        self.log.append(("pull", tuple(names)))
        for name in names:
            self.host[name][...] = self.copies[name]

    def push(self, names: Sequence[str]) -> None:
        self.log.append(("push", tuple(names)))
        for name in names:
            self.copies[name][...] = self.host[name]

    def allocate(self, size: int) -> int:
        array = aligned((size,), np.dtype(np.uint8))
        self.allocated[address_of(array)] = array
        return address_of(array)

    def free(self, address: int) -> None:
        del self.allocated[address]

    def copy_out(self, address: int, array: np.ndarray) -> None:
        ctypes.memmove(address_of(array), address, array.nbytes)

    def wait(self, stream: int) -> None:
        self.waited.append(stream)


class DeviceCall(Call):
    """Slots whose tensors may lie on the device; `on_device` remembers which did."""

    def array(self, slot: int, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        address = int(self.view(slot, "u8")[0])
        self.driver.on_device.append((slot, bool(address & ON_DEVICE)))
        return self._at(address & ~ON_DEVICE, dtype, shape)


class FakeDeviceDriver(FakeDriver):
    """Native functions see the copies on the device only."""

    has_devices = True

    def __init__(self, *, device: int, state_owner: FakeDeviceDriver | None, **parts: object) -> None:
        super().__init__(**parts)
        self.device = device
        host = self.resources
        self.memory = state_owner.memory if state_owner is not None else FakeMemory(host, device)
        self.resources = {name: self.memory.copies[name] for name in host}
        self.on_device: list[tuple[int, bool]] = []

    def entry(self, number: int) -> SimpleNamespace:
        function = FUNCTIONS[self.functions[f"entry_{number}_0"]]
        return SimpleNamespace(call=lambda address: function(DeviceCall(address, self)))

    @classmethod
    def bits(cls, device: int) -> frozenset[str]:
        return frozenset({"compute_80", f"sm_{80 + device}"})


class FakeArray:
    """An array in the memory of the device, as another library shows it."""

    def __init__(self, array: np.ndarray, *, version: int = 3, stream: int | None = None) -> None:
        self.array = array
        self.interface = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (address_of(array), False),
            "version": version,
            "strides": None if array.flags.c_contiguous else array.strides,
        }
        if version >= 3:
            self.interface["stream"] = stream

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return self.interface


class PackedArray:
    """The same by DLPack alone."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (2, 0)) -> None:
        self.array = array
        self.device = device
        self.streams: list[int] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, stream: int) -> object:
        self.streams.append(stream)
        return self.array.__dlpack__()
