"""Convolutions that contractions are matched to, computed in NumPy in the plainest way: the reference for matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dfc.ir.dims import Symbol
from dfc.kernels.form import ContractKernel
from dfc.kernels.matching.convolution import DATA, FORWARD, SUMS, WEIGHTS, Convolved
from dfc.kernels.matching.convolutions import convolutions, launches_in_line
from dfc.kernels.program import Launch, Program
from tests.support.kernel_interpreter import Interpreter
from tests.support.kernel_points import PointCall

Array = np.ndarray[Any, Any]


def windows_of(
    image: Sequence[int], window: Sequence[int], steps: Sequence[int], dilations: Sequence[int], low: Sequence[int],
    counts: Sequence[int],
) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:  # fmt: skip
    """Position, element of the window, and where that is in the image, if inside."""
    windows: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = []
    for position in np.ndindex(*counts):
        for element in np.ndindex(*window):
            at = tuple(
                p * s + e * d - z for p, e, s, d, z in zip(position, element, steps, dilations, low, strict=True)
            )
            if all(0 <= a < size for a, size in zip(at, image, strict=True)):
                windows.append((position, element, at))
    return windows


def convolved(kind: str, tensors: Sequence[Array], windows: Sequence[Any], groups: int) -> Array:
    """One of image [N, C, ..], filter [K, C / groups, ..], result [N, K, ..] from the others, in f64. The one that is
    made is given for its shape."""
    image, filter_, result = (one.astype(np.float64) for one in tensors)
    output = {FORWARD: result, DATA: image, WEIGHTS: filter_}[kind]
    output[...] = 0
    size_in, size_out = filter_.shape[1], filter_.shape[0] // groups
    for position, element, at in windows:
        for group in range(groups):
            c, k = slice(group * size_in, (group + 1) * size_in), slice(group * size_out, (group + 1) * size_out)
            x, w = image[(slice(None), c, *at)], filter_[(k, slice(None), *element)]
            y = result[(slice(None), k, *position)]
            if kind == FORWARD:
                y += x @ w.T
            elif kind == DATA:
                x += y @ w
            else:
                w += y.T @ x
    return output


def computed(one: Convolved, memory: Sequence[Array], sizes: Mapping[Symbol, int]) -> tuple[Array, Array]:
    """The output of a convolution, and the view it belongs in: `memory` is that of each operand, flat."""
    what = one.what
    tensors = [view(tensor, memory[tensor.operand], sizes) for tensor in what.tensors]
    low = [each.evaluate(sizes) for each in what.low]
    windows = windows_of(
        tensors[0].shape[2:], tensors[1].shape[2:], what.steps, what.dilations, low, tensors[2].shape[2:]
    )
    output = convolved(what.kind, tensors[:3], windows, what.groups)
    for added in tensors[3:]:
        output += added.reshape(-1, *[1] * (output.ndim - 2)) if added.ndim == 1 else added
    return output, tensors[(what.output).operand]


def view(tensor: Any, flat: Array, sizes: Mapping[Symbol, int]) -> Array:
    """A tensor over flat memory; `AssertionError` if it leaves it."""
    shape, steps = ([one.evaluate(sizes) for one in each] for each in (tensor.extents, tensor.strides))
    offset = tensor.offset.evaluate(sizes)
    last = offset + sum((n - 1) * s for n, s in zip(shape, steps, strict=True))
    assert 0 <= offset <= last < flat.size or 0 in shape
    return np.lib.stride_tricks.as_strided(flat[offset:], shape, [s * flat.itemsize for s in steps])


class Convolver(Interpreter):
    """Makes every convolution that a kernel is matched to, outside of loops and branches; `computed` are those."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.in_line = {id(step) for step in launches_in_line(self.entry.steps)}
        self.matched = convolutions(self.program)
        self.computed: list[Convolved] = []

    def launch(self, step: Launch) -> None:
        one = self.matched.get(step.kernel) if id(step) in self.in_line else None
        if one is None:
            super().launch(step)
            return
        self.computed.append(one)
        kernel = self.program.kernels[step.kernel]
        assert isinstance(kernel, ContractKernel)
        sizes = {Symbol(f"d{n}"): d.evaluate(self.sizes) for n, d in enumerate(step.sizes)}
        extents = [axis.extent.evaluate(sizes) for axis in kernel.axes]
        sums = np.full(extents[:-1], np.nan, kernel.accumulator.numpy)
        memory = [
            sums.reshape(-1) if slot == SUMS else self.array(step.buffers[slot]).reshape(-1) for slot in one.slots
        ]
        output, target = computed(one, memory, sizes)
        target[...] = output
        if SUMS in one.slots:
            self.go_on(step, sums)

    def go_on(self, step: Launch, sums: Array) -> None:
        """What the kernel does with finished sums; its factors are never looked at."""
        kernel = self.program.kernels[step.kernel]
        assert isinstance(kernel, ContractKernel)
        sizes = {Symbol(f"d{n}"): d.evaluate(self.sizes) for n, d in enumerate(step.sizes)}
        extents = [axis.extent.evaluate(sizes) for axis in kernel.axes]
        arrays = [self.array(number) for number in step.buffers]
        call = PointCall(arrays, sizes, extents, [operand.access for operand in kernel.operands])
        for outer in np.ndindex(*extents[:-1]):
            call.accumulated = sums[outer]
            point = [*outer, 0]
            values = call.body(kernel.epilogue, point)
            for store in kernel.stores:
                call.store(store, values, point)


def run_convolving(
    program: Program, entry: str, feeds: Sequence[Any], sizes: Mapping[str, int], state: dict[str, Any]
) -> tuple[list[Array], Convolver]:
    """Calls an entry with convolutions made as noted."""
    chosen = next(e for e in program.entries if e.name == entry)
    machine = Convolver(program, chosen, state, {symbol: sizes[str(symbol)] for symbol in chosen.dims})
    machine.arguments = {number: np.array(feed) for number, feed in enumerate(feeds)}
    machine.run(chosen.steps)
    return [np.array(machine.array(number)) for number in chosen.results], machine
