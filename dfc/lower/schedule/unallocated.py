"""Unallocated steps over buffer views: the form between fusion and the planning of memory."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.ir.dims import Dim, Symbol
from dfc.kernels.form import Kernel
from dfc.lower.storage import BufferView


@dataclass(slots=True)
class UnallocatedLaunch:
    kernel: Kernel
    views: tuple[BufferView, ...]
    names: tuple[str, ...]
    span: Span
    reasons: tuple[str, ...] = ()


@dataclass(slots=True)
class UnallocatedIf:
    condition: BufferView
    then: list[UnallocatedStep]
    otherwise: list[UnallocatedStep]


@dataclass(slots=True)
class UnallocatedWhile:
    condition: list[UnallocatedStep]
    test: BufferView
    body: list[UnallocatedStep]


@dataclass(slots=True)
class UnallocatedFor:
    index: BufferView
    start: BufferView
    stop: BufferView
    body: list[UnallocatedStep]


@dataclass(slots=True)
class UnallocatedLocked:
    """The body under the locks of containers of state."""

    containers: tuple[str, ...]
    exclusive: bool
    body: list[UnallocatedStep]


@dataclass(slots=True)
class UnallocatedCopy:
    source: BufferView
    target: BufferView


@dataclass(slots=True)
class UnallocatedCheck:
    condition: BufferView
    fault: int


@dataclass(slots=True)
class UnallocatedMeasure:
    """Gives a size the value of an i64."""

    symbol: Symbol
    source: BufferView
    most: Dim
    fault: int


@dataclass(slots=True)
class UnallocatedHostCall:
    site: int
    inputs: tuple[BufferView, ...]
    outputs: tuple[BufferView, ...]


@dataclass(slots=True)
class UnallocatedParallel:
    """Branches that may run at the same time (`dfc.kernels.program.Parallel`)."""

    branches: list[list[UnallocatedStep]]
    costs: tuple[int, ...]
    work: Dim
    most: int


UnallocatedStep = (
    UnallocatedLaunch
    | UnallocatedCopy
    | UnallocatedIf
    | UnallocatedWhile
    | UnallocatedFor
    | UnallocatedLocked
    | UnallocatedParallel
    | UnallocatedCheck
    | UnallocatedMeasure
    | UnallocatedHostCall
)


def inner_blocks(step: UnallocatedStep) -> Sequence[list[UnallocatedStep]]:
    """The lists of steps inside a step, in the order in which they run."""
    match step:
        case UnallocatedIf():
            return (step.then, step.otherwise)
        case UnallocatedWhile():
            return (step.condition, step.body)
        case UnallocatedFor() | UnallocatedLocked():
            return (step.body,)
        case UnallocatedParallel():
            return step.branches
        case _:
            return ()


def walk(steps: Sequence[UnallocatedStep]) -> list[UnallocatedStep]:
    """All steps, outer before inner, in order; iterative."""
    all_steps: list[UnallocatedStep] = []
    pending: list[UnallocatedStep] = list(reversed(steps))
    while pending:
        step = pending.pop()
        all_steps.append(step)
        for block in reversed(inner_blocks(step)):
            pending.extend(reversed(block))
    return all_steps


def own_views(step: UnallocatedStep) -> tuple[BufferView, ...]:
    """The buffer views that a step itself uses, without those of inner steps."""
    match step:
        case UnallocatedLaunch():
            return step.views
        case UnallocatedIf() | UnallocatedCheck():
            return (step.condition,)
        case UnallocatedMeasure():
            return (step.source,)
        case UnallocatedWhile():
            return (step.test,)
        case UnallocatedFor():
            return (step.index, step.start, step.stop)
        case UnallocatedCopy():
            return (step.source, step.target)
        case UnallocatedHostCall():
            return (*step.inputs, *step.outputs)
        case UnallocatedLocked() | UnallocatedParallel():
            return ()
