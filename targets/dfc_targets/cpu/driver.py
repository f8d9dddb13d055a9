"""The run half of the CPU target: maps an image, keeps the addresses of state and constants, calls entries.

Assumes that the image was checked against its hash and suits this processor. Guarantees that no call allocates:
contexts, tables and scratch memory are made when the driver is. Needs the standard library and NumPy only.
"""

import ctypes
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dfc_targets.cpu.context import ABI_VERSION, Context
from dfc_targets.cpu.loader import LoadedImage
from dfc_targets.cpu.pool import PoolEntries, new_context

ALIGNMENT = 64


class CpuEntry:
    """One native function. `call(slots address)` gives 0, or another number after a fault."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[int], int]) -> None:
        self.call = call


class CpuDriver:
    """A loaded program. Calls of one driver use one context, so they must not overlap."""

    reentrant = False

    def __init__(
        self,
        *,
        image: bytes,
        symbols: Mapping[str, int],
        notes: Mapping[str, object],
        constants: NDArray[np.generic],
        resources: Mapping[str, NDArray[np.generic]],
        threads: int,
    ) -> None:
        if notes.get("abi") != ABI_VERSION:
            raise ValueError("its code was made for another version of the driver: compile the program again")
        self._image = LoadedImage(image)
        self._symbols = symbols
        self._kept = (constants, resources)
        entries = PoolEntries(self._address("dfc_worker"), self._address("dfc_stop"))
        self._context = new_context(entries, threads)
        self._variables = np.array([a.ctypes.data for a in resources.values()], dtype=np.uint64)
        self._context.variables = self._variables.ctypes.data
        self._context.constants = constants.ctypes.data
        self._scratch = aligned_bytes(_scratch_bytes(notes, threads))
        self._context.scratch = self._scratch.ctypes.data
        self._context.scratch_bytes = self._scratch.nbytes
        self._fault: tuple[int, tuple[int, ...]] = (-1, ())

    def _address(self, name: str) -> int:
        return self._image.address(self._symbols[name])

    def entry(self, number: int, part: int = 0) -> CpuEntry:
        address = self._address(f"entry_{number}_{part}")
        return CpuEntry(bind_context(address, self._context))

    def last_fault(self) -> tuple[int, tuple[int, ...]]:
        """The site (counted from 0) and values of the last failed call."""
        error = self._context.take_error()
        if error is not None:
            self._fault = (error[0] - 1, error[1])
        return self._fault

    def close(self) -> None:
        """Nothing to end: the threads belong to the process, and mapped code stays."""


def bind_context(address: int, context: Context) -> Callable[[int], int]:
    """The native function with its first argument filled in."""
    pointer = ctypes.c_void_p(ctypes.addressof(context))
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(address)
    return partial(function, pointer)


def aligned_bytes(size: int) -> NDArray[np.uint8]:
    """Memory whose address is a multiple of `ALIGNMENT`."""
    raw = np.zeros(size + ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def _scratch_bytes(notes: Mapping[str, object], threads: int) -> int:
    spill, each = notes.get("spill_bytes", 0), notes.get("workspace_bytes", 0)
    if not isinstance(spill, int) or not isinstance(each, int):
        raise ValueError("the notes of the code image are damaged")
    return spill + each * max(threads, 1)
