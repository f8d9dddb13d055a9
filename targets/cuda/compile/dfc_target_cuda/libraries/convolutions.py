"""Convolutions of a program as data of its plan: those that a library may make with the same numbers.

Guarantees that what is described has one element type throughout, and that sums are made apart only where a kernel goes
on with them.
"""

from __future__ import annotations

from collections.abc import Callable

from dfc.bundle.formulas import formula
from dfc.ir.dims import Dim, Symbol
from dfc.kernels.matching.convolution import FORWARD, SUMS, Convolved, Strided
from dfc.kernels.program import EntryProgram, Launch
from dfc_runtime.plans.convolutions import TYPES
from dfc_target_cuda.libraries.splitting import Choice

Size = Callable[[Dim], object]


def convolution_data(
    entry: EntryProgram, launch: Launch, one: Convolved, choice: Choice, *, faults: bool, size: Size
) -> dict[str, object] | None:
    """What the plan says of a launch besides; nothing if no library makes it."""
    if unmade(entry, launch, one, choice, faults=faults):
        return None
    values = {Symbol(f"d{number}"): value for number, value in enumerate(launch.sizes)}

    def bound(formula: Dim) -> object:
        return size(formula.substitute(values))

    return _data(one, entry, launch, is_rounding=choice.is_rounding, size=bound) | _finish(one, choice)


def _finish(one: Convolved, choice: Choice) -> dict[str, object]:
    """The kernel that goes on with the sums, if that is what is made."""
    last = choice.apart
    if SUMS not in one.slots or last is None:
        return {}
    sizes = [_over_kernel(size) for size in last.sizes]
    return {"finish": {"kernel": last.kernel, "operands": list(last.operands), "sizes": sizes}}


def _over_kernel(size: Dim) -> object:
    return formula(size, {symbol: str(symbol) for symbol in size.symbols()}).to_json()


def unmade(entry: EntryProgram, launch: Launch, one: Convolved, choice: Choice, *, faults: bool) -> str:
    """Why no library of convolutions makes what a kernel makes; empty if one may."""
    types = {entry.buffers[b].dtype.name for b in operands(launch, one) if b != SUMS}
    if len(types) > 1 or not types <= set(TYPES):
        return f"it works on {' and '.join(sorted(types))}"
    if faults:
        return "it may fail"
    if SUMS in one.slots and choice.apart is None:
        return f"its sums are not rounded to {types.pop()} before anything else"
    return ""


def operands(launch: Launch, one: Convolved) -> list[int]:
    """The buffers of a convolution."""
    return [SUMS if slot == SUMS else launch.buffers[slot] for slot in one.slots]


def _data(one: Convolved, entry: EntryProgram, launch: Launch, *, is_rounding: bool, size: Size) -> dict[str, object]:
    what, buffers = one.what, operands(launch, one)
    tensors = {"image": what.image, "filter": what.filter, "result": what.result}
    tensors |= {"bias": what.bias} if what.bias is not None else {}
    tensors |= {"added": what.added} if what.added is not None else {}
    (dtype,) = {entry.buffers[b].dtype.name for b in buffers if b != SUMS}
    return {
        "kind": what.kind,
        "type": dtype,
        "rounds": is_rounding and dtype == "f32",
        "operands": [buffers[tensor.operand] for tensor in tensors.values()],
        **{name: _tensor(tensor, size) for name, tensor in tensors.items()},
        "steps": list(what.steps),
        "dilations": list(what.dilations),
        "low": [size(each) for each in what.low],
    }


def _tensor(tensor: Strided, size: Size) -> dict[str, object]:
    return {
        "offset": size(tensor.offset),
        "extents": [size(each) for each in tensor.extents],
        "strides": [size(each) for each in tensor.strides],
    }


def described(one: Convolved) -> str:
    """In words: what `dfc inspect` says of it."""
    words = {"forward": "a convolution", "data": "a gradient by the image", "weights": "a gradient by the filter"}
    added = " with its bias" if one.what.kind == FORWARD and one.what.bias is not None else ""
    return f"{words[one.what.kind]}{added}"
