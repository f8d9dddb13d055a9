"""The memory of a program on several devices, as the runtime asks for it: state wherever it lies, arrays of the first.

Assumes that each piece of state lies in one place. Guarantees that state on a GPU is fetched and set by the driver
of that GPU; state of the processors is the arrays of the host themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.driver import DeviceMemory

Array = NDArray[np.generic]


class MixedMemory:
    """Implements `DeviceMemory`. `owners` says of state on a GPU which memory it is in; arrays that are fed from a
    device are those of `first`."""

    def __init__(self, first: DeviceMemory, owners: Mapping[str, DeviceMemory]) -> None:
        self._first = first
        self._owners = dict(owners)

    @property
    def kind(self) -> tuple[int, int]:
        return self._first.kind

    @property
    def stream(self) -> int:
        return self._first.stream

    def pull(self, names: Sequence[str]) -> None:
        """Copies these resources from their devices to the arrays of the host."""
        for memory, own in self._by_owner(names):
            memory.pull(own)

    def push(self, names: Sequence[str]) -> None:
        """Copies these resources from the arrays of the host to their devices."""
        for memory, own in self._by_owner(names):
            memory.push(own)

    def allocate(self, size: int) -> int:
        return self._first.allocate(size)

    def free(self, address: int) -> None:
        self._first.free(address)

    def copy_out(self, address: int, array: Array) -> None:
        self._first.copy_out(address, array)

    def wait(self, stream: int) -> None:
        self._first.wait(stream)

    def _by_owner(self, names: Sequence[str]) -> list[tuple[DeviceMemory, list[str]]]:
        owned: list[tuple[DeviceMemory, list[str]]] = []
        for memory in dict.fromkeys(self._owners.values()):
            own = [name for name in names if self._owners.get(name) is memory]
            if own:
                owned.append((memory, own))
        return owned
