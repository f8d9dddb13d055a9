"""Which contractions are convolutions: their index maps, matched to what a library of convolutions makes.

    sum over k of x[b, y + r - 1, c] * w[k, o] with m = (b, y), k = (r, c)    ->    forward, image x, filter w

Assumes kernels in canonical form. Guarantees that what is described is the sum of the kernel, with what its epilogue
adds to it where a library adds that too; where the epilogue does anything else, the sums alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ZERO, Dim
from dfc.kernels.access import strides
from dfc.kernels.body import Accumulated, Affine, Apply, Index, Instruction, Load
from dfc.kernels.form import ContractKernel
from dfc.kernels.matching.axes import Along, Space, Terms, View
from dfc.kernels.matching.convolution import DATA, FORWARD, SUMS, Convolution, Convolved, Strided
from dfc.kernels.matching.roles import Flat, convolution
from dfc.kernels.program import Launch, Locked, Parallel, Program, Step, inner_steps


@dataclass(frozen=True, slots=True)
class _Write:
    """Where finished sums are written as they are, but for what is added to them; by slot."""

    slot: int
    view: View
    added: tuple[tuple[int, View], ...] = ()


def convolutions(program: Program) -> dict[int, Convolved]:
    """By number of the kernel: what convolution it makes. Kernels that run in loops and branches alone are left out."""
    in_line = {launch.kernel for entry in program.entries for launch in launches_in_line(entry.steps)}
    candidates = {
        number: convolved(kernel)
        for number, kernel in enumerate(program.kernels)
        if number in in_line and isinstance(kernel, ContractKernel)
    }
    return {number: one for number, one in candidates.items() if one is not None}


def launches_in_line(steps: tuple[Step, ...]) -> Iterator[Launch]:
    """Those outside of loops and branches."""
    for step in steps:
        if isinstance(step, Launch):
            yield step
        elif isinstance(step, Locked):
            yield from launches_in_line(step.body)
        elif isinstance(step, Parallel):
            yield from launches_in_line(inner_steps(step))


def convolved(kernel: ContractKernel) -> Convolved | None:
    """What convolution a contraction makes: all of what it writes, else its sums."""
    if kernel.a.is_strided and kernel.b.is_strided:
        return None  # a product of matrices
    write = _written(kernel)
    matched = None if write is None else _matched(kernel, write)
    return matched or _matched(kernel, None)


def _matched(kernel: ContractKernel, write: _Write | None) -> Convolved | None:
    axes = [axis.extent for axis in kernel.axes]
    for one, other in ((kernel.a, kernel.b), (kernel.b, kernel.a)):
        space = Space(dict(enumerate(axes)))
        image = space.factor(len(axes), one, kernel.operands[one.operand].shape)
        plain = space.factor(len(axes), other, kernel.operands[other.operand].shape)
        flat = None if plain is None else space.flat(plain)
        output = (dict(enumerate(strides(tuple(axes[:-1])))), ZERO) if write is None else space.flat(write.view)
        if image is None or flat is None or output is None:
            continue
        result = Flat(space.resolved(output[0]), output[1])
        matched = convolution(space, image, Flat(*flat), result)
        if matched is None:
            continue
        slots = _slots(matched, one.operand, other.operand, SUMS if write is None else write.slot)
        return Convolved(matched, slots) if write is None else _with_added(space, matched, slots, write, result)
    return None


def _slots(one: Convolution, image: int, plain: int, output: int) -> tuple[int, int, int]:
    """In the order of image, filter, result."""
    if one.kind == FORWARD:
        return image, plain, output
    return (output, plain, image) if one.kind == DATA else (image, output, plain)


def _with_added(
    space: Space, one: Convolution, slots: tuple[int, ...], write: _Write, output: Flat
) -> Convolved | None:
    """With what is added to finished sums: a number for each channel, and a tensor like the result."""
    if not write.added:
        return Convolved(one, slots)
    if one.kind != FORWARD or len(one.result.extents) < 2:
        return None
    bias = added = None
    for slot, view in write.added:
        flat = space.flat(view)
        if flat is None:
            return None
        terms, offset = flat
        if _same(terms, output.terms) and added is None and slot != write.slot:
            added = Strided(len(slots), offset, one.result.extents, one.result.strides)
        elif bias is None and (stride := _along_channels(space, one, terms, output.terms)) is not None:
            bias = Strided(len(slots), offset, one.result.extents[1:2], (stride,))
        else:
            return None
        slots = (*slots, slot)
    return None if bias is None else Convolved(replace(one, bias=bias, added=added), slots)


def _same(one: Terms, other: Terms) -> bool:
    return one.keys() == other.keys() and all(one[axis] == other[axis] for axis in one)


def _along_channels(space: Space, one: Convolution, terms: Terms, output: Terms) -> Dim | None:
    """The stride of a vector along the channels of the result."""
    channels = _channel_axes(space, one, output)
    if channels is None or terms.keys() != channels.keys():
        return None
    inner = one.result.strides[1]
    stride = next((terms[axis] for axis, factor in channels.items() if factor == inner), None)
    if stride is None:
        return None
    fits = all(terms[axis] * inner == factor * stride for axis, factor in channels.items())
    return stride if fits else None


def _channel_axes(space: Space, one: Convolution, output: Terms) -> Terms | None:
    """The axes that make up the channels of the result, each with its factor there."""
    terms: Terms = {}
    reached = one.result.strides[1]
    end = one.result.strides[1] * one.result.extents[1]
    left = {factor: axis for axis, factor in output.items()}
    while reached != end:
        axis = left.pop(reached, None)
        if axis is None:
            return None
        terms[axis] = reached
        reached = reached * space.extents[axis]
    return terms


# --- what the epilogue does


def _written(kernel: ContractKernel) -> _Write | None:
    """The only place that sums are written to, if they are written as they are but for what is added."""
    store = kernel.stores[0]
    output = _view(kernel, store.operand, store.index)
    loads = _added(kernel, kernel.epilogue[store.value])
    if len(kernel.stores) != 1 or store.combine or output is None or loads is None:
        return None
    more = [(load.operand, _view(kernel, load.operand, load.index)) for load in loads]
    known = tuple((slot, view) for slot, view in more if view is not None)
    return _Write(store.operand, output, known) if len(known) == len(more) else None


def _view(kernel: ContractKernel, slot: int, index: Sequence[Index]) -> View | None:
    along: list[Along] = []
    for one in index:
        if not isinstance(one, Affine):
            return None
        terms: Terms = {}
        for axis, factor in one.terms:
            terms[axis] = terms.get(axis, ZERO) + factor
        along.append(Along(terms, one.offset))
    return View(kernel.operands[slot].shape, tuple(along))


def _added(kernel: ContractKernel, value: Instruction) -> list[Load] | None:
    """The loads that are added to the sum, one after the other; None if anything else is done to it. A cast to the
    element type of the result comes last."""
    body = kernel.epilogue
    if _is(value, "cast") and body[value.arguments[0]].dtype == kernel.accumulator:
        value = body[value.arguments[0]]
    candidates: list[Load] = []
    while not isinstance(value.operation, Accumulated):
        if not _is(value, "add") or value.dtype != kernel.accumulator or len(candidates) == 2:
            return None
        parts = [body[number] for number in value.arguments]
        loads = [_loaded(kernel, part) for part in parts]
        if (loads[0] is None) == (loads[1] is None):
            return None
        position = 0 if loads[0] is not None else 1
        load = loads[position]
        assert load is not None
        candidates.append(load)
        value = parts[1 - position]
    return candidates


def _loaded(kernel: ContractKernel, value: Instruction) -> Load | None:
    if _is(value, "cast") and value.dtype == kernel.accumulator:
        value = kernel.epilogue[value.arguments[0]]
    load = value.operation
    return load if isinstance(load, Load) and load.mask is None else None


def _is(one: Instruction, function: str) -> bool:
    return isinstance(one.operation, Apply) and one.operation.function == function
