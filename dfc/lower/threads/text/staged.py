"""Kernels with folds, several stages, or an order of points, as kernel text: the walk of a grid over outer points.

Each block takes tiles of outer points, one for each of its teams; where few points have many elements, several blocks
take parts of one tile, leave their results in the workspace, and the block that comes last puts them together in the
order of the parts and does what is left. Guarantees the bits of the order that the kernel states.
"""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, dim
from dfc.ir.dtypes import DType
from dfc.lower.threads.schedule import ZEROED
from dfc.lower.threads.stages import PARTIAL, StagedLayout, ThreadLayout
from dfc.lower.threads.text.axes import split
from dfc.lower.threads.text.lines import Lines, Sizes
from dfc.lower.threads.text.points import Point, both
from dfc.lower.threads.text.reductions import from_memory, storage_type, to_memory
from dfc.lower.threads.text.stages import Item, StageWriter
from dfc.lower.threads.text.teams import Running, TeamFolds, alone, begin_running, lane_of, point_of, worker_of
from dfc.lower.threads.wide import is_small


@dataclass(frozen=True, slots=True)
class _Partial:
    """Where the parts of a value lie."""

    memory: str
    dtype: DType


class ReduceWriter:
    """Writes one kernel into lines: one walk, or one for short rows and one for long ones where the length of rows is
    known when the kernel runs."""

    def __init__(self, layout: StagedLayout, lines: Lines, sizes: Sizes, *, guarded: bool) -> None:
        self.lines, self.sizes = lines, sizes
        self.walk = _Walk(layout.walk, lines, sizes, guarded=guarded)
        short = layout.short
        self.short = None if short is None else _Walk(short, lines, sizes, guarded=guarded)

    def bounds_check(self) -> list[str]:
        """The walks do it."""
        return []

    def first_lines(self) -> list[str]:
        """Memory of the block."""
        return [*self.walk.folds.shared, *(self.short.folds.shared if self.short is not None else [])]

    def write(self) -> None:
        if self.short is None:
            return self.walk.write()
        several = [one for one in self.walk.layout.looped if one.has_blocks]
        known = dict.fromkeys(f"{self.sizes.text(one.first)} <= {self.sizes.text(one.block)}" for one in several)
        with self.lines.block(f"if {both(known)}"):
            self.short.write()
        with self.lines.block("else"):
            self.walk.write()
        return None


class _Walk:
    """One walk over all outer points."""

    def __init__(self, layout: ThreadLayout, lines: Lines, sizes: Sizes, *, guarded: bool) -> None:
        self.layout, self.lines, self.sizes, self.guarded, self.team = layout, lines, sizes, guarded, layout.team
        self.folds = TeamFolds(self.team, lines)
        self.stages = [StageWriter(layout, n, lines, sizes, self.folds) for n in range(len(layout.stages))]

    def _bounds_check(self) -> None:
        """Does nothing after a fault: the whole block, or where blocks wait for each other not here but at the end."""
        if self.layout.is_split or not self.guarded:
            return
        stopped = "error[0] != 0"
        with self.lines.block(f"if {f'barrier_any({stopped})' if self.team.members > 1 else stopped}"):
            self.lines.add("return")

    def write(self) -> None:
        lines, team = self.lines, self.team
        self._bounds_check()
        lines.add(f"lane = {lane_of(team)}")
        if team.workers > 1:
            lines.add(f"worker = {worker_of(team)}")
        for stage in self.stages:
            stage.begin()
        count = self.layout.tiles * team.splits
        if count == ONE:
            return self._item("0")
        lines.add("item = block_index()")
        with lines.block(f"while item < {self.sizes.text(count)}"):
            self._item("item")
            if team.has_barriers:
                lines.add("barrier()")
            lines.add("item = item + block_count()")
        return None

    # --- one tile, or a part of it

    def _item(self, item: str) -> None:
        lines, team = self.lines, self.team
        tile, part = item, "0"
        if self.layout.is_split:
            splits = self.sizes.text(team.splits)
            tile = lines.let(f"quotient({item}, {splits})", "tile")
            part = lines.let(f"remainder({item}, {splits})", "part")
        point, on = self._point(tile)
        small = is_small([self.layout.points])
        outer = Point(split(lines, self.sizes, point, self.layout.outer, self.layout.extents, small=small))
        one = Item(on, kept={} if self.layout.registers else None)
        if self.layout.is_split:
            return self._split_item(outer, one, (tile, part, point))
        for stage in self.stages:
            self._stage(stage, outer, one)
        return None

    def _point(self, tile: str) -> tuple[str, str]:
        """The outer point of a team, and the condition that it exists."""
        lines, team = self.lines, self.team
        if team.points == 1:
            return tile, ""
        first = "" if tile == "0" else f"{tile} * {team.points} + "
        point = lines.let(f"{first}{point_of(team)}", "point")
        known = self.layout.points.constant
        if known is not None and known % team.points == 0:
            return point, ""
        return point, lines.let(f"{point} < {self.sizes.text(self.layout.points)}", "on")

    def _stage(self, stage: StageWriter, outer: Point, item: Item) -> None:
        stage.barrier()
        kept = stage.run(outer, item)
        stage.finish(kept, item)

    # --- several blocks for one tile

    def _split_item(self, outer: Point, item: Item, numbers: tuple[str, str, str]) -> None:
        """Every so many parts of a tile; their results to the totals if no other block takes part, else to the
        workspace."""
        lines, team = self.lines, self.team
        tile, number, point = numbers
        first, *later = self.stages
        order, splits = first.plan.order, self.sizes.text(team.splits)
        before = first.at(outer, item)
        totals = first.begin_totals()
        memory = self._memory(totals)
        extent, size = self.sizes.text(order.first), self.sizes.text(order.part)
        part = lines.let(number, "part")
        with lines.block(f"while {part} < {self.sizes.text(order.parts)}"):
            start = lines.let(f"{part} * {size}", "start")
            running = first.part(before, item, start, lines.let(f"min({start} + {size}, {extent})", "end"))
            for total, one in zip(totals, running, strict=True):
                total.fold.step(lines, total.names, one.names)
            with lines.guarded(both([f"{splits} > 1", item.on, *alone(team)])):
                index = lines.let(f"{part} * {self.sizes.text(self.layout.points)} + {point}", "place")
                for kept, one in zip([n for each in running for n in each.names], memory, strict=True):
                    lines.add(f"{one.memory}[{index}] = {to_memory(kept, one.dtype)}")
            lines.add(f"{part} = {part} + {splits}")
        lines.add("last = True")
        with lines.block(f"if {splits} > 1"):
            self._take_ticket(tile)
            with lines.block("if last"):
                for total in totals:
                    total.clear(lines)
                self._gather(totals, memory, item, point)
                lines.add(f"u32_pointer(workspace, 0)[{tile}] = u32(0)")
        if self.guarded:
            lines.add("last = both(last, not barrier_any(error[0] != 0))")
        with lines.block("if last"):
            first.finish(totals, item)
            for stage in later:
                self._stage(stage, outer, item)

    def _memory(self, totals: list[Running]) -> list[_Partial]:
        """Memory for the results of parts: those of neighbouring points are neighbours."""
        partials: list[_Partial] = []
        offset = dim(ZEROED)
        for total in totals:
            for dtype in total.fold.types:
                memory = self.lines.let(
                    f"{storage_type(dtype)}_pointer(workspace, {self.sizes.text(offset)})", "partial"
                )
                partials.append(_Partial(memory, dtype))
                offset = offset + PARTIAL * self.layout.points * self.stages[0].plan.order.parts
        return partials

    def _take_ticket(self, tile: str) -> None:
        """`last` is whether all other parts of the tile are there."""
        lines = self.lines
        ticket = lines.name("ticket")
        self.folds.shared.append(f"{ticket} = shared_u32(1)")
        lines.add("fence()")
        lines.add("barrier()")
        with lines.block("if thread() == 0"):
            lines.add(f"{ticket}[0] = atomic_add_u32(u32_pointer(workspace, 0), {tile}, u32(1))")
        lines.add("barrier()")
        lines.add(f"last = i64({ticket}[0]) == {self.sizes.text(self.team.splits)} - 1")

    def _gather(self, totals: list[Running], memory: list[_Partial], item: Item, point: str) -> None:
        """The results of all parts in their order: as many at a time as the team has threads."""
        lines, team = self.lines, self.team
        lines.add("fence()")
        parts = self.sizes.text(self.stages[0].plan.order.parts)
        member = f"worker * {team.lanes} + lane" if team.workers > 1 else "lane"
        base = lines.let("0", "base")
        with lines.block(f"while {base} < {parts}"):
            part = lines.let(f"{base} + {member}", "part")
            loaded = [begin_running(lines, total.fold, 1, 1) for total in totals]
            with lines.block(f"if {both([item.on, f'{part} < {parts}'])}"):
                slot = lines.let(f"{part} * {self.sizes.text(self.layout.points)} + {point}", "place")
                for name, one in zip([n for each in loaded for n in each.names], memory, strict=True):
                    lines.add(f"{name} = {from_memory(f'{one.memory}[{slot}]', one.dtype)}")
            self.folds.add_members(totals, [one.names for one in loaded])
            lines.add(f"{base} = {base} + {team.members}")
