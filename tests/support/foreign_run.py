"""Runs an entry compiled for another kind of processor, under qemu's emulation of its programs.

All that the function needs lies in one file, with absolute addresses: the image, state, constants, operands, its
context and its slots. `foreign_host.c`, compiled for that processor, maps the file where it belongs and calls the
function. Assumes that qemu-user and a C compiler for the processor are installed (`missing` says what is not).
"""

from __future__ import annotations

import ctypes
import mmap
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dfc.ir.options import TargetOptions
from dfc.kernels.program import Program
from dfc_driver_cpu.context import ABI_VERSION, Context, Lock
from dfc_driver_cpu.driver import ImageNotes
from dfc_target_cpu.target import CpuTarget

BASE = 0x40_0000_0000
"""Where the memory belongs: far from what programs and emulators use."""
ALIGNMENT = 64
TOOLS = {"aarch64": ("qemu-aarch64", "aarch64-linux-gnu-gcc")}
PACKAGES = {"aarch64": "qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross"}


def missing(isa: str) -> str:
    """What to install to run code of this kind; empty if all is there."""
    absent = [tool for tool in TOOLS[isa] if shutil.which(tool) is None]
    return f"{', '.join(absent)} not installed: apt-get install {PACKAGES[isa]}" if absent else ""


@cache
def host(isa: str) -> Path:
    """The program that calls functions, compiled for that processor."""
    path = Path(tempfile.mkdtemp(prefix="foreign-")) / "host"
    source = Path(__file__).with_name("foreign_host.c")
    subprocess.run([TOOLS[isa][1], "-O1", "-static", "-o", str(path), str(source)], check=True, timeout=120)
    return path


class ForeignRun:
    """A lowered program for another processor, over state of its own; one thread, no host calls."""

    def __init__(self, program: Program, state: Mapping[str, Any], isa: str = "aarch64") -> None:
        self.program, self.isa = program, isa
        self.lowered = CpuTarget().lower(program, TargetOptions((isa,)))
        self.state = {name: np.array(state[name], order="C") for name in program.resources}

    def call(self, entry: str, arguments: Sequence[Any], sizes: Mapping[str, int]) -> list[Any]:
        """The results of one call; AssertionError after a fault."""
        number = next(n for n, each in enumerate(self.program.entries) if each.name == entry)
        chosen = self.program.entries[number]
        dims = {symbol: sizes[str(symbol)] for symbol in chosen.dims}
        buffers = [chosen.buffers[each] for each in chosen.results]
        results = [np.zeros(tuple(d.evaluate(dims) for d in b.shape), b.dtype.numpy) for b in buffers]
        operands = [*(np.array(each, order="C") for each in arguments), *results]
        arena = chosen.arena.evaluate(dims) + ALIGNMENT
        image, notes = self.lowered.images[0], ImageNotes.of(self.lowered.notes)
        scratch = notes.spill_bytes + notes.workspace_bytes
        blobs = [image.code, self.lowered.constants, *(x.tobytes() for x in (*self.state.values(), *operands))]
        with _Memory(sum(map(len, blobs)) + arena + scratch + (1 << 20)) as memory:
            code, constants = memory.put(image.code), memory.put(self.lowered.constants)
            state = {name: memory.put(array.tobytes()) for name, array in self.state.items()}
            addresses = [memory.put(each.tobytes()) if each.shape else 0 for each in operands]
            words = [
                address or int.from_bytes(each.tobytes(), "little")
                for address, each in zip(addresses, operands, strict=True)
            ]
            slots = memory.words([*words, *dims.values(), memory.reserve(arena), *([0] * len(chosen.measured))])
            context = Context(abi_version=ABI_VERSION, threads=1, constants=constants)
            context.variables = memory.words(list(state.values()))
            context.locks = memory.words([memory.reserve(ctypes.sizeof(Lock)) for _ in notes.containers])
            context.scratch, context.scratch_bytes = memory.reserve(scratch), scratch
            function = code + image.symbols[f"entry_{number}_0"]
            assert memory.run(self.isa, function, memory.put(bytes(context)), slots) == 0, "the call has failed"
            for name, address in state.items():
                self.state[name] = memory.read(address, self.state[name])
            shift = len(arguments)
            return [
                memory.read(addresses[shift + n] or slots + 8 * (shift + n), each) for n, each in enumerate(results)
            ]


class _Memory:
    """A file that is memory at `BASE`."""

    def __init__(self, size: int) -> None:
        self._size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._end = 0

    def __enter__(self) -> _Memory:
        self._file = tempfile.NamedTemporaryFile(prefix="foreign-")
        self._file.truncate(self._size)
        self._bytes = mmap.mmap(self._file.fileno(), self._size)
        return self

    def __exit__(self, *_: object) -> None:
        self._bytes.close()
        self._file.close()

    def reserve(self, size: int) -> int:
        """The address of so many bytes, zeros at first."""
        address = self._end
        self._end = -(-(address + size) // ALIGNMENT) * ALIGNMENT + ALIGNMENT
        assert self._end <= self._size, "the memory is full"
        return BASE + address

    def put(self, data: bytes) -> int:
        """The address of a copy."""
        address = self.reserve(len(data))
        self._bytes[address - BASE : address - BASE + len(data)] = data
        return address

    def words(self, values: Sequence[int]) -> int:
        """The address of numbers of eight bytes."""
        return self.put(np.array([value % (1 << 64) for value in values], np.uint64).tobytes())

    def read(self, address: int, like: Any) -> Any:
        """An array of the same type and shape from there."""
        data = self._bytes[address - BASE : address - BASE + like.nbytes]
        return np.frombuffer(data, like.dtype).reshape(like.shape).copy()

    def run(self, isa: str, function: int, context: int, slots: int) -> int:
        """What the function returns."""
        numbers = [f"{each:x}" for each in (self._size, BASE, function, context, slots)]
        command = [TOOLS[isa][0], str(host(isa)), self._file.name, *numbers]
        run = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert run.returncode == 0, f"exit code {run.returncode}: {run.stderr.strip()}"
        return int(run.stdout)
