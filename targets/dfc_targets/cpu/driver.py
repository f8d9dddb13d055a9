"""The run half of the CPU target: maps an image, keeps the addresses of state and constants, calls entries.

Assumes that the image was checked against its hash and suits this processor. Guarantees that a
call allocates nothing, unless more calls overlap than ever before. Needs the standard library and NumPy only.
"""

import ctypes
import threading
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.driver import NativeFunction, OnHost
from dfc_targets.cpu.context import Context, Lock
from dfc_targets.cpu.loader import LoadedImage
from dfc_targets.cpu.pool import PoolEntries, new_context

ALIGNMENT = 64
HOST_CALL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)
NOBODY = HOST_CALL(lambda site, frame: None)
"""Answers no request, so that code which makes one that its program does not list stops with a fault."""


class CpuDriver(OnHost):
    """A loaded program. Calls may overlap: each has a context to itself while it runs."""

    reentrant = True

    def __init__(
        self,
        *,
        image: bytes,
        symbols: Mapping[str, int],
        notes: Mapping[str, object],
        constants: NDArray[np.generic],
        resources: Mapping[str, NDArray[np.generic]],
        threads: int,
        locks: Mapping[str, NDArray[np.generic]] | None = None,
        host: Callable[[int, int], None] | None = None,
    ) -> None:
        self._image = LoadedImage(image)
        self._symbols = symbols
        containers = _containers(notes)
        locks = locks if locks is not None else {name: aligned_bytes(ctypes.sizeof(Lock)) for name in containers}
        self._kept = (constants, resources, locks)
        self._locks = np.array([locks[name].ctypes.data for name in containers], dtype=np.uint64)
        self._variables = np.array([a.ctypes.data for a in resources.values()], dtype=np.uint64)
        self._constants = constants.ctypes.data
        self._threads = threads
        self._host = HOST_CALL(host) if host is not None else NOBODY
        self._scratch_bytes = _scratch_bytes(notes, threads)
        self._pool = PoolEntries(self._image, self._address("dfc_worker"), self._address("dfc_stop"))
        self._local = threading.local()
        self._free = [self._context()]

    def _address(self, name: str) -> int:
        return self._image.address(self._symbols[name])

    def _context(self) -> "CallContext":
        context = new_context(self._pool, self._threads)
        context.variables = self._variables.ctypes.data
        context.constants = self._constants
        context.locks = self._locks.ctypes.data
        context.host_call = ctypes.cast(self._host, ctypes.c_void_p).value
        scratch = aligned_bytes(self._scratch_bytes)
        context.scratch, context.scratch_bytes = scratch.ctypes.data, scratch.nbytes
        return CallContext(context, scratch)

    def entry(self, number: int) -> NativeFunction:
        """The native function of an entry."""
        address = self._symbols[f"entry_{number}_0"]
        function = self._image.function(address, ctypes.c_int64, (ctypes.c_void_p, ctypes.c_void_p))
        free, make, note = self._free, self._context, self._note

        def call(slots: int) -> int:
            try:
                context = free.pop()
            except IndexError:
                context = make()
            code = function(context.pointer, slots)
            if code:
                note(context)
            free.append(context)
            return code

        return NativeFunction(call)

    def _note(self, context: "CallContext") -> None:
        """Keep the fault of a failed call for this thread."""
        self._local.fault = context.structure.take_error()

    def last_fault(self) -> tuple[int, tuple[int, ...]]:
        """The site (counted from 0) and values of the last failed call of this thread."""
        site, values = getattr(self._local, "fault", None) or (0, ())
        return site - 1, values

    def close(self) -> None:
        """Gives the code back. The threads belong to the process, and keep the code they are in."""
        self._image.close()


class CallContext:
    """A context with its scratch memory, ready to be passed."""

    __slots__ = ("pointer", "scratch", "structure")

    def __init__(self, structure: Context, scratch: NDArray[np.uint8]) -> None:
        self.structure = structure
        self.scratch = scratch
        self.pointer = ctypes.c_void_p(ctypes.addressof(structure))


def aligned_bytes(size: int) -> NDArray[np.uint8]:
    """Memory whose address is a multiple of `ALIGNMENT`."""
    raw = np.zeros(size + ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def _containers(notes: Mapping[str, object]) -> list[str]:
    """The containers of state in the order of their locks; code of earlier versions knows none."""
    names = notes.get("containers", [])
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError("the notes of the code image are damaged")
    return [str(name) for name in names]


def _scratch_bytes(notes: Mapping[str, object], threads: int) -> int:
    spill, each = notes.get("spill_bytes", 0), notes.get("workspace_bytes", 0)
    if not isinstance(spill, int) or not isinstance(each, int):
        raise ValueError("the notes of the code image are damaged")
    return spill + each * max(threads, 1)
