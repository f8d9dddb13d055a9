"""Launches that only copy: every element of the target is one of the source, or zero outside of it.

Windows of an image, the zeros around it, zeros between elements, turned and transposed weights are such copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dfc.ir.dims import ONE, ZERO
from dfc.kernels.body import Affine, Index, Instruction, Load, Number
from dfc.kernels.form import LoopKernel, Stage
from dfc.lower.fuse.places import Place
from dfc.lower.schedule.draft import DraftLaunch

NO_AXIS = -1


@dataclass(frozen=True, slots=True)
class Copied:
    """Element `stored` (for each axis of the target an axis of the kernel, none where the extent is 1) comes from the
    index `loaded` of the source. `interiors` says for each masked axis of the source of what the index is a multiple:
    elsewhere, and outside, there are zeros."""

    source: Place
    target: Place
    stored: tuple[int, ...]
    loaded: tuple[Affine, ...]
    interiors: Mapping[int, int]


def copied(launch: DraftLaunch) -> Copied | None:
    """The launch as a copy of all of its target, if it is one."""
    kernel = launch.kernel
    if not isinstance(kernel, LoopKernel) or kernel.ordered or len(kernel.stages) != 1:
        return None
    (stage,) = kernel.stages
    load = _loaded(stage)
    if load is None or kernel.outer != len(kernel.axes):
        return None
    source, target = launch.places[load.operand], launch.places[stage.stores[0].operand]
    stored = _stored(kernel, stage.stores[0].index, target)
    index = tuple(one for one in load.index if isinstance(one, Affine))
    if stored is None or len(index) != len(load.index) or source.dtype != target.dtype:
        return None
    return Copied(source, target, stored, index, dict(load.mask.indices) if load.mask is not None else {})


def _loaded(stage: Stage) -> Load | None:
    """What the only store writes, if that is what a load gives, or zero."""
    if stage.axes or stage.reductions or len(stage.stores) != 1 or stage.stores[0].combine:
        return None
    load = stage.body[stage.stores[0].value].operation
    if not isinstance(load, Load):
        return None
    return load if load.mask is None or is_zero(stage.body[load.mask.otherwise]) else None


def is_zero(one: Instruction) -> bool:
    return isinstance(one.operation, Number) and not any(one.operation.bits)


def _stored(kernel: LoopKernel, index: tuple[Index, ...], target: Place) -> tuple[int, ...] | None:
    """The axis of the kernel along each axis of the target; None unless all of it is written."""
    found: list[int] = []
    for one, extent in zip(index, target.shape, strict=True):
        if not isinstance(one, Affine) or one.offset != ZERO:
            return None
        if not one.terms and extent == ONE:
            found.append(NO_AXIS)
            continue
        if len(one.terms) != 1 or one.terms[0][1] != 1 or kernel.axes[one.terms[0][0]].extent != extent:
            return None
        found.append(one.terms[0][0])
    axes = [axis for axis in found if axis != NO_AXIS]
    rest = set(range(len(kernel.axes))) - set(axes)
    whole = len(set(axes)) == len(axes) and all(kernel.axes[axis].extent == ONE for axis in rest)
    return tuple(found) if whole else None
