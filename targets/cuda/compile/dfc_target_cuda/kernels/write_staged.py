"""Kernels with folds, several stages, or an order of points, as device code: the walk of a grid over outer points.

Each block takes tiles of outer points, one for each of its teams; where few points have many elements, several blocks
take parts of one tile, leave their partial results in the workspace, and the block that comes last puts them together
in the order of the parts and does what is left. Guarantees results that depend on the shape and the schedule alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from dfc.ir.dims import ONE, ZERO, Dim, ceil_divide, dim, minimum
from dfc.ir.dtypes import DType
from dfc.kernels.form import LoopKernel
from dfc_target_cuda.kernels.kernel_text import ZEROED, Geometry, Schedule
from dfc_target_cuda.kernels.write_axes import is_small, split
from dfc_target_cuda.kernels.write_layout import ThreadLayout
from dfc_target_cuda.kernels.write_points import Point, both
from dfc_target_cuda.kernels.write_reductions import from_memory, place_type, to_memory
from dfc_target_cuda.kernels.write_stages import Item, StageWriter
from dfc_target_cuda.kernels.write_teams import Kept, TeamFolds
from dfc_target_cuda.kernels.write_text import Lines, Sizes

_PARTIAL = 8
"""Bytes of a partial result in the workspace, of any type."""
_TICKET = 4


@dataclass(frozen=True, slots=True)
class _Partial:
    """A kept value with its memory."""

    name: str
    memory: str
    dtype: DType


class ReduceWriter:
    """Writes one kernel into lines: one walk, or one for short rows and one for long ones where the length of rows is
    known when the kernel runs."""

    def __init__(self, kernel: LoopKernel, schedule: Schedule, lines: Lines, sizes: Sizes, *, guarded: bool) -> None:
        self.lines, self.sizes = lines, sizes
        layout = ThreadLayout(kernel, schedule)
        self.walk = _Walk(layout, lines, sizes, guarded=guarded)
        self.short: _Walk | None = None
        if layout.has_rows_of_any_length:
            self.short = _Walk(ThreadLayout(kernel, schedule, short=True), lines, sizes, guarded=guarded)

    def geometry(self) -> Geometry:
        return self.walk.geometry()

    def workspace(self) -> Dim:
        return self.walk.workspace()

    def guard(self) -> list[str]:
        """The walks do it."""
        return []

    def first_lines(self) -> list[str]:
        """Memory of the block."""
        return [*self.walk.folds.shared, *(self.short.folds.shared if self.short is not None else [])]

    def write(self) -> None:
        if self.short is None:
            return self.walk.write()
        most = self.walk.layout.longest_short_row
        lengths = [plan.size for plan in self.walk.layout.stages if not plan.once]
        known = dict.fromkeys(f"{self.sizes.text(n)} <= {most}" for n in lengths if n.constant is None)
        with self.lines.block(f"if {' and '.join(known)}"):
            self.short.write()
        with self.lines.block("else"):
            self.walk.write()
        return None


class _Walk:
    """One walk over all outer points."""

    def __init__(self, layout: ThreadLayout, lines: Lines, sizes: Sizes, *, guarded: bool) -> None:
        self.layout, self.lines, self.sizes, self.guarded = layout, lines, sizes, guarded
        self.schedule, self.team = layout.schedule, layout.team
        self.folds = TeamFolds(self.team, lines)
        self.stages = [StageWriter(layout, n, lines, sizes, self.folds) for n in range(len(layout.stages))]
        self.tiles = ceil_divide(layout.points, dim(self.team.points))
        self.is_split = self.team.splits != ONE
        assert _TICKET * self.schedule.blocks // 2 <= ZEROED, "a ticket for each tile that is split"

    def geometry(self) -> Geometry:
        return Geometry(self.tiles * self.team.splits, 1, self.team.threads, self._most())

    def _most(self) -> int:
        """More blocks than that take turns."""
        return self.schedule.blocks * 8

    def workspace(self) -> Dim:
        """Bytes: a ticket for each tile that is split, and the partial results of each point."""
        if not self.is_split:
            return ZERO
        kept = sum(2 if reduction.combine.startswith("arg") else 1 for reduction in self.stages[0].stage.reductions)
        splits = self.team.splits
        needed = dim(ZEROED) + dim(_PARTIAL * kept) * self.layout.points * splits
        return needed * minimum(splits - 1, ONE)

    def _guard(self) -> None:
        """Does nothing after a fault: the whole block, or where blocks wait for each other not here but at the end."""
        if self.is_split or not self.guarded:
            return
        stopped = "error[0] != 0"
        with self.lines.block(f"if {f'barrier_any({stopped})' if self.team.lanes > 1 else stopped}"):
            self.lines.add("return")

    def write(self) -> None:
        lines, team = self.lines, self.team
        self._guard()
        lines.add(f"lane = {team.lane() if team.lanes > 1 else '0'}")
        for stage in self.stages:
            stage.begin()
        count = self.tiles * team.splits
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
        if self.is_split:
            splits = self.sizes.text(team.splits)
            tile = lines.let(f"quotient({item}, {splits})", "tile")
            part = lines.let(f"remainder({item}, {splits})", "part")
        point, on = self._point(tile)
        small = is_small([self.layout.points])
        outer = Point(split(lines, self.sizes, point, self.layout.outer, self.layout.extents, small=small))
        one = Item(on, kept={} if self.layout.registers else None)
        if self.is_split:
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
        point = lines.let(f"{first}{team.point()}", "point")
        known = self.layout.points.constant
        if known is not None and known % team.points == 0:
            return point, ""
        return point, lines.let(f"{point} < {self.sizes.text(self.layout.points)}", "on")

    def _stage(self, stage: StageWriter, outer: Point, item: Item) -> None:
        stage.barrier()
        kept = stage.run(outer, item)
        if kept:
            self.folds.total(kept)
            stage.finish(kept, item)

    # --- several blocks for one tile

    def _split_item(self, outer: Point, item: Item, numbers: tuple[str, str, str]) -> None:
        lines, team = self.lines, self.team
        tile, part, point = numbers
        first, *later = self.stages
        groups = first.plan.size // first.plan.group
        span = self.sizes.text(ceil_divide(groups, team.splits * team.lanes) * team.lanes)
        item.first = lines.let(f"{part} * {span} + lane", "first")
        end = f"min({self.sizes.text(groups)}, {part} * {span} + {span})"
        item.end = lines.let(f"{end} if {item.on} else 0" if item.on else end, "end")
        kept = first.run(outer, item)
        self.folds.total(kept)
        item.first = item.end = ""
        splits = self.sizes.text(team.splits)
        lines.add("last = True")
        with lines.block(f"if {splits} > 1"):
            partials = self._places(kept)
            self._hand_in(partials, item, (tile, part, point))
            with lines.block("if last"):
                first.clear(kept)
                self._gather(kept, partials, item, point)
                lines.add(f"u32_pointer(workspace, 0)[{tile}] = u32(0)")
        if self.guarded:
            lines.add("last = last and not barrier_any(error[0] != 0)")
        with lines.block("if last"):
            first.finish(kept, item)
            for stage in later:
                self._stage(stage, outer, item)

    def _places(self, kept: Kept) -> list[_Partial]:
        """Memory for partial results: those of neighbouring points are neighbours."""
        found: list[_Partial] = []
        offset = dim(ZEROED)
        for fold, names in kept:
            for name, dtype in zip(names, fold.types, strict=True):
                memory = self.lines.let(f"{place_type(dtype)}_pointer(workspace, {self.sizes.text(offset)})", "partial")
                found.append(_Partial(name, memory, dtype))
                offset = offset + _PARTIAL * self.layout.points * self.team.splits
        return found

    def _hand_in(self, partials: list[_Partial], item: Item, numbers: tuple[str, str, str]) -> None:
        """Partial results to the workspace; `last` is whether all other parts of the tile are there."""
        lines = self.lines
        tile, part, point = numbers
        with lines.guarded(both([item.on, "lane == 0"])):
            place = lines.let(f"{part} * {self.sizes.text(self.layout.points)} + {point}", "place")
            for one in partials:
                lines.add(f"{one.memory}[{place}] = {to_memory(one.name, one.dtype)}")
        ticket = lines.name("ticket")
        self.folds.shared.append(f"{ticket} = shared_u32(1)")
        lines.add("fence()")
        lines.add("barrier()")
        with lines.block("if thread() == 0"):
            lines.add(f"{ticket}[0] = atomic_add_u32(u32_pointer(workspace, 0), {tile}, u32(1))")
        lines.add("barrier()")
        lines.add(f"last = i64({ticket}[0]) == {self.sizes.text(self.team.splits)} - 1")

    def _gather(self, kept: Kept, partials: list[_Partial], item: Item, point: str) -> None:
        """The partial results of all parts, by each lane in order and then by the team."""
        lines, team = self.lines, self.team
        lines.add("fence()")
        q = lines.let("lane", "q")
        end = self.sizes.text(team.splits)
        if item.on:
            end = lines.let(f"{end} if {item.on} else 0", "end")
        with lines.block(f"while {q} < {end}"):
            place = lines.let(f"{q} * {self.sizes.text(self.layout.points)} + {point}", "place")
            loaded = [lines.let(from_memory(f"{one.memory}[{place}]", one.dtype), "other") for one in partials]
            for fold, names in kept:
                fold.step(lines, names, [loaded.pop(0) for _ in names])
            lines.add(f"{q} = {q} + {team.lanes}")
        self.folds.total(kept)
