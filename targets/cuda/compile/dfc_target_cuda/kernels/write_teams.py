"""Which threads work on which outer points of a kernel, and how they bring their partial results together.

A team of `lanes` threads works on one outer point; a block has `points` teams. Teams are neighbouring threads (`rows`:
lanes read neighbours in memory, partial results go through shuffles) or threads far apart (`columns`: neighbouring
threads have neighbouring outer points, partial results go through shared memory). With `splits` several blocks share
the points of one block. All of it is a function of the kernel's shape and the schedule.
"""

from __future__ import annotations

from dataclasses import dataclass

from dfc.ir.dims import ONE, Dim, ceil_divide, dim, floor_divide, maximum, minimum
from dfc_target_cuda.kernels.kernel_text import Schedule
from dfc_target_cuda.kernels.write_reductions import TypedReduction, from_memory, place_type, to_memory
from dfc_target_cuda.kernels.write_text import Lines

_ROW_STEPS, _WARP_STEPS, _COLUMN_STEPS = 8, 16, 4
_SPLIT_ROWS, _SPLIT_COLUMNS = 4 * 4, 16
GROUP = 4
"""Neighbours that a lane takes at once where rows are whole numbers of them."""

Kept = list[tuple[TypedReduction, list[str]]]
"""Folds with the names of what they keep."""


@dataclass(frozen=True, slots=True)
class Team:
    """`lanes` and `points` are powers of two whose product is the size of a block."""

    lanes: int
    points: int
    warp: int
    rows: bool
    splits: Dim = ONE

    @property
    def threads(self) -> int:
        return self.lanes * self.points

    @property
    def has_barriers(self) -> bool:
        """Whether lanes of a team exchange more than shuffles can."""
        return self.lanes > 1 and (not self.rows or self.lanes > self.warp)

    def lane(self) -> str:
        """The number of a thread in its team."""
        if self.rows:
            return f"thread() & {self.lanes - 1}" if self.points > 1 else "thread()"
        return f"thread() >> {self.points.bit_length() - 1}" if self.points > 1 else "thread()"

    def point(self) -> str:
        """The number of a thread's team in its block."""
        if self.rows:
            return f"(thread() >> {self.lanes.bit_length() - 1})"
        return f"(thread() & {self.points - 1})" if self.lanes > 1 else "thread()"


def longest_row(schedule: Schedule) -> int:
    """The longest row that one warp works on."""
    return _WARP_STEPS * schedule.warp


def row_team(length: int | None, schedule: Schedule) -> Team:
    """A team for rows of so many elements (None: known when the kernel runs)."""
    threads, warp = schedule.threads, schedule.warp
    if length is None:
        lanes = threads
    elif length <= longest_row(schedule):
        lanes = min(warp, _power_of_two(-(-length // GROUP)))
    else:
        lanes = min(threads, _power_of_two(-(-length // _ROW_STEPS)))
    return Team(lanes, threads // lanes, warp, rows=True)


def column_team(length: int | None, schedule: Schedule, *, alone: bool) -> Team:
    """A team for columns of so many elements; `alone`: one thread for each."""
    threads, warp = schedule.threads, schedule.warp
    most = threads // warp
    lanes = 1 if alone else most if length is None else min(most, _power_of_two(-(-length // _COLUMN_STEPS)))
    return Team(lanes, threads // lanes, warp, rows=False)


def split_team(team: Team, length: Dim, points: Dim, schedule: Schedule) -> Team:
    """The team with its elements split over blocks, where there are many elements and few points."""
    unit = team.lanes * (_SPLIT_ROWS if team.rows else _SPLIT_COLUMNS)
    known = length.constant
    if known is not None and (known * team.points < schedule.split or known <= unit):
        return team
    tiles = maximum(ceil_divide(points, dim(team.points)), ONE)
    most = maximum(floor_divide(dim(schedule.blocks), tiles), ONE)
    splits = maximum(minimum(ceil_divide(length, dim(unit)), most), ONE)
    return Team(team.lanes, team.points, team.warp, team.rows, splits)


def _power_of_two(count: int) -> int:
    """The smallest that is not below."""
    return 1 << max(0, count - 1).bit_length()


@dataclass(frozen=True, slots=True)
class _Exchange:
    """Partial results in shared memory of `size` elements: who writes (under `condition`) writes to `place`; everyone
    reads `count` of them from `first` on, `step` apart."""

    place: str
    condition: str
    first: str
    step: int
    count: int
    size: int


class TeamFolds:
    """Brings the partial results of a team together: afterwards every lane has the total."""

    def __init__(self, team: Team, lines: Lines) -> None:
        self.team, self.lines = team, lines
        self.shared: list[str] = []

    def total(self, kept: Kept) -> None:
        team = self.team
        if team.lanes == 1:
            return
        if not team.rows:
            every = _Exchange("thread()", "", team.point(), team.points, team.lanes, team.threads)
            return self._through_memory(kept, every)
        for fold, names in kept:
            fold.exchange(self.lines, names, min(team.lanes, team.warp) // 2)
        warps = team.lanes // team.warp
        if warps > 1:
            self._warps(kept, warps)
        return None

    def _warps(self, kept: Kept, warps: int) -> None:
        """The totals of the warps of a team, in order."""
        team = self.team
        mine = f"(thread() >> {team.warp.bit_length() - 1})"
        first = f"{team.point()} * {warps}" if team.points > 1 else "0"
        one_lane = f"(thread() & {team.warp - 1}) == 0"
        self._through_memory(kept, _Exchange(mine, one_lane, first, 1, warps, team.threads // team.warp))

    def _through_memory(self, kept: Kept, exchange: _Exchange) -> None:
        """Everyone folds partial results in order."""
        lines = self.lines
        places = [[self._memory(place_type(t), exchange.size) for t in fold.types] for fold, _ in kept]
        with lines.guarded(exchange.condition):
            for memory, (fold, names) in zip(places, kept, strict=True):
                for one, name, dtype in zip(memory, names, fold.types, strict=True):
                    lines.add(f"{one}[{exchange.place}] = {to_memory(name, dtype)}")
        lines.add("barrier()")
        at = lines.let(exchange.first, "at")
        for memory, (fold, names) in zip(places, kept, strict=True):
            for one, name, dtype in zip(memory, names, fold.types, strict=True):
                lines.add(f"{name} = {from_memory(f'{one}[{at}]', dtype)}")
        with lines.block(f"for _ in range({exchange.count - 1})"):
            lines.add(f"{at} = {at} + {exchange.step}")
            for memory, (fold, names) in zip(places, kept, strict=True):
                pairs = zip(memory, fold.types, strict=True)
                fold.step(lines, names, [lines.let(from_memory(f"{one}[{at}]", t), "other") for one, t in pairs])

    def _memory(self, kind: str, count: int) -> str:
        name = self.lines.name("shared")
        self.shared.append(f"{name} = shared_{kind}({count})")
        return name


def barrier_of(team: Team) -> str:
    """What makes a team's stores visible to all its lanes; nothing for a team of one."""
    if team.lanes == 1:
        return ""
    return "barrier()" if team.has_barriers else "warp_barrier()"
