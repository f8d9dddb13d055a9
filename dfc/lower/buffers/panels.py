"""Panels of row blocks share memory: what a step writes may lie over what it reads for the last time, at the same
point, and over what nobody reads any more.

Before: row blocks with panels for scores, exponentials and probabilities.
After: row blocks with one panel.

Assumes a kernel of fusion, whose panels are written by one step each. Guarantees the same rules as `inplace`: no step
has two slots that overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.form import ContractKernel, LoopKernel, RowBlockKernel, RowStep
from dfc.kernels.row_blocks import RowKernel
from dfc.kernels.slots import merged
from dfc.lower.buffers.inplace import same_points


@dataclass(slots=True)
class _Panel:
    """The steps that write and read a panel first and last."""

    first: int
    last: int


def with_shared_panels(kernel: RowBlockKernel) -> RowBlockKernel:
    """The kernel with as few panels as that makes."""
    steps = list(kernel.steps)
    for number, step in enumerate(steps):
        pair = _pair(kernel, steps, number)
        while pair is not None:
            old, new = pair
            before, after = step.operands[old], step.operands[new]
            own, operands = merged(step.kernel, step.operands, old, new)
            assert isinstance(own, LoopKernel | ContractKernel)
            steps[number] = step = RowStep(own, tuple(before if n == after else n for n in operands), step.rows)
            steps[number + 1 :] = [_renamed(later, {after: before}) for later in steps[number + 1 :]]
            pair = _pair(kernel, steps, number)
    return _reused(kernel, steps)


def _pair(kernel: RowBlockKernel, steps: Sequence[RowStep], number: int) -> tuple[int, int] | None:
    """Slots of a step: one of a panel that is read here for the last time, and one of a panel that is first written."""
    step = steps[number]
    panels = _panels(kernel, steps)
    own = step.kernel
    for old, dying in enumerate(step.operands):
        if dying not in panels or panels[dying].last != number or own.operands[old].access == "write":
            continue
        for new, born in enumerate(step.operands):
            if born not in panels or panels[born].first != number or own.operands[new].access == "read":
                continue
            fits = (
                own.operands[old].dtype == own.operands[new].dtype
                and own.operands[old].shape == own.operands[new].shape
            )
            if fits and step.operands.count(dying) == 1 and _is_behind(own, old, new) and same_points(own, old, new):
                return old, new
    return None


def _is_behind(kernel: RowKernel, old: int, new: int) -> bool:
    """Whether nothing is stored to `old` any more when `new` is written."""
    if isinstance(kernel, ContractKernel):
        return all(store.operand != old for store in kernel.stores)
    stored = [[store.operand for store in stage.stores] for stage in kernel.stages]
    first = next(number for number, operands in enumerate(stored) if new in operands)
    return all(old not in operands for operands in stored[first:])


def _panels(kernel: RowBlockKernel, steps: Sequence[RowStep]) -> dict[int, _Panel]:
    panels: dict[int, _Panel] = {}
    for number, step in enumerate(steps):
        for operand in step.operands:
            if operand >= len(kernel.operands):
                panels.setdefault(operand, _Panel(number, number)).last = number
    return panels


def _reused(kernel: RowBlockKernel, steps: Sequence[RowStep]) -> RowBlockKernel:
    """Panels of one shape and type whose lives do not meet are one; those that are left are numbered anew."""
    lives = _panels(kernel, steps)
    bound = len(kernel.operands)
    slots: list[int] = []  # the panel that lies there last
    chosen: dict[int, int] = {}
    for panel in sorted(lives, key=lambda number: lives[number].first):
        kind = kernel.panels[panel - bound]
        free = (
            n
            for n, other in enumerate(slots)
            if lives[other].last < lives[panel].first and kernel.panels[other - bound] == kind
        )
        slot = next(free, len(slots))
        if slot == len(slots):
            slots.append(panel)
        slots[slot] = panel
        chosen[panel] = bound + slot
    panels = tuple(kernel.panels[panel - bound] for panel in slots)
    return replace(kernel, steps=tuple(_renamed(step, chosen) for step in steps), panels=panels)


def _renamed(step: RowStep, numbers: dict[int, int]) -> RowStep:
    return replace(step, operands=tuple(numbers.get(number, number) for number in step.operands))
