"""Convolutions of a program as its plan has them: those that a library may make with the same numbers.

Guarantees that what is described has one element type throughout, and that sums are made apart only where a kernel goes
on with them.
"""

from __future__ import annotations

from collections.abc import Callable

from dfc.bundle.formulas import formula
from dfc.ir.dims import Dim, Symbol
from dfc.kernels.matching.convolution import FORWARD, SUMS, Convolved, Strided
from dfc.kernels.program import EntryProgram, Launch
from dfc_runtime.calls.formulas import Formula
from dfc_runtime.plans.convolutions import TYPES, ConvolutionPlan, TensorPlan
from dfc_runtime.plans.products import FinishPlan
from dfc_target_cuda.libraries.splitting import Choice

Size = Callable[[Dim], Formula]


def convolution_plan(
    entry: EntryProgram, launch: Launch, one: Convolved, choice: Choice, *, faults: bool, size: Size
) -> ConvolutionPlan | None:
    """What the plan says of a launch besides; nothing if no library makes it."""
    if unmade(entry, launch, one, choice, faults=faults):
        return None
    values = {Symbol(f"d{number}"): value for number, value in enumerate(launch.sizes)}
    what, buffers = one.what, operands(launch, one)

    def tensor(one: Strided) -> TensorPlan:
        return TensorPlan(bound(one.offset), tuple(map(bound, one.extents)), tuple(map(bound, one.strides)))

    def bound(formula: Dim) -> Formula:
        return size(formula.substitute(values))

    tensors = [one for one in (what.image, what.filter, what.result, what.bias, what.added) if one is not None]
    (dtype,) = {entry.buffers[b].dtype.name for b in buffers if b != SUMS}
    return ConvolutionPlan(
        kind=what.kind,
        type=dtype,
        is_rounding=choice.is_rounding and dtype == "f32",
        operands=tuple(buffers[one.operand] for one in tensors),
        image=tensor(what.image),
        filter=tensor(what.filter),
        result=tensor(what.result),
        steps=tuple(what.steps),
        dilations=tuple(what.dilations),
        low=tuple(map(bound, what.low)),
        bias=tensor(what.bias) if what.bias is not None else None,
        added=tensor(what.added) if what.added is not None else None,
        finish=_finish(one, choice),
    )


def _finish(one: Convolved, choice: Choice) -> FinishPlan | None:
    """The kernel that goes on with the sums, if that is what is made."""
    last = choice.apart
    if SUMS not in one.slots or last is None:
        return None
    sizes = (formula(size, {symbol: str(symbol) for symbol in size.symbols()}) for size in last.sizes)
    return FinishPlan(last.kernel, tuple(last.operands), tuple(sizes))


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


def described(one: Convolved) -> str:
    """In words: what `dfc inspect` says of it."""
    words = {"forward": "a convolution", "data": "a gradient by the image", "weights": "a gradient by the filter"}
    added = " with its bias" if one.what.kind == FORWARD and one.what.bias is not None else ""
    return f"{words[one.what.kind]}{added}"
