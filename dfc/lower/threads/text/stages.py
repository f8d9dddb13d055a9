"""Stages of a kernel at one outer point: a team's loop over the inner axes, folds, stores.

Assumes the layout of `dfc.lower.threads.stages`. Guarantees the order of stages, that values are combined in the order
of `dfc.kernels.orders.reduction`, and that a team sees what it stored itself in earlier stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim, is_multiple, product
from dfc.kernels.access import Access
from dfc.kernels.form import Stage
from dfc.lower.threads.stages import StagePlan, ThreadLayout
from dfc.lower.threads.text.axes import split
from dfc.lower.threads.text.body import BodyWriter
from dfc.lower.threads.text.lines import Lines, Sizes
from dfc.lower.threads.text.points import Lane, Point, both
from dfc.lower.threads.text.reductions import TypedReduction
from dfc.lower.threads.text.teams import Running, TeamFolds, alone, barrier_of, begin_running
from dfc.lower.threads.wide import is_small


@dataclass(slots=True)
class Item:
    """One outer point of a team; `on` says where there is a point at all (always, if empty)."""

    on: str = ""
    kept: dict[Access, list[str]] | None = None
    reduced: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])


class StageWriter:
    """Writes one stage."""

    def __init__(self, layout: ThreadLayout, number: int, lines: Lines, sizes: Sizes, folds: TeamFolds) -> None:
        kernel = layout.kernel
        self.layout, self.number, self.lines, self.sizes, self.folds = layout, number, lines, sizes, folds
        self.plan: StagePlan = layout.stages[number]
        self.stage: Stage = self.plan.order.stage
        levels = dict.fromkeys(range(kernel.outer), 1) | dict.fromkeys(range(kernel.outer, len(kernel.axes)), 2)
        several = len(kernel.stages) > 1 or kernel.ordered
        self.body = BodyWriter(
            lines,
            sizes,
            kernel.operands,
            self.stage.body,
            self.plan.order.access,
            levels=levels,
            written=layout.written if several else frozenset(),
            written_level=2 if kernel.ordered else 1,
        )
        self.start = Point()

    def begin(self) -> None:
        """What no point changes."""
        self.body.emit(0, self.start)

    def run(self, outer: Point, item: Item) -> list[Running]:
        """All of the stage at the outer point of `outer`; what its reductions make of it, in each thread."""
        if self.plan.once:
            self._once(outer, item)
            return []
        point = self.at(outer, item)
        if self.layout.registers:
            return self._in_registers(point)
        if not self.plan.order.has_parts or self.layout.short:
            return self.part(point, item, "", "")
        totals = self.begin_totals()
        first, size = self.sizes.text(self.plan.order.first), self.sizes.text(self.plan.order.part)
        start = self.lines.let("0", "start")
        with self.lines.block(f"while {start} < {first}"):
            part = self.part(point, item, start, self.lines.let(f"min({start} + {size}, {first})", "end"))
            for total, one in zip(totals, part, strict=True):
                total.fold.step(self.lines, total.names, one.names)
            self.lines.add(f"{start} = {start} + {size}")
        return totals

    def at(self, outer: Point, item: Item) -> Point:
        """The outer point, with what is known there."""
        point = self._point(outer, item)
        self.body.emit(1, point)
        return point

    def _point(self, outer: Point, item: Item) -> Point:
        point = self.start.inner(outer.indices)
        point.condition, point.kept, point.reduced = item.on, item.kept, item.reduced
        return point

    def begin_totals(self) -> list[Running]:
        """One value for each reduction."""
        return [begin_running(self.lines, fold, 1, 1) for fold in self._typed()]

    def _begin(self) -> list[Running]:
        """The accumulators of a lane."""
        return [begin_running(self.lines, fold, self.plan.copies, self.plan.group) for fold in self._typed()]

    def _typed(self) -> list[TypedReduction]:
        return [TypedReduction(one, self.stage.body[one.value].dtype) for one in self.stage.reductions]

    def finish(self, totals: Sequence[Running], item: Item) -> None:
        """Results for later stages."""
        for number, one in enumerate(totals):
            item.reduced[self.number, number] = one.fold.result(self.lines, one.names)

    # --- a stage without inner axes

    def _once(self, outer: Point, item: Item) -> None:
        """One lane does it."""
        with self.lines.guarded(both([item.on, *alone(self.layout.team)])):
            point = self._point(outer, item)
            point.condition, point.kept = "", None
            self.body.emit(1, point)
            self.body.emit(2, point)
            self.body.write_stores(point, self.stage.stores)
        if item.kept is not None:
            written = {store.operand for store in self.stage.stores}
            for access in [one for one in item.kept if one.operand in written]:
                del item.kept[access]

    # --- a row in registers

    def _in_registers(self, before: Point) -> list[Running]:
        """Every element of the row in a register of its lane, in all stages at once."""
        plan, team, lines = self.plan, self.layout.team, self.lines
        length, block, axis = plan.order.points.constant or 0, plan.order.block.constant or 0, plan.order.axes[-1]
        start = lines.let(self._own_start("" if team.workers == 1 else f"worker * {block}"), "j")
        last = block * (team.workers - 1)
        lanes: list[Lane] = []
        for turn in range(0, min(length, block), self._turn):
            for offset in self._offsets():
                known = last + turn + offset + team.lanes * plan.group <= length
                on = "" if known else lines.let(f"{start} < {length - turn - offset}", "on")
                lanes += [Lane({axis: (start, turn + offset + each)}, on) for each in range(plan.group)]
        point = before.inner(lanes=tuple(lanes), axes=(axis,), vector=axis, group=plan.group, wide=plan.wide.accesses)
        self.body.emit(2, point)
        running = self._begin()
        self._fold(point, running)
        self.body.write_stores(point, self.stage.stores, self.layout.dead_stores(self.number))
        totals = running
        if team.workers > 1 and running:
            totals = self._begin()
            self.folds.add_blocks(totals, running)
        self.folds.halves(totals)
        return totals

    # --- a loop over the inner points

    @property
    def _turn(self) -> int:
        """Neighbours of a row that a worker takes at once."""
        return self.plan.copies * self.layout.team.lanes

    def _offsets(self) -> range:
        """Where the groups of a lane begin, seen from its first one."""
        span = self.plan.group * self.layout.team.lanes
        return range(0, self.plan.copies // self.plan.group * span, span)

    def _own_start(self, first: str) -> str:
        """Where a lane begins in a row of which its worker begins at `first`."""
        own = "" if self.layout.team.lanes == 1 else "lane" if self.plan.group == 1 else f"lane * {self.plan.group}"
        return " + ".join(one for one in (first, own) if one) or "0"

    def part(self, before: Point, item: Item, start: str, end: str) -> list[Running]:
        """The points of the first inner axis from `start` to `end` (of all of it, without these)."""
        order, team, lines = self.plan.order, self.layout.team, self.lines
        totals: list[Running] = []
        first = end or self.sizes.text(order.first)
        if self.layout.short or not order.has_blocks:
            totals = self._block(before, item, start or "0", first)
            if team.workers > 1 and totals:
                alone, totals = totals, self._begin()
                self.folds.add_blocks(totals, alone)
        else:
            totals, size = self._begin(), self.sizes.text(order.block)
            base = lines.let(start or "0", "base")
            with lines.block(f"while {base} < {first}"):
                own = base if team.workers == 1 else lines.let(f"{base} + worker * {size}", "own")
                block = self._block(before, item, own, lines.let(f"min({own} + {size}, {first})", "stop"))
                if totals:
                    self.folds.add_blocks(totals, block)
                lines.add(f"{base} = {base} + {self.sizes.text(order.block * team.workers)}")
        self.folds.halves(totals)
        return totals

    def _block(self, before: Point, item: Item, start: str, end: str) -> list[Running]:
        """One block, by one worker."""
        plan, lines = self.plan, self.lines
        running = self._begin()
        alone = self.layout.team.workers > 1 and (self.layout.short or not plan.order.has_blocks)
        on = both([item.on, *(["worker == 0"] if alone else [])])
        if on:
            end = lines.let(f"i64_select({on}, {end}, 0)", "end")
        if not self.layout.by_rows:
            self._points(before, running, start, end)
        elif len(plan.order.axes) <= 1:
            self._row(before, running, start, end)
        else:
            others = plan.order.axes[:-1]
            rest = product(plan.order.extents[axis] for axis in others[1:])
            number = lines.let(start if rest.constant == 1 else f"({start}) * {self.sizes.text(rest)}", "q")
            with lines.block(f"while {number} < {self._times(end, rest)}"):
                indices = split(
                    lines, self.sizes, number, others, plan.order.extents, small=is_small([plan.order.points])
                )
                self._row(before.inner(indices), running, "0", self.sizes.text(plan.order.row))
                lines.add(f"{number} = {number} + 1")
        return running

    def _times(self, end: str, rest: Dim) -> str:
        return end if rest.constant == 1 else self.lines.let(f"{end} * {self.sizes.text(rest)}", "end")

    def _row(self, before: Point, running: list[Running], start: str, end: str) -> None:
        """A row, or a piece of it that begins with the first accumulator: the lanes side by side."""
        plan, team, lines = self.plan, self.layout.team, self.lines
        if not plan.order.axes:
            return self._points(before, running, f"{start} + lane" if team.lanes > 1 else start, end)
        axis, last = plan.order.axes[-1], plan.order.row
        position = lines.let(self._own_start("" if start == "0" else start), "j")
        whole = is_multiple(last, self._turn)
        with lines.block(f"while {position} < {end}"):
            lanes: list[Lane] = []
            for offset in self._offsets():
                on = "" if not offset or whole else lines.let(f"{position} + {offset} < {end}", "on")
                lanes += [Lane({axis: (position, offset + each)}, on) for each in range(plan.group)]
            point = before.inner({}, tuple(lanes), axes=(axis,), vector=axis, group=plan.group, wide=plan.wide.accesses)
            self._visit(point, running)
            lines.add(f"{position} = {position} + {self._turn}")
        return None

    def _points(self, before: Point, running: list[Running], start: str, end: str) -> None:
        """One inner point after the other."""
        plan, lines = self.plan, self.lines
        rest = product(plan.order.extents[axis] for axis in plan.order.axes[1:])
        number = lines.let(start if rest.constant == 1 else f"({start}) * {self.sizes.text(rest)}", "q")
        with lines.block(f"while {number} < {self._times(end, rest)}"):
            indices = split(
                lines, self.sizes, number, plan.order.axes, plan.order.extents, small=is_small([plan.order.points])
            )
            self._visit(before.inner(indices), running)
            lines.add(f"{number} = {number} + 1")

    def _visit(self, point: Point, running: list[Running]) -> None:
        point.condition = ""
        self.body.emit(2, point)
        self._fold(point, running)
        self.body.write_stores(point, self.stage.stores)

    def _fold(self, point: Point, running: Sequence[Running]) -> None:
        for one in running:
            values = self.body.stored(one.fold.reduction.value, point)
            for lane, value in enumerate(values):
                new = [value, self._position(point, lane)] if one.fold.is_search else [value]
                one.fold.step(self.lines, one.copies[lane % len(one.copies)], new, point.lanes[lane].condition)

    def _position(self, point: Point, lane: int) -> str:
        """The index along the single inner axis."""
        name, delta = point.index(self.plan.order.axes[-1], lane) if self.plan.order.axes else ("", 0)
        if not name:
            return f"i64({delta})"
        return f"{name} + {delta}" if delta else name

    def barrier(self) -> None:
        """Before the stage, where it reads what other lanes stored."""
        if self.layout.needs_barrier(self.number):
            text = barrier_of(self.layout.team)
            if text:
                self.lines.add(text)
