"""Layouts of kernels whose points are by themselves: threads that stride over them, or tiles that are turned.

Pure analysis. Guarantees accesses of `Schedule.vector_bytes` where every operand is contiguous or constant along the
innermost axis and its starts are multiples of the group: known while compiling, or asked when the kernel runs where
sizes decide it.
"""

from __future__ import annotations

from dfc.ir.dims import ONE, ZERO, Dim, ceil_divide, dim, product
from dfc.kernels.access import Access, StageAccess, kernel_access
from dfc.kernels.axes import Merging, all_outer
from dfc.kernels.body import Instruction
from dfc.kernels.form import LoopKernel
from dfc.lower.threads.schedule import Geometry, Schedule
from dfc.lower.threads.wide import NARROW, Wide, fastest_last, find_wide, is_small

_BLOCKS = 8


def is_map(kernel: LoopKernel) -> bool:
    """Whether every point is by itself."""
    if kernel.ordered or len(kernel.stages) != 1 or kernel.stages[0].reductions:
        return False
    return all_outer(kernel).outer == len(kernel.axes)


class MapLayout:
    """Each thread over one element or a group of neighbours (`wide`) along the last of `axes`."""

    workspace = ZERO

    def __init__(self, kernel: LoopKernel, schedule: Schedule) -> None:
        self.kernel = kernel = all_outer(kernel)
        self.schedule = schedule
        access = kernel_access(kernel)
        self.extents = [axis.extent for axis in kernel.axes]
        axes = Merging(kernel, access).merge(range(kernel.outer), access, self.extents)
        self.body: tuple[Instruction, ...] = kernel.stages[0].body
        self.access: StageAccess = access[0]
        self.axes = fastest_last(axes, [(self.body, self.access)])
        self.points = product(self.extents[axis] for axis in axes)
        self.small = is_small([self.points])
        self.wide = self._wide()

    def _wide(self) -> Wide:
        if not self.axes:
            return NARROW
        last = self.axes[-1]
        divided = [self.extents[last]] if len(self.axes) > 1 else []
        wide = find_wide(self.kernel, [(self.body, self.access)], last, divided, self.schedule.vector_bytes)
        count = self.points.constant
        return NARROW if count is not None and count < wide.lanes else wide

    @property
    def groups(self) -> Dim:
        """Whole groups; what is left over has fewer elements than one."""
        return self.points // self.wide.lanes

    @property
    def geometry(self) -> Geometry:
        threads = self.schedule.threads
        return Geometry(ceil_divide(self.points, dim(self.wide.lanes)), threads, threads, self.schedule.blocks)


class TransposeLayout:
    """Squares of two axes: `along`, the fastest of a map, and `across`, along which the loads `staged` are neighbours;
    they go through shared memory, `side` elements each way and `rows` of them at a time."""

    workspace = ZERO

    def __init__(self, layout: MapLayout, axis: int) -> None:
        self.map, self.schedule = layout, layout.schedule
        self.across, self.along = axis, layout.axes[-1]
        self.rest = tuple(other for other in layout.axes if other not in (axis, self.along))
        self.staged = {n: one for n, one in layout.access.loads.items() if _crosses(layout, one, axis)}
        self.side = self.schedule.warp
        self.rows = self.schedule.threads // self.schedule.warp
        self.tiles = [ceil_divide(layout.extents[one], dim(self.side)) for one in (self.along, self.across)]
        self.items = product([*self.tiles, *(layout.extents[other] for other in self.rest)])

    @property
    def geometry(self) -> Geometry:
        return Geometry(self.items, 1, self.schedule.threads, self.schedule.blocks * _BLOCKS)


def map_layout(kernel: LoopKernel, schedule: Schedule) -> MapLayout | TransposeLayout:
    """Tiles where loads are neighbours along another axis than the fastest one."""
    layout = MapLayout(kernel, schedule)
    axis = _crossing_axis(layout, schedule)
    return layout if axis is None else TransposeLayout(layout, axis)


def _crossing_axis(layout: MapLayout, schedule: Schedule) -> int | None:
    """The axis along which loads are neighbours that are not along the fastest one, if there are such loads."""
    fits = schedule.threads <= schedule.warp * schedule.warp
    if not fits or len(layout.axes) < 2 or _is_tiny(layout.extents[layout.axes[-1]], schedule):
        return None
    for access in layout.access.loads.values():
        for axis in layout.axes[:-1]:
            if _crosses(layout, access, axis) and not _is_tiny(layout.extents[axis], schedule):
                return axis
    return None


def _is_tiny(extent: Dim, schedule: Schedule) -> bool:
    known = extent.constant
    return known is not None and known < schedule.warp // 4


def _crosses(layout: MapLayout, access: Access, axis: int) -> bool:
    written = any(store.operand == access.operand for store in layout.access.stores)
    across = access.coefficients[layout.axes[-1]] not in (ZERO, ONE, dim(-1))
    return across and access.coefficients[axis] == ONE and not (written or access.lookups or access.bounds)
