"""Runs the text of device kernels lane by lane on NumPy arrays, and whole programs with it in place of a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dfc.ir.dims import Symbol
from dfc.kernels.form import ContractKernel, Kernel, LoopKernel
from dfc.kernels.program import Launch
from dfc.lower.threads.schedule import SIMULATED, ZEROED, Schedule
from dfc.lower.threads.text.kernel_text import KernelText
from dfc_target_cuda.kernels.write_kernel import write_kernel
from tests.support import kernel_interpreter
from tests.support.cuda_simulator.names import define, simulated_names
from tests.support.cuda_simulator.simulation import simulate
from tests.support.kernel_interpreter import Interpreter
from tests.support.kernel_points import Failed, PointCall

Array = np.ndarray
Simulate = Callable[[Callable[..., None], int, int, Sequence[Any]], None]


def blocks_of(text: KernelText, sizes: Mapping[Symbol, int]) -> int:
    """How many blocks a launch has; none where there are no points."""
    geometry = text.geometry
    points = geometry.points.evaluate(sizes)
    return min(-(-points // geometry.per_block), geometry.most)


def run_text(
    text: KernelText,
    arrays: Sequence[Array],
    sizes: Sequence[int],
    schedule: Schedule = SIMULATED,
    run: Simulate = simulate,
    error: Array | None = None,
) -> Array:
    """Runs a kernel once on contiguous arrays, in place; gives the error block: site + 1 and two values."""
    names = dict(simulated_names(schedule.warp))
    define(text.source, f"<{text.name}>", names)
    known = {Symbol(f"d{n}"): size for n, size in enumerate(sizes)}
    workspace = np.full(text.workspace.evaluate(known), 0xCB, np.uint8)
    workspace[:ZEROED] = 0
    error = np.zeros(3, np.int64) if error is None else error
    arguments: list[Any] = [memory(array) for array in arrays]
    arguments += [int(size) for size in sizes[: text.sizes]]
    arguments += [workspace] if text.workspace.constant != 0 else []
    blocks = blocks_of(text, known)
    if blocks > 0:
        run(names[text.name], blocks, text.geometry.threads, [*arguments, error])
    return error


def memory(array: Array) -> Array:
    """The elements as the prelude sees them: bool as u8, half types as u16."""
    assert array.flags["C_CONTIGUOUS"]
    flat = array.reshape(-1)
    if array.dtype == np.bool_:
        return flat.view(np.uint8)
    return flat.view(np.uint16) if array.dtype.itemsize == 2 and array.dtype.kind not in "iu" else flat


def interpret(kernel: Kernel, arrays: Sequence[Array], sizes: Sequence[int]) -> int:
    """What a kernel means, point by point, in place; the fault site + 1, or 0."""
    known = {Symbol(f"d{n}"): size for n, size in enumerate(sizes)}
    extents = [axis.extent.evaluate(known) for axis in kernel.axes]
    shaped = [
        array.reshape([d.evaluate(known) for d in operand.shape])
        for array, operand in zip(arrays, kernel.operands, strict=True)
    ]
    accesses = [operand.access for operand in kernel.operands]
    call = PointCall(shaped, known, extents, accesses)
    with np.errstate(all="ignore"):
        try:
            if isinstance(kernel, ContractKernel):
                kernel_interpreter.contract(kernel, call)
            else:
                kernel_interpreter.loops(kernel, call)
        except Failed as failed:
            return failed.site + 1
    return 0


class TextInterpreter(Interpreter):
    """Runs loop kernels by their text, and compares every launch with what the kernel means."""

    schedule = SIMULATED

    def launch(self, step: Launch) -> None:
        kernel = self.program.kernels[step.kernel]
        if not isinstance(kernel, LoopKernel):
            return super().launch(step)
        sizes = [size.evaluate(self.sizes) for size in step.sizes]
        arrays = [np.asarray(self.array(number)) for number in step.buffers]
        expected = [array.copy() for array in arrays]
        failed = interpret(kernel, expected, sizes)
        text = write_kernel(kernel, f"k{step.kernel}", self.schedule, guarded=True)
        error = run_text(text, arrays, sizes, self.schedule)
        if failed or error[0]:
            assert bool(failed) == bool(error[0]), (failed, error, text.source)
            raise Failed(int(error[0]) - 1)
        scale = max((largest(array) for array in expected), default=0.0)
        for array, reference in zip(arrays, expected, strict=True):
            try:
                compare(array, reference, scale)
            except AssertionError as different:
                raise AssertionError(f"{different}\n{text.source}\nsizes {sizes}") from None
        return None


def largest(array: Array) -> float:
    """Of the finite numbers."""
    if array.dtype.kind in "biu":
        return 0.0
    wide = np.abs(array.astype(np.float64))
    return float(np.max(wide[np.isfinite(wide)], initial=0))


def compare(actual: Array, expected: Array, scale: float) -> None:
    """Sums are taken in another order, so that they differ by rounding of what is added; elementary functions differ in
    their last bits."""
    if actual.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected)
        return
    close = {2: 2.0**-7, 4: 2e-5, 8: 1e-12}[actual.dtype.itemsize]
    np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), rtol=close, atol=close * scale)
