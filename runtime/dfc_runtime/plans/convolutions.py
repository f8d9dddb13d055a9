"""The part of a plan that says what convolution a launch makes, for a library that may make it instead.

    {"kind": "forward", "type": "f32", "rounds": false, "operands": [0, 5, 1],
     "image": {"offset": 0, "extents": [["B"], 4, 8, 8], "strides": [256, 1, 32, 4]}, "filter": .., "result": ..,
     "steps": [2, 2], "dilations": [1, 1], "low": [0, 0], "bias": .., "added": .., "finish": ..}

The terms are those of `dfc.kernels.matching.convolution`; operands are buffers of the entry, `SUMS` stands
for sums that a kernel goes on with.

`check_convolution` guarantees that operands exist and have the type of the convolution, that tensors have as many axes
as belong together, and that formulas are over sizes of the entry; what does not is a `ValueError` of one line. Needs
neither the compiler nor NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from dfc_runtime.calls.formulas import Formula, check_known
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.fields import shown
from dfc_runtime.formats.records import Key, Range, formulas_in, read_record
from dfc_runtime.plans.products import SUMS, FinishPlan, check_finish

KINDS = ("forward", "data", "weights")
OUTPUT_TENSOR = {"forward": 2, "data": 0, "weights": 1}
"""Which of image, filter and result is made."""

TYPES = ("f32", "f64", "f16", "bf16")
MOST_SPATIAL_AXES = 3
Factor = Annotated[int, Range(1, 2**31 - 1)]


@dataclass(frozen=True, slots=True)
class TensorPlan:
    """In elements of its operand: where it begins, its extents, its strides."""

    offset: Formula
    extents: tuple[Formula, ...]
    strides: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class ConvolutionPlan:
    """`operands` are the buffers of `tensors`. `low` are zeros before the image; `is_rounding`: factors of f32 may be
    rounded to 11 bits; `finish`: the kernel that goes on with sums, which lie together row by row."""

    kind: str
    type: str
    is_rounding: Annotated[bool, Key("rounds")]
    operands: tuple[Annotated[int, Range(SUMS)], ...]
    image: TensorPlan
    filter: TensorPlan
    result: TensorPlan
    steps: tuple[Factor, ...]
    dilations: tuple[Factor, ...]
    low: tuple[Formula, ...]
    bias: TensorPlan | None = None
    added: TensorPlan | None = None
    finish: FinishPlan | None = None

    @property
    def tensors(self) -> tuple[TensorPlan, ...]:
        """Image, filter, result, then bias and what is added, if there."""
        return (self.image, self.filter, self.result, *(one for one in (self.bias, self.added) if one is not None))

    @property
    def makes_sums(self) -> bool:
        """Whether a kernel goes on with what is made."""
        return self.operands[OUTPUT_TENSOR[self.kind]] == SUMS


def read_convolution(
    value: object, where: str, types: Sequence[str], names: set[str], operands: int
) -> ConvolutionPlan:
    """`types` are those of the entry's buffers, `names` its sizes; `operands` is how many the launch has."""
    plan = read_record(ConvolutionPlan, value, where)
    check_convolution(plan, where, types, names, operands)
    return plan


def check_convolution(plan: ConvolutionPlan, where: str, types: Sequence[str], names: set[str], operands: int) -> None:
    """As `read_convolution` says."""
    _check_tensors(plan, where)
    if plan.kind not in KINDS or plan.type not in TYPES:
        raise ValueError(f"{where} is {shown(plan.kind)} in {shown(plan.type)}, which no library makes")
    if len(plan.operands) != len(plan.tensors) or max(plan.operands) >= len(types):
        raise ValueError(f"{where} has {len(plan.operands)} operands for {len(plan.tensors)} tensors, or unknown ones")
    if plan.makes_sums != (plan.finish is not None):
        raise ValueError(f"{where} makes sums that nothing goes on with, or goes on with none")
    if len(plan.tensors) > 3 and (plan.kind != "forward" or plan.bias is None):
        raise ValueError(f"{where} adds what no library adds")
    for position, operand in enumerate(plan.operands):
        if operand == SUMS and position == OUTPUT_TENSOR[plan.kind] and len(plan.tensors) == 3:
            continue
        if operand == SUMS or types[operand] != plan.type:
            raise ValueError(f"{where} has an operand that is not of the type {plan.type}")
    if plan.finish is not None:
        check_finish(plan.finish, f"{where}.finish", operands)
    for formula in formulas_in(replace(plan, finish=None)):
        check_known(formula, names, where)


def _check_tensors(plan: ConvolutionPlan, where: str) -> None:
    if not 1 <= len(plan.steps) <= MOST_SPATIAL_AXES:
        raise ValueError(f"{where} has {len(plan.steps)} places")
    rank = len(plan.steps) + 2
    if len(plan.dilations) != rank - 2 or len(plan.low) != rank - 2:
        raise ValueError(f"{where} has tensors of {rank} axes, and other places")
    for tensor in plan.tensors:
        axes = 1 if tensor is plan.bias else rank
        if len(tensor.extents) != axes or len(tensor.strides) != axes:
            raise ValueError(f"{where} has {len(tensor.extents)} extents and {len(tensor.strides)} strides, not {axes}")
