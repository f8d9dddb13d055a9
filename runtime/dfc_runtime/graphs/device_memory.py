"""The memory of a program on its device, as the runtime asks for it: state that follows, arrays that stay there.

Assumes that the runtime calls it while no entry runs, or from a host call of one. Guarantees that state stays on the
device from call to call: the arrays of the host follow only when `pull` and `push` are called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.memory import address_of
from dfc_runtime.graphs.device import Device
from dfc_runtime.graphs.memory_layout import LARGE, Region, padded

Array = NDArray[np.generic]


class ProgramMemory:
    """The state of a program on a device, in one block. Made as it is on the host."""

    def __init__(self, device: Device, kind: tuple[int, int], resources: Mapping[str, Array]) -> None:
        """`kind` is the kind of the device and its number, as DLPack counts them."""
        self.kind = kind
        self.stream = device.stream_handle
        self._device = device
        self._host = dict(resources)
        self._lent: set[int] = set()
        self._closed = False
        sizes = {name: array.nbytes for name, array in resources.items()}
        try:
            with device.current():
                self._block = device.allocate(max(LARGE, sum(map(padded, sizes.values()))))
        except BaseException:
            device.close()
            raise
        self.regions: dict[str, Region] = {}
        address = self._block
        for name, size in sizes.items():
            self.regions[name] = Region(address, size)
            address += padded(size)
        self.push(list(resources))

    def pull(self, names: Sequence[str]) -> None:
        """The arrays of the host become what the state on the device is."""
        with self._device.current():
            for name in names:
                region = self.regions[name]
                if region.size:
                    self._device.copy_out(address_of(self._host[name]), region.address, region.size)

    def push(self, names: Sequence[str]) -> None:
        """The state on the device becomes what the arrays of the host are."""
        with self._device.current():
            for name in names:
                region = self.regions[name]
                if region.size:
                    self._device.copy_in(region.address, address_of(self._host[name]), region.size)

    def allocate(self, size: int) -> int:
        """Memory for an array that stays on the device."""
        with self._device.current():
            address = self._device.allocate(size)
        self._lent.add(address)
        return address

    def free(self, address: int) -> None:
        """Gives it back; after `close`, too."""
        self._lent.discard(address)
        with self._device.current():
            self._device.free(address)
        self._let_go()

    def copy_out(self, address: int, array: Array) -> None:
        """Fills an array of the host."""
        with self._device.current():
            self._device.copy_out(address_of(array), address, array.nbytes)

    def wait(self, stream: int) -> None:
        """Later calls begin after what is queued on that stream now."""
        with self._device.current():
            self._device.wait(stream)

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Gives the state back; the device stays as long as somebody has an array there."""
        if not self._closed:
            self._closed = True
            with self._device.current():
                self._device.free(self._block)
            self._let_go()

    def _let_go(self) -> None:
        if self._closed and not self._lent:
            self._device.close()
