"""The tree of a reduction: in which order a loop kernel combines values. Part of what a kernel means, on every machine.

A stage takes its inner points along `axes`, outermost first; the last of them is its *row*.

    total        = the parts, combined in order
    part         = the blocks in it, each accumulator by itself, in order; then the accumulators, halves on halves:
                   number i with number i + n/2, then of those that are left i with i + n/4, .. until there is one
    block        = `accumulators` running values; the point j of a row goes to number j modulo `accumulators`,
                   each number takes its points in order

Blocks and parts are split along the first axis, every `block` and every `part` points; both start at 0, and a part is a
whole number of blocks. Every running value begins as the neutral element, and of two that are combined the earlier one
is the first operand.

A kernel is done by *rows*, where neighbours along the row are neighbours in memory: then there are 64 accumulators,
which are lanes of vectors of a processor, or threads of a warp. Or it is done by *columns*, where neighbouring outer
points are: then each of them has one accumulator, and blocks are short, so that several threads may share a column.
So are rows of a few elements, wherever they lie: they would leave lanes empty.
Blocks bound how long one chain of additions is; parts are what threads of a processor, or blocks of a GPU, have to
themselves. There are at most 1024 of these, of 8192 points at least (1024 in columns).

Assumes a well-formed kernel. Guarantees an order that is a function of the kernel alone: not of a machine, a number of
threads, or what a stage is fused with beyond the choice of rows or columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, Dim, ceil_divide, dim, maximum, product
from dfc.kernels.access import StageAccess, kernel_access
from dfc.kernels.axes import Merging, misfits
from dfc.kernels.form import LoopKernel, Stage

ACCUMULATORS = 64
_ROW_BLOCK, _COLUMN_BLOCK = 512, 64
_LEAST_BLOCKS = 16
MOST_PARTS = 1024
"""Of one reduction, one after the other."""
_FEW = 4


@dataclass(frozen=True, slots=True)
class StageOrder:
    """One stage: its inner axes in loop order (merged ones gone: `extents` are its own), and where it is split."""

    stage: Stage
    access: StageAccess
    axes: tuple[int, ...]
    extents: tuple[Dim, ...]
    accumulators: int
    block: Dim
    part: Dim

    @property
    def points(self) -> Dim:
        """How many inner points there are."""
        return product(self.extents[axis] for axis in self.axes)

    @property
    def first(self) -> Dim:
        """The extent that blocks and parts are split along."""
        return self.extents[self.axes[0]] if self.axes else ONE

    @property
    def row(self) -> Dim:
        return self.extents[self.axes[-1]] if self.axes else ONE

    @property
    def has_blocks(self) -> bool:
        """Whether there may be more than one block."""
        return not _is_within(self.first, self.block)

    @property
    def has_parts(self) -> bool:
        return not _is_within(self.first, self.part)

    @property
    def parts(self) -> Dim:
        """How many there are."""
        return ceil_divide(self.first, self.part) if self.has_parts else ONE


@dataclass(frozen=True, slots=True)
class KernelOrder:
    """A kernel: `outer` axes, merged; `extents` are those of everything outside of stages."""

    kernel: LoopKernel
    extents: tuple[Dim, ...]
    outer: tuple[int, ...]
    by_rows: bool
    stages: tuple[StageOrder, ...]

    @property
    def access(self) -> list[StageAccess]:
        return [stage.access for stage in self.stages]

    @property
    def points(self) -> Dim:
        """How many outer points there are."""
        return product(self.extents[axis] for axis in self.outer)

    def outer_misfit(self, axis: int) -> int:
        """How badly neighbours along an outer axis suit memory, and vectors."""
        extent = self.extents[axis].constant
        badness = (misfits(one.stage.body, one.access, axis, reduced_vary=True) for one in self.stages)
        return sum(badness) + (extent is not None and extent < _FEW)


def kernel_order(kernel: LoopKernel) -> KernelOrder:
    """The order of a kernel."""
    access = kernel_access(kernel)
    merging = Merging(kernel, access)
    extents = [axis.extent for axis in kernel.axes]
    outer = merging.merge(tuple(range(kernel.outer)), access, extents)
    stages: list[StageOrder] = []
    for stage, one in zip(kernel.stages, access, strict=True):
        own = list(extents)
        axes = merging.merge(stage.axes, [one], own)
        stages.append(StageOrder(stage, one, axes, tuple(own), 1, ONE, ONE))
    whole = KernelOrder(kernel, tuple(extents), outer, False, tuple(stages))
    by_rows = _is_by_rows(whole)
    split = tuple(_by_row(one) if by_rows else _in_blocks(one, one.axes, 1, _COLUMN_BLOCK) for one in stages)
    return KernelOrder(kernel, tuple(extents), outer, by_rows, split)


def _is_by_rows(order: KernelOrder) -> bool:
    """Whether lanes along an inner axis of each stage suit memory at least as well as lanes along an outer one."""
    if order.kernel.ordered:
        return False
    if not order.outer:
        return True
    if not any(stage.axes for stage in order.stages):
        return False
    if _has_short_rows(order):
        return False
    rows = sum(min((_misfit(stage, axis) for axis in stage.axes), default=0) for stage in order.stages)
    return rows <= min(order.outer_misfit(axis) for axis in order.outer)


def _has_short_rows(order: KernelOrder) -> bool:
    """Whether all rows have a few elements. Where these lie does not count: what else is in the kernel may read other
    memory, and is elsewhere if the program is cut in another way."""
    lengths = [one.points.constant for one in order.stages if one.axes]
    return bool(order.outer) and all(length is not None and length <= _FEW for length in lengths)


def _misfit(one: StageOrder, axis: int) -> int:
    return misfits(one.stage.body, one.access, axis)


def _by_row(one: StageOrder) -> StageOrder:
    """Of several axes the one that suits memory best is the row; of equal ones the last."""
    if not one.axes:
        return _in_blocks(one, (), ACCUMULATORS, _ROW_BLOCK)
    best = min(one.axes, key=lambda axis: (_misfit(one, axis), -one.axes.index(axis)))
    axes = (*(axis for axis in one.axes if axis != best), best)
    return _in_blocks(one, axes, ACCUMULATORS, _ROW_BLOCK)


def _in_blocks(one: StageOrder, axes: Sequence[int], accumulators: int, points: int) -> StageOrder:
    """With blocks of so many points, or a few more where each index of the first axis has many."""
    rest = product(one.extents[axis] for axis in axes[1:])
    first = one.extents[axes[0]] if axes else ONE
    block = ceil_divide(dim(points), maximum(rest, ONE))
    part = block * maximum(ceil_divide(first, block * MOST_PARTS), dim(_LEAST_BLOCKS))
    return StageOrder(one.stage, one.access, tuple(axes), one.extents, accumulators, block, part)


def _is_within(first: Dim, size: Dim) -> bool:
    """Whether one piece of this size surely holds all."""
    return first.constant is not None and size.constant is not None and first.constant <= size.constant
