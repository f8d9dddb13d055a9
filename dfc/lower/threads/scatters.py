"""Layouts of scatters: rows of the result have owners, blocks of threads that do all points of theirs in order.

Pure analysis. Guarantees that each element has its terms in the order of the points, whatever the number of blocks.
"""

from __future__ import annotations

from dfc.ir.dims import ONE, ZERO, Dim, ceil_divide, dim, maximum, minimum, product
from dfc.kernels.access import Access, kernel_access
from dfc.kernels.axes import Merging
from dfc.kernels.body import Load
from dfc.kernels.form import LoopKernel
from dfc.kernels.levels import varying
from dfc.lower.threads.schedule import Geometry, Schedule
from dfc.lower.threads.wide import fastest_last


def is_scatter(kernel: LoopKernel) -> bool:
    """Whether rows have owners: one stage, whose stores go through computed indices that the outer axes do not change,
    to operands that are not loaded, all to the same rows."""
    if not kernel.ordered or len(kernel.stages) != 1 or not kernel.stages[0].stores:
        return False
    stage, access = kernel.stages[0], kernel_access(kernel)[0]
    loaded = {one.operation.operand for one in stage.body if isinstance(one.operation, Load)}
    varies = varying(stage.body, access, range(kernel.outer), reduced=False, accumulated=True)
    first = access.stores[0]
    return (
        not stage.reductions
        and bool(first.lookups)
        and not any(varies[lookup.instruction] for lookup in first.lookups)
        and all(one.operand not in loaded and one.lookups == first.lookups for one in access.stores)
    )


class ScatterLayout:
    """Outer points (`outer` axes) are spread over threads in `tiles`, rows over `owners`; each walks over all inner
    points (`inner` axes). `rows` is the access that says which row a point goes to."""

    workspace = ZERO

    def __init__(self, kernel: LoopKernel, schedule: Schedule) -> None:
        self.kernel, self.schedule, self.stage = kernel, schedule, kernel.stages[0]
        access = kernel_access(kernel)
        self.access = access[0]
        merging = Merging(kernel, access)
        self.extents = [axis.extent for axis in kernel.axes]
        outer = merging.merge(range(kernel.outer), access, self.extents)
        self.outer = fastest_last(outer, [(self.stage.body, self.access)])
        self.inner = merging.merge(self.stage.axes, access, self.extents)
        self.points: Dim = product(self.extents[axis] for axis in outer)
        self.length: Dim = product(self.extents[axis] for axis in self.inner)
        self.rows: Access = self.access.stores[0]
        rows = product(lookup.extent for lookup in self.rows.lookups)
        self.owners = maximum(minimum(rows, dim(schedule.blocks)), ONE)
        self.tiles = ceil_divide(self.points, dim(schedule.threads))

    @property
    def geometry(self) -> Geometry:
        return Geometry(self.owners * self.tiles, 1, self.schedule.threads, self.schedule.blocks)
