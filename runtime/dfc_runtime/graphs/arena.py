"""Memory of a loaded program on its device: what is fixed, and what grows with the sizes of calls.

Assumes one call at a time, and that no graph runs when memory is asked for. Guarantees that `stamp` changes whenever an
address that was given out is no longer valid: graphs that were built before are stale then.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from dfc_runtime.graphs.device import Device
from dfc_runtime.graphs.memory_layout import LARGE, Region, padded

LITTLE = 64 << 20

WORKSPACE = 256 << 20
"""Bytes of scratch memory up to which kernels that could run at the same time each have their own."""


class Growing:
    """One block of memory, allocated anew when more is needed; what was in it is lost then."""

    def __init__(self, allocate: Callable[[int], int], free: Callable[[int], None]) -> None:
        self._allocate, self._free = allocate, free
        self.address = 0
        self.size = 0

    def reserve(self, size: int) -> None:
        """At least so many bytes; small blocks become twice as large at once, so that they rarely move."""
        self.close()
        size = max(size, 1 << (size - 1).bit_length() if size < LITTLE else size)
        self.address = self._allocate(size)
        self.size = size

    def close(self) -> None:
        if self.size:
            self._free(self.address)
        self.address = self.size = 0


class Memory:
    """The blocks that all entries of a program share, because one call runs at a time."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.stamp = 0
        self.arena = Growing(device.allocate, device.free)
        self.block = Growing(device.allocate, device.free)
        self.pinned = Growing(device.allocate_pinned, device.free_pinned)
        self.workspace = Growing(device.allocate, device.free)
        self._fixed: list[int] = []
        self._exchanges: dict[tuple[int, int], int] = {}

    def reserve(self, arena: int, block: int, pinned: int) -> None:
        """At least so many bytes of each."""
        for growing, size in ((self.arena, arena), (self.block, block), (self.pinned, pinned)):
            self._reserve(growing, size)

    def reserve_workspace(self, size: int) -> Region:
        """Scratch memory of kernels. What runs is waited for if its memory has to move."""
        self._reserve(self.workspace, size)
        return Region(self.workspace.address, self.workspace.size)

    def _reserve(self, growing: Growing, size: int) -> None:
        if size <= growing.size:
            return
        self.stamp += 1  # also when there is no memory: the old one is gone by then
        self._device.synchronise()
        growing.reserve(size)

    def fixed(self, size: int) -> int:
        """Device memory for the life of the program."""
        address = self._device.allocate(max(size, LARGE))
        self._fixed.append(address)
        return address

    def exchange(self, buffer: int, size: int) -> int:
        """Pinned memory in which host and device exchange a buffer. Its address depends on the size class alone, so
        that graphs stay valid."""
        key = buffer, max(size, 16).bit_length()
        if key not in self._exchanges:
            address = self._device.allocate_pinned(1 << key[1])
            ctypes.memset(address, 0, 1 << key[1])
            self._exchanges[key] = address
        return self._exchanges[key]

    def close(self) -> None:
        for growing in (self.arena, self.block, self.pinned, self.workspace):
            growing.close()
        for address in self._fixed:
            self._device.free(address)
        for address in self._exchanges.values():
            self._device.free_pinned(address)
        self._fixed.clear()
        self._exchanges.clear()


class Scratch:
    """Hands out scratch memory in turn; what is handed out again is ordered like all memory."""

    def __init__(self, start: int = 0, size: int = 0) -> None:
        self._start, self._size, self._next = start, size, 0

    @staticmethod
    def of(needs: Sequence[int], memory: Memory) -> Scratch:
        rooms = [padded(size) for size in needs]
        region = memory.reserve_workspace(max(max(rooms), min(sum(rooms), WORKSPACE)))
        return Scratch(region.address, region.size)

    def take(self, size: int) -> tuple[int, int]:
        """Address and size."""
        if self._next + padded(size) > self._size:
            self._next = 0
        address = self._start + self._next
        self._next += padded(size)
        return address, size
