"""Which threads work on which outer points of a kernel.

A team of `workers` times `lanes` threads works on one outer point; a block of threads has `points` teams. A worker
takes one block of the order of `dfc.kernels.orders.reduction` at a time; its lanes, which are neighbouring threads of a
warp, have the accumulators of that order between them (`rows`: lanes read neighbours in memory), or it is one thread
with one accumulator (`columns`: neighbouring threads have neighbouring outer points). With `splits` several blocks of
threads share the parts of an outer point. None of it changes a bit: the order says what is combined with what.
"""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, Dim, ceil_divide, dim, floor_divide, maximum, minimum
from dfc.kernels.orders.reduction import StageOrder
from dfc.lower.threads.schedule import Schedule

_ELEMENTS = 4
"""Of a short row that a lane has, at least."""


@dataclass(frozen=True, slots=True)
class Team:
    """`lanes`, `workers` and `points` are powers of two whose product is the number of threads of a block."""

    lanes: int
    workers: int
    points: int
    warp: int
    rows: bool
    splits: Dim = ONE

    @property
    def threads(self) -> int:
        return self.lanes * self.workers * self.points

    @property
    def members(self) -> int:
        return self.lanes * self.workers

    @property
    def has_barriers(self) -> bool:
        """Whether its threads exchange more than shuffles can."""
        return self.workers > 1 or self.lanes > self.warp or self.splits != ONE


def row_team(orders: list[StageOrder], schedule: Schedule, *, short: bool) -> Team:
    """A team for rows; `short`: each stage is surely one block."""
    length = _longest([one.row for one in orders])
    lanes = schedule.warp if length is None else min(schedule.warp, power_of_two(-(-length // _ELEMENTS)))
    most = schedule.threads // schedule.warp
    workers = 1 if short else _workers(orders, most)
    return Team(lanes, workers, schedule.threads // (lanes * workers), schedule.warp, rows=True)


def column_team(orders: list[StageOrder], schedule: Schedule, *, alone: bool) -> Team:
    """A team for columns; `alone`: one thread for each."""
    workers = 1 if alone else _workers(orders, schedule.threads // schedule.warp)
    return Team(1, workers, schedule.threads // workers, schedule.warp, rows=False)


def _workers(orders: list[StageOrder], most: int) -> int:
    blocks = _longest([ceil_divide(one.first, one.block) for one in orders])
    return most if blocks is None else min(most, power_of_two(blocks))


def _longest(lengths: list[Dim]) -> int | None:
    known = [one.constant for one in lengths]
    return None if None in known else max([n for n in known if n is not None], default=1)


def split_team(team: Team, order: StageOrder, points: Dim, schedule: Schedule) -> Team:
    """The team with its parts shared by blocks of threads, where there are several and few points."""
    if not order.has_parts:
        return team
    tiles = maximum(ceil_divide(points, dim(team.points)), ONE)
    most = maximum(floor_divide(dim(schedule.blocks), tiles), ONE)
    splits = maximum(minimum(order.parts, most), ONE)
    return Team(team.lanes, team.workers, team.points, team.warp, team.rows, splits)


def power_of_two(count: int) -> int:
    """The smallest that is not below."""
    return 1 << max(0, count - 1).bit_length()
