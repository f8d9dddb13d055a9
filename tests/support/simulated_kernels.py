"""Kernels of a simulated device: kernel text, kernels of the interpreter, and those of the run half itself.

Each is a function of (memory, blocks, threads, arguments), with arguments as the device gets them: numbers of 8 bytes.
The kernels of the run half are written out here from what `control` says of them, not from its PTX.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dfc.ir.dims import Symbol
from dfc.kernels.form import Kernel
from dfc_runtime.graphs import control
from dfc_runtime.plans.plan import INDICES
from tests.support.cuda_simulator import simulation
from tests.support.cuda_simulator.names import define, simulated_names
from tests.support.cuda_simulator.primitives import MEMORY
from tests.support.kernel_interpreter import run_kernel
from tests.support.kernel_points import Failed
from tests.support.simulated_memory import DeviceError, DeviceMemory, Pointer

Run = Callable[[DeviceMemory, int, int, Sequence[int]], None]
KINDS = {"bool": "u1", "f16": "u2", "bf16": "u2", "f32": "f4", "f64": "f8"} | {
    f"{kind}{8 * size}": f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)
}
_HEAD = re.compile(r"^# kernel (\w+): ([\w ]*); (\d+) sizes(; workspace)?$", re.M)
_WIDE = re.compile(r"^(load|store)(\d+)_\w+$")


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


Launcher = Callable[[Callable[..., None], int, int, Sequence[Any]], None]
"""Runs a function as so many blocks of so many threads on these arguments."""


@lru_cache(32)
def text_kernels(source: str, warp: int, launch: Launcher = simulation.simulate) -> Mapping[str, Run]:
    """The kernels of an image of text; made once of an image that many devices and modules load."""
    names = _watched(dict(simulated_names(warp)))
    define(source, "<simulated image>", names)
    return {
        match[1]: _text_kernel(names[match[1]], launch, match[2].split(), int(match[3]), workspace=bool(match[4]))
        for match in _HEAD.finditer(source)
    }


def _text_kernel(function: Any, launch: Launcher, types: list[str], sizes: int, *, workspace: bool) -> Run:
    def run(memory: DeviceMemory, blocks: int, threads: int, arguments: Sequence[int]) -> None:
        if len(arguments) != len(types) + sizes + workspace + 1:
            raise DeviceError(f"{function.__name__} gets {len(arguments)} arguments")
        parameters: list[Any] = [Pointer(memory, a, KINDS[t]) for a, t in zip(arguments, types, strict=False)]
        parameters += [signed(a) for a in arguments[len(types) : len(types) + sizes]]
        parameters += [Pointer(memory, arguments[-2], "u1")] if workspace else []
        parameters.append(Pointer(memory, arguments[-1], "i8", silent=True))
        launch(function, blocks, threads, parameters)

    return run


def _watched(names: dict[str, Any]) -> dict[str, Any]:
    """The prelude over watched memory: wide accesses are checked, and parts of it are watched as well."""
    for name, function in list(names.items()):
        wide = _WIDE.match(name)
        if wide:
            names[name] = _checked(function, int(wide[2]))
        if name.endswith("_pointer"):
            names[name] = _viewing(MEMORY[name.removesuffix("_pointer")])
    return names


def _checked(function: Any, width: int) -> Any:
    def access(pointer: Any, index: Any, *values: Any) -> Any:
        if isinstance(pointer, Pointer):
            pointer.check_wide(index, width)
        return function(pointer, index, *values)

    return access


def _viewing(kind: Any) -> Any:
    return lambda pointer, offset: pointer.view(offset, kind)


# --- kernels of the interpreter

INTERPRETED: dict[bytes, tuple[Sequence[Kernel], list[bool]]] = {}
"""Kernels of programs that the interpreter runs, and which of these are guarded, by the bytes of their image."""


def interpreted_kernels(kernels: Sequence[Kernel], guarded: Sequence[bool]) -> dict[str, Run]:
    pairs = zip(kernels, guarded, strict=True)
    return {f"k{number}": _interpreted(kernel, is_guarded) for number, (kernel, is_guarded) in enumerate(pairs)}


def _interpreted(kernel: Kernel, is_guarded: bool) -> Run:
    def run(memory: DeviceMemory, blocks: int, threads: int, arguments: Sequence[int]) -> None:
        error = Pointer(memory, arguments[-1], "i8", silent=True)
        if is_guarded and error[0]:
            return
        count = len(kernel.operands)
        sizes = {Symbol(f"d{n}"): signed(a) for n, a in enumerate(arguments[count:-1])}
        arrays: list[Any] = []
        for operand, address in zip(kernel.operands, arguments, strict=False):
            shape = [size.evaluate(sizes) for size in operand.shape]
            size = int(np.prod(shape, dtype=np.int64)) * operand.dtype.size
            allocation, start = memory.find(address, size)
            if operand.access != "write":
                memory.note_read(address, size)
            if operand.access != "read":
                memory.note_write(address, size)
                allocation.written[start : start + size] = True
            arrays.append(allocation.data[start : start + size].view(operand.dtype.numpy).reshape(shape))
        try:
            run_kernel(kernel, arrays, sizes)
        except Failed as failed:
            if not error[0]:
                error[0] = failed.site + 1

    return run


# --- kernels of the run half


def control_kernels(handles: dict[int, int]) -> dict[str, Run]:
    """Those of `control`; the values of conditional nodes are in `handles`."""
    kernels: dict[str, Run] = {control.CHECK: _check, control.COPY: _copy, control.SET: _setter(handles)}
    for name in INDICES:
        kernels[control.BEGIN + name] = _begin(handles, name)
        kernels[control.NEXT + name] = _next(handles, name)
    return kernels


def _check(memory: DeviceMemory, blocks: int, threads: int, arguments: Sequence[int]) -> None:
    condition, error, code = arguments
    faults = Pointer(memory, error, "i8", silent=True)
    if not Pointer(memory, condition, "u1")[0] and not faults[0]:
        faults[0] = code


def _copy(memory: DeviceMemory, blocks: int, threads: int, arguments: Sequence[int]) -> None:
    target, source, size, error = arguments
    if blocks * threads * 16 < min(size, 1 << 22):
        raise DeviceError("the copy is not covered by its grid")
    memory.note_read(error, 8)
    if not Pointer(memory, error, "i8", silent=True)[0]:
        memory.move(target, source, size)


def _goes_on(memory: DeviceMemory, error: int) -> bool:
    memory.note_read(error, 8)
    return not Pointer(memory, error, "i8", silent=True)[0]


def _setter(handles: dict[int, int]) -> Run:
    def run(memory: DeviceMemory, blocks: int, threads: int, arguments: Sequence[int]) -> None:
        handle, condition, value, error = arguments
        truth = bool(Pointer(memory, condition, "u1")[0])
        memory.note_write(handle, 1)
        handles[handle] = int(truth == bool(value) and _goes_on(memory, error))

    return run


def _begin(handles: dict[int, int], name: str) -> Run:
    def run(memory: DeviceMemory, blocks: int, threads: int, arguments: Sequence[int]) -> None:
        handle, start, stop, counter, index, error = arguments
        state = Pointer(memory, counter, "i8" if name[0] == "i" else "u8")
        state[0], state[1] = Pointer(memory, start, KINDS[name])[0], Pointer(memory, stop, KINDS[name])[0]
        _round(memory, handles, (handle, index, error), state, name)

    return run


def _next(handles: dict[int, int], name: str) -> Run:
    def run(memory: DeviceMemory, blocks: int, threads: int, arguments: Sequence[int]) -> None:
        handle, counter, index, error = arguments
        state = Pointer(memory, counter, "i8" if name[0] == "i" else "u8")
        state[0] += 1
        _round(memory, handles, (handle, index, error), state, name)

    return run


def _round(
    memory: DeviceMemory, handles: dict[int, int], addresses: tuple[int, int, int], state: Pointer, name: str
) -> None:
    handle, index, error = addresses
    runs = bool(state[0] < state[1]) and _goes_on(memory, error)
    memory.note_write(handle, 1)
    handles[handle] = int(runs)
    if runs:
        Pointer(memory, index, KINDS[name])[0] = state[0]
