"""What launches say of convolutions, as data of the plan: those that a library may make with the same numbers.

Assumes notes of `dfc.lower.convolutions`. Guarantees that what is described has one element type throughout, and that
sums are made apart only where a kernel goes on with them.
"""

from __future__ import annotations

from collections.abc import Callable

from dfc.bundle.formulas import formula
from dfc.ir.dims import Dim
from dfc.kernels.convolution import FORWARD, SUMS, Convolved, Strided
from dfc.kernels.program import EntryProgram, Launch
from dfc_driver_cuda.plan_convolutions import TYPES
from dfc_target_cuda.libraries.splitting import Choice

Size = Callable[[Dim], object]


def launch_notes(
    entry: EntryProgram, launch: Launch, choice: Choice, *, faults: bool, size: Size
) -> dict[str, object] | None:
    """What the plan says of a launch besides; nothing of most."""
    one = launch.convolution
    made = one is not None and unmade(entry, launch, choice, faults=faults) == ""
    if one is None or not made:
        return {"number": launch.number, "only_for": list(launch.only_for)} if launch.only_for else None
    return {
        "number": launch.number,
        "only_for": list(launch.only_for),
        "convolution": _data(one, entry, rounds=choice.rounds, size=size) | _finish(one, choice),
    }


def _finish(one: Convolved, choice: Choice) -> dict[str, object]:
    """The kernel that goes on with the sums, if that is what is made."""
    last = choice.apart
    if SUMS not in one.buffers or last is None:
        return {}
    sizes = [_over_kernel(size) for size in last.sizes]
    return {"finish": {"kernel": last.kernel, "operands": list(last.operands), "sizes": sizes}}


def _over_kernel(size: Dim) -> object:
    return formula(size, {symbol: str(symbol) for symbol in size.symbols()}).to_json()


def unmade(entry: EntryProgram, launch: Launch, choice: Choice, *, faults: bool) -> str:
    """Why no library of convolutions makes what a launch says that it makes; empty if one may."""
    assert launch.convolution is not None
    one = launch.convolution
    types = {entry.buffers[b].dtype.name for b in one.buffers if b != SUMS}
    if len(types) > 1 or not types <= set(TYPES):
        return f"it works on {' and '.join(sorted(types))}"
    if faults:
        return "it may fail"
    if SUMS in one.buffers and choice.apart is None:
        return f"its sums are not rounded to {types.pop()} before anything else"
    return ""


def _data(one: Convolved, entry: EntryProgram, *, rounds: bool, size: Size) -> dict[str, object]:
    what = one.what
    tensors = {"image": what.image, "filter": what.filter, "result": what.result}
    tensors |= {"bias": what.bias} if what.bias is not None else {}
    tensors |= {"added": what.added} if what.added is not None else {}
    (dtype,) = {entry.buffers[b].dtype.name for b in one.buffers if b != SUMS}
    return {
        "kind": what.kind,
        "type": dtype,
        "rounds": rounds and dtype == "f32",
        "operands": [one.buffers[tensor.operand] for tensor in tensors.values()],
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
