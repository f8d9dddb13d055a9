"""Layouts of prefix sums, products and extremes: a team for a row, or a thread for a column.

Pure analysis. Guarantees a layout for the order of `dfc.kernels.orders.scan`: a row whose elements are neighbours is
done by a team, a segment to each of its warps; otherwise a thread goes down a column.
"""

from __future__ import annotations

from dfc.ir.dims import ZERO, Dim, ceil_divide, dim, product
from dfc.kernels.orders.scan import SEGMENT, ScanOrder
from dfc.lower.threads.schedule import Geometry, Schedule
from dfc.lower.threads.teams import Team, power_of_two
from dfc.lower.threads.wide import fastest_last

_BLOCKS, _STEPS = 8, 8


class ScanLayout:
    """`copies`: elements that a lane has of a segment."""

    workspace = ZERO

    def __init__(self, order: ScanOrder, schedule: Schedule) -> None:
        self.order, self.schedule = order, schedule
        self.outer = order.outer
        if not order.by_rows:
            self.outer = fastest_last(order.outer, [(order.kernel.stages[0].body, order.access)])
        self.points: Dim = product(order.extents[axis] for axis in self.outer)
        self.team = self._team()
        self.copies = SEGMENT // self.team.warp
        self.tiles = ceil_divide(self.points, dim(self.team.points))

    def _team(self) -> Team:
        """A thread to a column; at least a warp to a row."""
        threads, warp, length = self.schedule.threads, self.schedule.warp, self.order.length.constant
        if not self.order.by_rows:
            return Team(1, 1, threads, warp, rows=False)
        lanes = threads if length is None else min(threads, max(warp, power_of_two(-(-length // _STEPS))))
        return Team(lanes, 1, threads // lanes, warp, rows=True)

    @property
    def geometry(self) -> Geometry:
        return Geometry(self.tiles, 1, self.team.threads, self.schedule.blocks * _BLOCKS)
