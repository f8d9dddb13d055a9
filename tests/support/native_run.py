"""Runs an entry of a scheduled program on the CPU target, without bundle and runtime."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dfc.bundle.target import Lowered
from dfc.ir.dims import Symbol
from dfc.ir.options import TargetOptions
from dfc.kernels.program import Program
from dfc_driver_cpu.driver import CpuDriver, aligned_bytes
from dfc_target_cpu.link import compile as compiler
from dfc_target_cpu.target import CpuTarget

Arrays = Mapping[str, Any]


_LATEST: deque[tuple[Program, tuple[str, str], Lowered]] = deque(maxlen=12)
"""Programs that were lowered, as tests run one on several numbers of threads, and beside others."""


def _lowered(program: Program, isa: str) -> Lowered:
    key = (isa, compiler.identity())
    for known, its_key, lowered in _LATEST:
        if known is program and its_key == key:
            return lowered
    lowered = CpuTarget().lower(program, TargetOptions((isa,) if isa else ()))
    _LATEST.append((program, key, lowered))
    return lowered


class NativeRun:
    """A lowered program over state of its own."""

    def __init__(self, program: Program, state: Arrays, threads: int = 1, isa: str = "") -> None:
        self.program = program
        lowered = _lowered(program, isa)
        image = lowered.images[0]
        constants = aligned_bytes(len(lowered.constants))
        constants[:] = np.frombuffer(lowered.constants, np.uint8)
        self.state = {name: aligned_copy(np.asarray(state[name])) for name in program.resources}
        self.driver = CpuDriver(
            image=image.code,
            symbols=image.symbols,
            notes=lowered.notes,
            constants=constants,
            resources=self.state,
            threads=threads,
        )
        self.notes = lowered.notes

    def call(self, entry: str, arguments: Sequence[Any], sizes: Mapping[str, int]) -> list[Any]:
        """The results of one call; AssertionError after a fault."""
        number = next(i for i, e in enumerate(self.program.entries) if e.name == entry)
        chosen = self.program.entries[number]
        dims = {symbol: sizes[str(symbol)] for symbol in chosen.dims}
        arrays = [np.array(a, order="C") for a in arguments]
        results = [self._result(chosen.buffers[b], dims) for b in chosen.results]
        arena = aligned_bytes(chosen.arena.evaluate(dims) + 64)
        arena[:] = 0xCD
        words = [_word(a) for a in (*arrays, *results)] + list(dims.values()) + [arena.ctypes.data]
        slots = np.array(words, np.uint64)
        code = self.driver.entry(number).call(slots.ctypes.data)
        assert code == 0, self.driver.last_fault()
        for slot, result in enumerate(results, len(arrays)):
            if result.shape == ():
                result[...] = slots[slot : slot + 1].view(np.uint8)[: result.itemsize].view(result.dtype)[0]
        return results

    @staticmethod
    def _result(buffer: Any, dims: Mapping[Symbol, int]) -> Any:
        """Memory full of a mark, so that what is not written is not taken for a zero."""
        result = np.empty(tuple(d.evaluate(dims) for d in buffer.shape), buffer.dtype.numpy)
        result.reshape(-1).view(np.uint8)[:] = 0xCD
        return result


def _word(array: Any) -> int:
    """A tensor by its address, a scalar by its bytes."""
    if array.shape:
        return array.ctypes.data
    return int.from_bytes(array.tobytes(), "little")


def aligned_copy(array: Any) -> Any:
    copy = aligned_bytes(array.nbytes).view(np.uint8)
    copy[:] = np.frombuffer(array.tobytes(), np.uint8)
    return copy.view(array.dtype).reshape(array.shape)
