"""Which threads work on which outer points of a kernel, and how they bring their running values together.

A team of `workers` times `lanes` threads works on one outer point; a block of threads has `points` teams. A worker
takes one block of the order of `dfc.kernels.reduction_order` at a time; its lanes, which are neighbouring threads of a
warp, have the accumulators of that order between them (`rows`: lanes read neighbours in memory), or it is one thread
with one accumulator (`columns`: neighbouring threads have neighbouring outer points). With `splits` several blocks of
threads share the parts of an outer point. None of it changes a bit: the order says what is combined with what.
"""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, Dim, ceil_divide, dim, floor_divide, maximum, minimum
from dfc.kernels.reduction_order import StageOrder
from dfc_target_cuda.kernels.kernel_text import Schedule
from dfc_target_cuda.kernels.write_reductions import TypedReduction, from_memory, storage_type, to_memory
from dfc_target_cuda.kernels.write_text import Lines
from dfc_target_cuda.kernels.write_types import computing_type

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

    def lane(self) -> str:
        """The number of a thread in its worker."""
        return "0" if self.lanes == 1 else f"thread() & {self.lanes - 1}" if self.threads > self.lanes else "thread()"

    def worker(self) -> str:
        """That of its worker in the team."""
        if self.workers == 1:
            return "0"
        number = f"thread() >> {((self.lanes if self.rows else self.points) - 1).bit_length()}"
        return f"({number}) & {self.workers - 1}" if self.rows and self.points > 1 else number

    def alone(self) -> list[str]:
        """What holds for one thread of a team only."""
        return [f"{name} == 0" for name, count in (("lane", self.lanes), ("worker", self.workers)) if count > 1]

    def point(self) -> str:
        """That of its team in the block."""
        if self.rows:
            return f"(thread() >> {self.members.bit_length() - 1})"
        return f"(thread() & {self.points - 1})" if self.members > 1 else "thread()"

    def member(self, number: str) -> str:
        """The thread with this number in the team, as its number in the block."""
        if self.rows:
            return f"{self.point()} * {self.members} + {number}" if self.points > 1 else number
        return f"{number} * {self.points} + {self.point()}" if self.points > 1 else number


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


@dataclass(frozen=True, slots=True)
class Running:
    """The running values of one reduction in a lane: `copies` of what it keeps (a value; of a search its index, too),
    of which `group` lie side by side in the order of accumulators."""

    fold: TypedReduction
    copies: list[list[str]]
    group: int

    @property
    def names(self) -> list[str]:
        """Of the first, which has the total in the end."""
        return self.copies[0]

    def clear(self, lines: Lines) -> None:
        for names in self.copies:
            for name, value in zip(names, self.fold.identity(), strict=True):
                lines.add(f"{name} = {value}")

    def add_all(self, lines: Lines, later: Running) -> None:
        for kept, new in zip(self.copies, later.copies, strict=True):
            self.fold.step(lines, kept, new)


def begin_running(lines: Lines, fold: TypedReduction, copies: int, group: int) -> Running:
    """With nothing combined yet."""
    named = [[lines.let(value, "kept") for value in fold.identity()] for _ in range(copies)]
    return Running(fold, named, group)


class TeamFolds:
    """Brings the running values of a team together: afterwards every thread of it has them."""

    def __init__(self, team: Team, lines: Lines) -> None:
        self.team, self.lines = team, lines
        self.shared: list[str] = []

    def halves(self, running: list[Running]) -> None:
        """The accumulators of a worker as one, halves on halves: those in a lane that are far apart, then lanes, then
        neighbours in a lane."""
        lines, team = self.lines, self.team
        for one in running:
            copies = one.copies
            while len(copies) > one.group:
                half = len(copies) // 2
                for kept, new in zip(copies[:half], copies[half:], strict=True):
                    one.fold.step(lines, kept, new)
                copies = copies[:half]
            if team.lanes > 1:
                for names in copies:
                    one.fold.exchange(lines, names, team.lanes // 2)
            if one.group > 1:
                one.fold.step(lines, copies[0], copies[1])
            if team.lanes > 1 and one.fold.has_sides:
                kind, first = computing_type(one.fold.dtype), team.warp - team.lanes
                source = f"thread() & {first}" if first else "0"
                lines.add(f"{one.names[0]} = shuffle_{kind}({one.names[0]}, {source})")

    def add_blocks(self, totals: list[Running], blocks: list[Running]) -> None:
        """What each worker has of its block goes to the totals, in the order of workers."""
        if self.team.workers == 1:
            for total, one in zip(totals, blocks, strict=True):
                total.add_all(self.lines, one)
            return
        lines, step = self.lines, self.team.lanes
        shared = [[self._hand_in(names, one.fold) for names in one.copies] for one in blocks]
        lines.add("barrier()")
        number = lines.let("lane" if self.team.lanes > 1 else "0", "member")
        with lines.block(f"while {number} < {self.team.workers * step}"):
            at = lines.let(self.team.member(number), "at")
            for total, memory in zip(totals, shared, strict=True):
                for kept, one in zip(total.copies, memory, strict=True):
                    self._take(total.fold, kept, one, at)
            lines.add(f"{number} = {number} + {step}")
        lines.add("barrier()")

    def add_members(self, totals: list[Running], values: list[list[str]]) -> None:
        """A value of each thread of the team goes to the totals, in their order."""
        lines = self.lines
        shared = [self._hand_in(names, total.fold) for total, names in zip(totals, values, strict=True)]
        lines.add("barrier()")
        with lines.counted(str(self.team.members), "member") as number:
            at = lines.let(self.team.member(number), "at")
            for total, memory in zip(totals, shared, strict=True):
                self._take(total.fold, total.names, memory, at)
        lines.add("barrier()")

    def _hand_in(self, names: list[str], fold: TypedReduction) -> list[str]:
        """A thread's values in shared memory."""
        memories: list[str] = []
        for name, dtype in zip(names, fold.types, strict=True):
            memory = self.lines.name("shared")
            self.shared.append(f"{memory} = shared_{storage_type(dtype)}({self.team.threads})")
            self.lines.add(f"{memory}[thread()] = {to_memory(name, dtype)}")
            memories.append(memory)
        return memories

    def _take(self, fold: TypedReduction, kept: list[str], memory: list[str], at: str) -> None:
        pairs = zip(memory, fold.types, strict=True)
        fold.step(self.lines, kept, [self.lines.let(from_memory(f"{one}[{at}]", t), "other") for one, t in pairs])


def barrier_of(team: Team) -> str:
    """What makes a team's stores visible to all its threads; nothing for a team of one."""
    if team.members == 1:
        return ""
    return "barrier()" if team.has_barriers else "warp_barrier()"
