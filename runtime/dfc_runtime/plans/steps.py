"""The steps of a plan: launches, copies and control flow over numbered buffers, with sizes as formulas.

Assumes nothing of the numbers: `plan` checks those that it reads. Names no machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from dfc_runtime.calls.formulas import Formula
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.plans.convolutions import ConvolutionPlan

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Launch:
    kernel: int
    buffers: tuple[int, ...]
    sizes: tuple[Formula, ...]
    convolution: ConvolutionPlan | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class If:
    condition: int
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class While:
    condition: tuple[Step, ...]
    test: int
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class For:
    """`counter` numbers the loops of an entry: each has 16 bytes for its running index and its end."""

    index: int
    start: int
    stop: int
    counter: int
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Check:
    condition: int
    fault: int


@dataclass(frozen=True, slots=True)
class Measure:
    """`symbol` is the name of the size."""

    symbol: str
    source: int
    most: Formula
    fault: int


@dataclass(frozen=True, slots=True)
class HostCall:
    site: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    extents: tuple[Formula, ...]


Step = Launch | Copy | If | While | For | Check | Measure | HostCall


def inner_steps(step: object) -> tuple[Step, ...]:
    """The steps that a step itself holds, in order."""
    match step:
        case If():
            return step.then + step.otherwise
        case While():
            return step.condition + step.body
        case For():
            return step.body
        case _:
            return ()


def walk(steps: Sequence[T]) -> list[T | Step]:
    """All steps, outer before inner, in the order of the program; iterative."""
    all_steps: list[T | Step] = []
    pending: list[T | Step] = list(reversed(steps))
    while pending:
        step = pending.pop()
        all_steps.append(step)
        pending += reversed(inner_steps(step))
    return all_steps


def operands_of(step: Step) -> set[int]:
    """The buffers that a step itself uses, without those of inner ones."""
    match step:
        case Launch():
            return set(step.buffers)
        case Copy():
            return {step.source, step.target}
        case If() | Check():
            return {step.condition}
        case While():
            return {step.test}
        case For():
            return {step.index, step.start, step.stop}
        case Measure():
            return {step.source}
        case HostCall():
            return {*step.inputs, *step.outputs}
