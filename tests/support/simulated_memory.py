"""Memory of a simulated device: poisoned where nobody wrote, watched while kernels run.

Addresses are never used twice, on no device, and lie far apart, so that an access outside of an allocation, after it
was freed, or on another device is seen. While a `Watch` is set, each byte that a kernel or a copy touches is noted.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import numpy as np

POISON = 0xFF
ALIGNMENT = 256
GAP = 1 << 16
FIRST = APART = 1 << 40
"""Where the addresses of the first device begin, and how far behind those of the next one."""
_MOST_DEVICES = 1 << 20
_numbers = itertools.count()


class DeviceError(AssertionError):
    """What a real device would punish, or leave undefined."""


@dataclass
class Allocation:
    """Bytes of the device, and which of them were ever written."""

    address: int
    data: np.ndarray
    written: np.ndarray


@dataclass
class Watch:
    """The bytes that a node reads and writes, as ranges [start, end)."""

    reads: set[tuple[int, int]] = field(default_factory=set)
    writes: set[tuple[int, int]] = field(default_factory=set)

    def add(self, other: Watch) -> None:
        self.reads |= other.reads
        self.writes |= other.writes


class DeviceMemory:
    """All allocations of a device."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._starts: list[int] = []
        self._allocations: dict[int, Allocation] = {}
        self._next = FIRST + APART * (next(_numbers) % _MOST_DEVICES)
        self.watch: Watch | None = None

    @property
    def used(self) -> int:
        return sum(each.data.size for each in self._allocations.values())

    def allocate(self, size: int) -> int:
        address = self._next
        self._next += -(-(size + GAP) // ALIGNMENT) * ALIGNMENT
        self._starts.append(address)
        self._allocations[address] = Allocation(address, np.full(size, POISON, np.uint8), np.zeros(size, np.bool_))
        return address

    def free(self, address: int) -> None:
        if address not in self._allocations:
            raise DeviceError(f"{address:#x} is freed, but nothing was allocated there")
        del self._allocations[address]
        self._starts.remove(address)

    def find(self, address: int, size: int) -> tuple[Allocation, int]:
        """The allocation that holds these bytes, and where they begin in it. No bytes may be anywhere."""
        if not size and address not in self._allocations:
            return Allocation(address, np.zeros(0, np.uint8), np.zeros(0, np.bool_)), 0
        index = bisect_right(self._starts, address) - 1
        if index >= 0:
            allocation = self._allocations[self._starts[index]]
            if address + size <= allocation.address + allocation.data.size:
                return allocation, address - allocation.address
        raise DeviceError(f"{size} bytes at {address:#x} are outside of all allocations")

    def rest(self, address: int) -> tuple[Allocation, int]:
        """What lies from an address on; nothing where there is no memory."""
        index = bisect_right(self._starts, address) - 1
        inside = index >= 0 and self.is_inside(self._starts[index], address)
        return self.find(address, 1 if inside else 0)

    def is_inside(self, start: int, address: int) -> bool:
        return start <= address < start + self._allocations[start].data.size

    def read(self, address: int, size: int) -> bytes:
        allocation, start = self.find(address, size)
        self.note_read(address, size)
        return allocation.data[start : start + size].tobytes()

    def write(self, address: int, data: bytes) -> None:
        allocation, start = self.find(address, len(data))
        self.note_write(address, len(data))
        allocation.data[start : start + len(data)] = np.frombuffer(data, np.uint8)
        allocation.written[start : start + len(data)] = True

    def move(self, target: int, source: int, size: int) -> None:
        """A copy keeps what was never written as it is."""
        to, first = self.find(target, size)
        since, start = self.find(source, size)
        self.note_read(source, size)
        self.note_write(target, size)
        to.data[first : first + size] = since.data[start : start + size]
        to.written[first : first + size] = since.written[start : start + size]

    def note_read(self, address: int, size: int) -> None:
        if self.watch is not None and size:
            self.watch.reads.add((address, address + size))

    def note_write(self, address: int, size: int) -> None:
        if self.watch is not None and size:
            self.watch.writes.add((address, address + size))


class Pointer:
    """What kernel text is given for an operand: `p[i]` reads and `p[i] = x` writes an element, both watched."""

    __slots__ = ("_base", "_kind", "_memory", "_silent", "_size", "_values", "_written")

    def __init__(self, memory: DeviceMemory, address: int, kind: Any, *, silent: bool = False) -> None:
        self._memory, self._base, self._kind, self._silent = memory, address, np.dtype(kind), silent
        self._size = self._kind.itemsize
        if address % self._size:
            raise DeviceError(f"{address:#x} is not aligned to elements of {self._size} bytes")
        allocation, start = memory.rest(address)
        count = (allocation.data.size - start) // self._size
        self._values = allocation.data[start : start + count * self._size].view(self._kind)
        self._written = allocation.written[start:]

    def __getitem__(self, index: Any) -> Any:
        element = self._element(index)
        if not self._silent:
            if not self._written[element * self._size : (element + 1) * self._size].all():
                raise DeviceError(f"element {element} at {self._base:#x} is read, and nobody has written it")
            self._memory.note_read(self._base + element * self._size, self._size)
        return self._values[element]

    def __setitem__(self, index: Any, value: Any) -> None:
        element = self._element(index)
        self._memory.note_write(self._base + element * self._size, self._size)
        self._values[element] = value
        self._written[element * self._size : (element + 1) * self._size] = True

    def _element(self, index: Any) -> int:
        element = int(index)
        if not 0 <= element < len(self._values):
            raise DeviceError(f"element {element} of {len(self._values)} at {self._base:#x} is outside")
        return element

    def check_wide(self, index: Any, width: int) -> None:
        """`DeviceError` if a wide access there is not aligned."""
        if (self._base + int(index) * self._size) % (width * self._size):
            raise DeviceError(f"an access of {width * self._size} bytes at {self._base:#x} + {int(index)} elements")

    def view(self, offset: Any, kind: Any) -> Pointer:
        """Part of the memory as elements of another type."""
        return Pointer(self._memory, self._base + int(offset), kind)


def overlap(first: set[tuple[int, int]], second: set[tuple[int, int]]) -> int | None:
    """A byte that is in both."""
    a, b = sorted(first), sorted(second)
    i = j = 0
    while i < len(a) and j < len(b):
        start, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < end:
            return start
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return None
