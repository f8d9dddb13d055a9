"""The run half of the CPU target: maps an image, keeps the addresses of state and constants, calls entries.

Assumes that the image was checked against its hash and suits this processor. Guarantees that a
call allocates nothing, unless more calls overlap than ever before. Needs the standard library and NumPy only.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dfc_driver_cpu.context import ABI_VERSION, LARGE_PAGE, OLDEST_QUEUES, Context, Lock
from dfc_driver_cpu.pool import PoolEntries, new_context
from dfc_driver_cpu.runners import CLOSE_ENTRY, HOST_CALL, CpuQueues
from dfc_driver_cpu.watching import WATCH
from dfc_runtime.calls import interrupting
from dfc_runtime.code_memory import MappedCode
from dfc_runtime.dataclasses import dataclass, field_names
from dfc_runtime.driver import NativeFunction, OnHost
from dfc_runtime.formats.records import read_record

ALIGNMENT = 64
copyto = np.copyto
POLL = ctypes.CFUNCTYPE(None, ctypes.c_int64)


def _no_answer(_site: int, _frame: int) -> None:
    """Answers no request, so that code which makes one that its program does not list stops with a fault."""


NOBODY = HOST_CALL(_no_answer)


@dataclass(frozen=True, slots=True)
class ImageNotes:
    """What the compile half says of an image. `undo`, `kept`: by entry, the variables that are put back after a call
    that was interrupted, and those that are not; code of earlier versions has neither, nor containers of state.
    `abi`: which structures of `context` the code works on."""

    abi: int = 1
    containers: tuple[str, ...] = ()
    spill_bytes: int = 0
    workspace_bytes: int = 0
    undo: tuple[tuple[str, ...], ...] = ()
    kept: tuple[tuple[str, ...], ...] = ()

    @staticmethod
    def of(notes: Mapping[str, object]) -> ImageNotes:
        """Those among all notes; `ValueError` if one is damaged."""
        try:
            return read_record(ImageNotes, {key: notes[key] for key in NOTES if key in notes}, "notes")
        except ValueError as problem:
            raise ValueError(f"the notes of the code image are damaged: {problem}") from None

    def check_abi(self, has_queues: bool) -> None:
        """`ValueError` where the code and this driver do not agree on the memory they share. Older code uses the
        beginning of it only, which stays; but room for queues is as large as that code says."""
        oldest = OLDEST_QUEUES if has_queues else 1
        if not oldest <= self.abi <= ABI_VERSION:
            known = f"{oldest} to {ABI_VERSION}" if oldest < ABI_VERSION else str(ABI_VERSION)
            remedy = "compile the program again" if self.abi < oldest else "install a newer dfc-driver-cpu"
            raise ValueError(
                f"its code is of version {self.abi} of the CPU interface, this driver of {known}: {remedy}"
            )


NOTES = field_names(ImageNotes)


class ImageMemory:
    """The memory that native code works on, and the tables of addresses it finds it by."""

    def __init__(
        self,
        constants: NDArray[np.generic],
        resources: Mapping[str, NDArray[np.generic]],
        locks: Sequence[NDArray[np.generic]],
    ) -> None:
        self._kept = constants, resources, locks
        self._locks = np.array([each.ctypes.data for each in locks], dtype=np.uint64)
        self._variables = np.array([each.ctypes.data for each in resources.values()], dtype=np.uint64)
        self._blocks = np.zeros(len(resources), dtype=np.uint64)
        self._constants = constants.ctypes.data
        self.waits: NDArray[np.int64] | None = None

    def measure_waits(self, sites: int) -> NDArray[np.int64]:
        """Contexts that are made from now on count at each fault site nanoseconds of waiting, and times."""
        self.waits = np.zeros((sites, 2), np.int64)
        return self.waits

    def context(self, scratch_bytes: int, threads: int, pool: PoolEntries | None) -> tuple[Context, NDArray[np.uint8]]:
        """A context, with the scratch memory that it needs to live."""
        context = new_context(pool, threads)
        context.variables, context.locks = self._variables.ctypes.data, self._locks.ctypes.data
        context.constants, context.records = self._constants, self._blocks.ctypes.data
        context.waits = None if self.waits is None else self.waits.ctypes.data
        scratch = aligned_bytes(scratch_bytes, LARGE_PAGE if scratch_bytes >= LARGE_PAGE else ALIGNMENT)
        context.scratch, context.scratch_bytes = scratch.ctypes.data, scratch.nbytes
        return context, scratch

    def use_blocks(self, addresses: Mapping[str, int]) -> None:
        """Lets code take records from these blocks, by the names of the readers."""
        for number, name in enumerate(self._kept[1]):
            self._blocks[number] = addresses.get(name, 0)


class CpuDriver(OnHost):
    """A loaded program. Calls may overlap: each has a context to itself while it runs."""

    reentrant = True
    has_queues = True

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
        self._image = MappedCode(image)
        self._symbols = symbols
        own = ImageNotes.of(notes)
        own.check_abi(CLOSE_ENTRY in symbols)
        containers = own.containers
        shared = locks or {}  # those of containers; what nobody shares has locks of its own here
        locks = {name: shared[name] if name in shared else aligned_bytes(ctypes.sizeof(Lock)) for name in containers}
        memory = self._memory = ImageMemory(constants, resources, [locks[name] for name in containers])
        self._threads = threads
        self._undo = Undo(own, resources)
        self._host = HOST_CALL(host) if host is not None else NOBODY
        self._scratch_bytes = own.spill_bytes + own.workspace_bytes * max(threads, 1)
        self._pool = PoolEntries(self._image, self._address("dfc_worker"), self._address("dfc_stop"))
        self._local = threading.local()
        self._free: list[CallContext] = []
        self._contexts: list[CallContext] = []
        self._queues: CpuQueues | None = None
        if CLOSE_ENTRY in symbols:
            alone = own.spill_bytes + own.workspace_bytes
            make = partial(memory.context, alone, 1, None)
            self._queues = CpuQueues(
                self._image, symbols, resources, make, self._contexts, self._free, memory.measure_waits
            )
        self._free.append(self._context())

    def use_blocks(self, addresses: Mapping[str, int]) -> None:
        """Records come from these blocks, by the names of readers, as long as they have some."""
        self._memory.use_blocks(addresses)

    @property
    def queues(self) -> CpuQueues:
        """The queues and runners of a program that has some."""
        assert self._queues is not None
        return self._queues

    def _address(self, name: str) -> int:
        return self._image.address(self._symbols[name])

    def _context(self) -> CallContext:
        context, scratch = self._memory.context(self._scratch_bytes, self._threads, self._pool)
        context.host_call = ctypes.cast(self._host, ctypes.c_void_p).value
        call = CallContext(context, scratch, self._queues)
        self._contexts.append(call)
        return call

    def entry(self, number: int) -> NativeFunction:
        """The native function of an entry."""
        address = self._symbols[f"entry_{number}_0"]
        function = self._image.function(address, ctypes.c_int64, (ctypes.c_void_p, ctypes.c_void_p))
        if self._queues is not None:
            function = self._queues.limiting(function)
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

        saved, kept = self._undo.of(number)
        if not saved and not kept:
            return NativeFunction(call)

        def undoable(slots: int) -> int:
            for copy, array in saved:
                copyto(copy, array)
            context = free.pop() if free else make()
            context.saved, context.kept = saved, kept
            code = function(context.pointer, slots)
            if code:
                note(context)
            context.saved, context.kept = (), ()
            free.append(context)
            return code

        return NativeFunction(undoable)

    def _note(self, context: CallContext) -> None:
        """Keep what made a call fail for this thread."""
        local, structure = self._local, context.structure
        local.problem = context.interruption()
        fault = structure.take_error()
        local.fault = fault if local.problem is None else None  # what is computed of half a kernel means nothing
        local.undo = None if structure.committed else context.saved

    def interruption(self) -> BaseException | None:
        """What a signal, or another thread, stopped the last failed call of this thread with; state is as before it."""
        problem: BaseException | None = getattr(self._local, "problem", None)
        return problem

    def undo(self) -> bool:
        """Puts state back as it was before the last failed call of this thread, which no other call may follow; False
        where that cannot be done any more."""
        saved: Saved | None = getattr(self._local, "undo", None)
        for copy, array in saved or ():
            copyto(array, copy)
        return saved is not None

    def last_fault(self) -> tuple[int, tuple[int, ...]]:
        """The site (counted from 0) and values of the last failed call of this thread."""
        site, values = getattr(self._local, "fault", None) or (0, ())
        return site - 1, values

    def close(self) -> None:
        """Gives the code back. The threads belong to the process, and keep the code they are in."""
        self._image.close()


class CallContext:
    """A context with its scratch memory, ready to be passed, and what native code asks when its attention is drawn."""

    __slots__ = ("_asked", "_problem", "_question", "_queues", "kept", "pointer", "saved", "scratch", "structure")

    def __init__(self, structure: Context, scratch: NDArray[np.uint8], queues: CpuQueues | None = None) -> None:
        self.structure = structure
        self._queues = queues
        self.scratch = scratch
        self.pointer = ctypes.c_void_p(ctypes.addressof(structure))
        self.saved: Saved = ()
        self.kept: tuple[str, ...] = ()
        self._problem: BaseException | None = None
        self._listen()

    def _listen(self) -> None:
        """A generator is the only thing in Python that is entered inside of a `try`: handlers of signals run before the
        first line of a function, and what they raise would be lost."""
        asked = self._answers()
        next(asked)
        self._question = POLL(asked.send)
        self.structure.poll = ctypes.cast(self._question, ctypes.c_void_p).value
        self.structure.attention = 1

    def _answers(self) -> Generator[None, int]:
        structure = self.structure
        while True:
            try:
                yield  # handlers of signals run here, as between two lines of Python
                if structure.leave:
                    continue  # the parts of a kernel that is being left ask again, and nothing has changed
                interrupting.check()
                if self._queues is not None:
                    self._queues.look(structure)
                structure.attention = 0
                WATCH.ask_again(structure)
                structure.stopping = 0
            except GeneratorExit:
                return
            except BaseException as problem:
                self._problem = problem
                structure.leave = 1
                for copy, array in self.saved:
                    copyto(array, copy)

    def interruption(self) -> BaseException | None:
        """What stopped the call that has just failed, if it was stopped; whoever asks gets it once."""
        stopped, self.structure.stopping, self.structure.leave = self.structure.stopping, 0, 0
        if not stopped:
            return None
        problem, self._problem = self._problem, None
        self._listen()
        if problem is None:
            problem = KeyboardInterrupt()
        if self.kept:
            problem.add_note(f"{', '.join(self.kept)} may keep what the call had written; other state is as before it")
        return problem


class Undo:
    """What to put back after calls that were interrupted: the arrays by entry, each with memory for a copy."""

    def __init__(self, notes: ImageNotes, resources: Mapping[str, NDArray[np.generic]]) -> None:
        self._undo, self._kept = notes.undo, notes.kept
        names = {name for each in self._undo for name in each}
        if not names <= resources.keys():
            raise ValueError("the notes of the code image are damaged: they name unknown state")
        self._pairs = {name: (np.empty_like(resources[name]), resources[name]) for name in sorted(names)}

    def of(self, number: int) -> tuple[Saved, tuple[str, ...]]:
        """(copy, array) of an entry's variables, and the names of those that are not put back."""
        saved = self._undo[number] if number < len(self._undo) else ()
        return tuple(self._pairs[name] for name in saved), self._kept[number] if number < len(self._kept) else ()


Saved = tuple[tuple[NDArray[np.generic], NDArray[np.generic]], ...]


def aligned_bytes(size: int, alignment: int = ALIGNMENT) -> NDArray[np.uint8]:
    """Memory whose address is a multiple of the alignment."""
    raw = np.zeros(size + alignment, dtype=np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size]
