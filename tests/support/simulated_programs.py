"""Programs on a simulated device, without bundle and runtime: with the interpreter's kernels, or with kernel text."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from dfc.bundle.constants import lay_out_constants
from dfc.bundle.target import CodeImage, Lowered
from dfc.driver import pipeline
from dfc.ir.dims import product
from dfc.ir.options import TargetOptions
from dfc.kernels.body import Apply, Computed, Load
from dfc.kernels.canonical import symbol_count
from dfc.kernels.form import ContractKernel, Kernel
from dfc.kernels.program import Program
from dfc.lower.threads.schedule import SIMULATED, Geometry, Schedule
from dfc.lower.threads.text.kernel_text import KernelText
from dfc_driver_cuda import libcuda
from dfc_driver_cuda.driver import CudaDriver
from dfc_target_cuda.kernels.kernel_code import kernel_code
from dfc_target_cuda.plan.plan import plan_program
from dfc_target_cuda.target import SIMULATOR, CudaTarget
from tests.support.building import graph_of
from tests.support.native_run import aligned_copy
from tests.support.simulated_device import SimulatedDevice
from tests.support.simulated_kernels import INTERPRETED

Arrays = Mapping[str, Any]

MOST_INTERPRETED = 200
"""Programs whose kernels are kept for devices to load: many more than one test has."""
_numbers = itertools.count()


def program_of(text: str) -> Program:
    """The scheduled program of a text."""
    return pipeline.scheduled(pipeline.optimise(graph_of(f"dfg 1\n{text}")))


def interpreted_text(kernel: Kernel, name: str, schedule: Schedule, *, guarded: bool) -> KernelText:
    """Stands for a kernel that the interpreter runs: one block, whatever the sizes."""
    outer = kernel.axes[:-1] if isinstance(kernel, ContractKernel) else kernel.axes[: kernel.outer]
    geometry = Geometry(product(axis.extent for axis in outer), 1, schedule.threads, 1)
    pointers = tuple(operand.dtype for operand in kernel.operands)
    return KernelText(
        name, "", pointers, symbol_count(kernel), geometry, guarded=guarded, faults=may_fault(kernel)
    )  # fmt: skip


def may_fault(kernel: Kernel) -> bool:
    """Whether a body reports a fault somewhere: an index that is computed, a division of integers."""
    if isinstance(kernel, ContractKernel):
        parts = [(kernel.epilogue, kernel.stores)]
    else:
        parts = [(stage.body, stage.stores) for stage in kernel.stages]
    for body, stores in parts:
        indices = [i for store in stores for i in store.index]
        for one in body:
            if isinstance(one.operation, Apply) and one.operation.fault >= 0:
                return True
            indices += one.operation.index if isinstance(one.operation, Load) else ()
        if any(isinstance(i, Computed) and i.fault >= 0 for i in indices):
            return True
    return False


def interpreted(program: Program, *, tf32: bool = False) -> Lowered:
    """The program lowered, with kernels of the interpreter. `tf32`: libraries may round factors of f32."""
    code = kernel_code(program, replace(SIMULATED, tf32=tf32 or SIMULATED.tf32), interpreted_text)
    constants, offsets = lay_out_constants(program.constants)
    key = f"interpreted {next(_numbers)}".encode()
    INTERPRETED[key] = code.kernels, [text.guarded for text in code.texts]
    while len(INTERPRETED) > MOST_INTERPRETED:
        del INTERPRETED[next(iter(INTERPRETED))]
    image = CodeImage(SIMULATOR, key, {text.name: 0 for text in code.texts}, (SIMULATOR,))
    plan = plan_program(program, code.texts, code.access, offsets, code.choices)
    return Lowered("cuda", (image,), constants, offsets, {"plan": plan})


def in_text(program: Program) -> Lowered:
    """The program lowered to kernel text for the simulator."""
    return CudaTarget().lower(program, TargetOptions((SIMULATOR,)))


def open_driver(lowered: Lowered, device: SimulatedDevice, resources: Arrays, **more: Any) -> CudaDriver:
    """A driver on this device."""
    constants = aligned_copy(np.frombuffer(lowered.constants, np.uint8))
    (image,) = lowered.images
    with mock.patch.object(libcuda, "open_device", return_value=device):
        return CudaDriver(
            image=image.code,
            symbols=image.symbols,
            notes=lowered.notes,
            constants=constants,
            resources=dict(resources),
            **more,
        )


class SimulatedRun:
    """A program on a device of its own, over state of its own."""

    def __init__(
        self,
        program: Program,
        state: Arrays | None = None,
        device: SimulatedDevice | None = None,
        lower: Callable[[Program], Lowered] = interpreted,
        host: Callable[[int, int], None] | None = None,
    ) -> None:
        self.program = program
        self.lowered = lower(program)
        self.device = device if device is not None else SimulatedDevice()
        self.state = {name: aligned_copy(np.asarray((state or {})[name])) for name in program.resources}
        self.driver = open_driver(self.lowered, self.device, self.state, host=host)
        self.measured: dict[str, int] = {}

    def call(self, entry: str, arguments: Sequence[Any] = (), sizes: Mapping[str, int] | None = None) -> list[Any]:
        """The results of one call; AssertionError after a fault. Afterwards `state` is what the device has."""
        code, results = self.attempt(entry, arguments, sizes)
        assert code == 0, self.driver.last_fault()
        return results

    def attempt(
        self, entry: str, arguments: Sequence[Any] = (), sizes: Mapping[str, int] | None = None
    ) -> tuple[int, list[Any]]:
        number = next(i for i, e in enumerate(self.program.entries) if e.name == entry)
        chosen = self.program.entries[number]
        dims = {symbol: (sizes or {})[str(symbol)] for symbol in chosen.dims}
        most = {symbol: bound.evaluate(dims) for symbol, bound in chosen.measured}
        arrays = [np.array(a, order="C") for a in arguments]
        shapes = [
            tuple(d.evaluate({**dims, **most}) for d in chosen.buffers[b].shape) for b in chosen.results
        ]  # fmt: skip
        results = [np.zeros(s, chosen.buffers[b].dtype.numpy) for s, b in zip(shapes, chosen.results, strict=True)]
        words = [_word(a) for a in (*arrays, *results)] + list(dims.values()) + [0] * (1 + len(most))
        slots = np.array(words, np.uint64)
        code = self.driver.entry(number).call(slots.ctypes.data)
        for slot, result in enumerate(results, len(arrays)):
            if result.shape == ():
                result[...] = slots[slot : slot + 1].view(np.uint8)[: result.itemsize].view(result.dtype)[0]
        measured_sizes = slots[len(words) - len(most) :].view(np.int64)
        self.measured = {str(symbol): int(size) for symbol, size in zip(most, measured_sizes, strict=True)}
        self.driver.memory.pull(list(self.state))
        return code, results


def _word(array: Any) -> int:
    """A tensor by its address, a scalar by its bytes."""
    return array.ctypes.data if array.shape else int.from_bytes(array.tobytes(), "little")
