"""Steps over places: the form between fusion and the planning of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dfc.diagnostics.source import Span
from dfc.ir.dims import Dim, Symbol
from dfc.kernels.form import Kernel
from dfc.lower.storage import BufferView


@dataclass(slots=True)
class DraftLaunch:
    kernel: Kernel
    views: tuple[BufferView, ...]
    names: tuple[str, ...]
    span: Span
    reasons: tuple[str, ...] = ()


@dataclass(slots=True)
class DraftIf:
    condition: BufferView
    then: list[UnallocatedStep]
    otherwise: list[UnallocatedStep]


@dataclass(slots=True)
class DraftWhile:
    condition: list[UnallocatedStep]
    test: BufferView
    body: list[UnallocatedStep]


@dataclass(slots=True)
class DraftFor:
    index: BufferView
    start: BufferView
    stop: BufferView
    body: list[UnallocatedStep]


@dataclass(slots=True)
class DraftLocked:
    """The body under the locks of containers of state."""

    containers: tuple[str, ...]
    exclusive: bool
    body: list[UnallocatedStep]


@dataclass(slots=True)
class DraftCopy:
    source: BufferView
    target: BufferView


@dataclass(slots=True)
class DraftCheck:
    condition: BufferView
    fault: int


@dataclass(slots=True)
class DraftMeasure:
    """Gives a size the value of an i64."""

    symbol: Symbol
    source: BufferView
    most: Dim
    fault: int


@dataclass(slots=True)
class DraftHostCall:
    site: int
    inputs: tuple[BufferView, ...]
    outputs: tuple[BufferView, ...]


UnallocatedStep = (
    DraftLaunch | DraftCopy | DraftIf | DraftWhile | DraftFor | DraftLocked | DraftCheck | DraftMeasure | DraftHostCall
)


def inner_blocks(step: UnallocatedStep) -> Sequence[list[UnallocatedStep]]:
    """The lists of steps inside a step, in the order in which they run."""
    match step:
        case DraftIf():
            return (step.then, step.otherwise)
        case DraftWhile():
            return (step.condition, step.body)
        case DraftFor() | DraftLocked():
            return (step.body,)
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
    """The places a step itself uses, without those of inner steps."""
    match step:
        case DraftLaunch():
            return step.views
        case DraftIf() | DraftCheck():
            return (step.condition,)
        case DraftMeasure():
            return (step.source,)
        case DraftWhile():
            return (step.test,)
        case DraftFor():
            return (step.index, step.start, step.stop)
        case DraftCopy():
            return (step.source, step.target)
        case DraftHostCall():
            return (*step.inputs, *step.outputs)
        case DraftLocked():
            return ()
