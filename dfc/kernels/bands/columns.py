"""The columns of a row-block kernel: which axis of each step runs along them, and which panels have them.

    scores[.., row, n] -> softmax over its axis -> the depth k of the weighted sum: all three are the columns

Panels may share memory, so what counts is a panel as one step has written it: a version. Assumes that steps read panels
that steps before them have written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.body import Affine, Index, Load
from dfc.kernels.form import ContractKernel, RowBlockKernel, RowStep

Version = tuple[int, int]
"""A panel and the step that wrote it."""


@dataclass(frozen=True, slots=True)
class StepPanels:
    """The panels of a step by slot: the version that it reads, the one that it leaves; the axis that runs along each
    in the last place of its index (None: no axis as it is, or not the same one everywhere)."""

    reads: Mapping[int, Version]
    writes: Mapping[int, Version]
    along: Mapping[int, int | None]

    @property
    def versions(self) -> Iterator[tuple[int, Version]]:
        yield from self.reads.items()
        yield from self.writes.items()


def step_panels(kernel: RowBlockKernel) -> list[StepPanels]:
    """Those panels of each step that have more than one element a row."""
    leading, bound = len(kernel.axes), len(kernel.operands)
    latest: dict[int, Version] = {}
    result: list[StepPanels] = []
    for number, step in enumerate(kernel.steps):
        slots = {
            slot: panel
            for slot, panel in enumerate(step.operands)
            if panel >= bound and len(kernel.panels[panel - bound].shape) > leading
        }
        access = {slot: step.kernel.operands[slot].access for slot in slots}
        reads = {slot: latest[panel] for slot, panel in slots.items() if access[slot] != "write" and panel in latest}
        writes = {slot: (panel, number) for slot, panel in slots.items() if access[slot] != "read"}
        latest.update((panel, (panel, number)) for slot, panel in slots.items() if slot in writes)
        along = {slot: _axis_along(step, slot, leading) for slot in slots}
        result.append(StepPanels(reads, writes, along))
    return result


def _axis_along(step: RowStep, slot: int, leading: int) -> int | None:
    """The axis of the last index of a panel whose index is (batch.., row, axis) wherever it is touched."""
    axes: set[int | None] = set()
    for index in _indices(step, slot):
        axes.add(_plain_axis(index[-1]) if len(index) == leading + 1 else None)
    return next(iter(axes)) if len(axes) == 1 else None


def _plain_axis(index: Index) -> int | None:
    """The axis that an index is."""
    if not isinstance(index, Affine) or len(index.terms) != 1:
        return None
    axis = index.terms[0][0]
    return axis if index == Affine(((axis, 1),)) else None


def _indices(step: RowStep, slot: int) -> Iterator[Sequence[Index]]:
    kernel = step.kernel
    if isinstance(kernel, ContractKernel):
        yield from (factor.index for factor in (kernel.a, kernel.b) if factor.operand == slot)
        bodies = [(kernel.epilogue, kernel.stores)]
    else:
        bodies = [(stage.body, stage.stores) for stage in kernel.stages]
    for body, stores in bodies:
        loads = (one.operation for one in body if isinstance(one.operation, Load))
        yield from (load.index for load in loads if load.operand == slot)
        yield from (store.index for store in stores if store.operand == slot)


def column_axes(panels: Sequence[StepPanels], step: int, axis: int) -> dict[int, int] | None:
    """The axis of columns of each step that has one, if it is this axis of this step; None if a panel is touched along
    more than one axis."""
    axes = {step: axis}
    versions: set[Version] = set()
    while True:
        before = len(axes), len(versions)
        for number, one in enumerate(panels):
            mine = [version for slot, version in one.versions if number in axes and one.along[slot] == axes[number]]
            versions.update(mine)
            for slot, version in one.versions:
                if version in versions:
                    along = one.along[slot]
                    if along is None or axes.setdefault(number, along) != along:
                        return None
        if (len(axes), len(versions)) == before:
            return axes
