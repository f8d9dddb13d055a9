"""The part of a plan that says what convolution a launch makes, for a library that may make it instead.

    {"kind": "forward", "type": "f32", "rounds": false, "operands": [0, 5, 1],
     "image": {"offset": 0, "extents": [["B"], 4, 8, 8], "strides": [256, 1, 32, 4]}, "filter": .., "result": ..,
     "steps": [2, 2], "dilations": [1, 1], "low": [0, 0], "bias": .., "added": .., "finish": ..}

The terms are those of `dfc.kernels.matching.convolution`; operands are buffers of the entry, `SUMS` stands
for sums that a kernel goes on with.

Assumes nothing of the JSON. Guarantees that operands exist and have the type of the convolution, that tensors have as
many axes as belong together, and that formulas are over sizes of the entry; what does not is a `ValueError` of one
line. Needs neither the compiler nor NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dfc_runtime.calls.formulas import Formula, from_json
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.fields import Record, integer, shown
from dfc_runtime.plans.products import SUMS, FinishPlan, read_finish

KINDS = ("forward", "data", "weights")
OUTPUT_TENSOR = {"forward": 2, "data": 0, "weights": 1}
"""Which of image, filter and result is made."""

TYPES = ("f32", "f64", "f16", "bf16")
MOST_SPATIAL_AXES = 3
LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class TensorPlan:
    """In elements of its operand: where it begins, its extents, its strides."""

    offset: Formula
    extents: tuple[Formula, ...]
    strides: tuple[Formula, ...]

    def formulas(self) -> Iterator[Formula]:
        yield from (self.offset, *self.extents, *self.strides)


@dataclass(frozen=True, slots=True)
class ConvolutionPlan:
    """`tensors` are image, filter, result, then bias and what is added, if there; `operands` the buffer of each. `low`
    are zeros before the image; `is_rounding`: factors of f32 may be rounded to 11 bits; `finish`: the kernel that goes
    on with sums, which lie together row by row."""

    kind: str
    type: str
    is_rounding: bool
    operands: tuple[int, ...]
    tensors: tuple[TensorPlan, ...]
    has_bias: bool
    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[Formula, ...]
    finish: FinishPlan | None = None

    @property
    def makes_sums(self) -> bool:
        """Whether a kernel goes on with what is made."""
        return self.operands[OUTPUT_TENSOR[self.kind]] == SUMS

    def formulas(self) -> Iterator[Formula]:
        for tensor in self.tensors:
            yield from tensor.formulas()
        yield from self.low


def read_convolution(
    value: object, where: str, types: Sequence[str], names: set[str], operands: int
) -> ConvolutionPlan:
    """`types` are those of the entry's buffers, `names` its sizes; `operands` is how many the launch has."""
    plan = _convolution(value, where, types, operands)
    for formula in plan.formulas():
        unknown = formula.symbols() - names
        if unknown:
            raise ValueError(f"{where} mentions the unknown size {shown(min(unknown))}")
    return plan


def _convolution(value: object, where: str, types: Sequence[str], operands: int) -> ConvolutionPlan:
    record = Record(value, where)
    steps = record.list("steps", _factor)
    if not 1 <= len(steps) <= MOST_SPATIAL_AXES:
        raise ValueError(f"{where} has {len(steps)} places")
    rank = len(steps) + 2
    tensors = [_tensor(record.get(name), record.field_path(name), rank) for name in ("image", "filter", "result")]
    bias = record.optional("bias", lambda each, path: _tensor(each, path, 1), None)
    added = record.optional("added", lambda each, path: _tensor(each, path, rank), None)
    tensors += [one for one in (bias, added) if one is not None]
    plan = ConvolutionPlan(
        kind=record.text("kind"),
        type=record.text("type"),
        is_rounding=record.flag("rounds"),
        operands=record.list("operands", lambda each, path: integer(each, path, SUMS, len(types) - 1)),
        tensors=tuple(tensors),
        has_bias=bias is not None,
        steps=steps,
        dilations=record.list("dilations", _factor),
        low=record.list("low", from_json),
        finish=record.optional("finish", lambda each, path: read_finish(each, path, operands), None),
    )
    record.done()
    _check(plan, where, types, rank)
    return plan


def _check(plan: ConvolutionPlan, where: str, types: Sequence[str], rank: int) -> None:
    if plan.kind not in KINDS or plan.type not in TYPES:
        raise ValueError(f"{where} is {shown(plan.kind)} in {shown(plan.type)}, which no library makes")
    if plan.makes_sums != (plan.finish is not None):
        raise ValueError(f"{where} makes sums that nothing goes on with, or goes on with none")
    if len(plan.operands) != len(plan.tensors):
        raise ValueError(f"{where} has {len(plan.operands)} operands for {len(plan.tensors)} tensors")
    if len(plan.tensors) > 3 and (plan.kind != "forward" or not plan.has_bias):
        raise ValueError(f"{where} adds what no library adds")
    if len(plan.dilations) != rank - 2 or len(plan.low) != rank - 2:
        raise ValueError(f"{where} has tensors of {rank} axes, and other places")
    for position, operand in enumerate(plan.operands):
        if operand == SUMS and position == OUTPUT_TENSOR[plan.kind] and len(plan.tensors) == 3:
            continue
        if operand == SUMS or types[operand] != plan.type:
            raise ValueError(f"{where} has an operand that is not of the type {plan.type}")


def _tensor(value: object, where: str, rank: int) -> TensorPlan:
    record = Record(value, where)
    plan = TensorPlan(
        from_json(record.get("offset"), record.field_path("offset")),
        record.list("extents", from_json),
        record.list("strides", from_json),
    )
    record.done()
    if len(plan.extents) != rank or len(plan.strides) != rank:
        raise ValueError(f"{where} has {len(plan.extents)} extents and {len(plan.strides)} strides, not {rank}")
    return plan


def _factor(value: object, where: str) -> int:
    return integer(value, where, 1, LARGEST)
