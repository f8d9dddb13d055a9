"""How the threads of a team find their part and bring their running values together, as kernel text.

Assumes teams of `dfc.lower.threads.teams`. Guarantees the order of `dfc.kernels.orders.reduction`.
"""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.lower.threads.teams import Team
from dfc.lower.threads.text.lines import Lines
from dfc.lower.threads.text.reductions import TypedReduction, from_memory, storage_type, to_memory
from dfc.lower.threads.text.types import computing_type


def lane_of(team: Team) -> str:
    """The number of a thread in its worker."""
    return "0" if team.lanes == 1 else f"thread() & {team.lanes - 1}" if team.threads > team.lanes else "thread()"


def worker_of(team: Team) -> str:
    """That of its worker in the team."""
    if team.workers == 1:
        return "0"
    number = f"thread() >> {((team.lanes if team.rows else team.points) - 1).bit_length()}"
    return f"({number}) & {team.workers - 1}" if team.rows and team.points > 1 else number


def alone(team: Team) -> list[str]:
    """What holds for one thread of a team only."""
    return [f"{name} == 0" for name, count in (("lane", team.lanes), ("worker", team.workers)) if count > 1]


def point_of(team: Team) -> str:
    """That of its team in the block."""
    if team.rows:
        return f"(thread() >> {team.members.bit_length() - 1})"
    return f"(thread() & {team.points - 1})" if team.members > 1 else "thread()"


def member_of(team: Team, number: str) -> str:
    """The thread with this number in the team, as its number in the block."""
    if team.rows:
        return f"{point_of(team)} * {team.members} + {number}" if team.points > 1 else number
    return f"{number} * {team.points} + {point_of(team)}" if team.points > 1 else number


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
            at = lines.let(member_of(self.team, number), "at")
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
            at = lines.let(member_of(self.team, number), "at")
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
