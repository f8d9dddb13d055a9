"""Stages of a kernel at one outer point: a team's loop over the inner axes, folds, stores.

Assumes what `write_layout` decided. Guarantees the order of stages, that partial results are brought together in an
order that the shape alone decides, and that a team sees what it stored itself in earlier stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dfc.ir.dims import Dim
from dfc.kernels.access import Access
from dfc.kernels.form import Stage, Store
from dfc_target_cuda.kernels.write_axes import NARROW, is_small, split
from dfc_target_cuda.kernels.write_body import BodyWriter
from dfc_target_cuda.kernels.write_layout import StagePlan, ThreadLayout
from dfc_target_cuda.kernels.write_points import Lane, Point, both
from dfc_target_cuda.kernels.write_reductions import TypedReduction
from dfc_target_cuda.kernels.write_teams import Kept, TeamFolds, barrier_of
from dfc_target_cuda.kernels.write_text import Lines, Sizes

_CHAIN = 1024
"""Most values that one partial sum takes before it is added to another."""


@dataclass(slots=True)
class Item:
    """One outer point of a team, or a part of its inner points: `first` and `end` number groups of inner points (for
    the stage that is split), `on` says where there is a point at all (always, if empty)."""

    on: str = ""
    first: str = ""
    end: str = ""
    kept: dict[Access, list[str]] | None = None
    reduced: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])


class StageWriter:
    """Writes one stage."""

    def __init__(self, layout: ThreadLayout, number: int, lines: Lines, sizes: Sizes, folds: TeamFolds) -> None:
        kernel = layout.kernel
        self.layout, self.number, self.lines, self.sizes, self.folds = layout, number, lines, sizes, folds
        self.plan: StagePlan = layout.stages[number]
        self.stage: Stage = self.plan.stage
        levels = dict.fromkeys(range(kernel.outer), 1) | dict.fromkeys(range(kernel.outer, len(kernel.axes)), 2)
        several = len(kernel.stages) > 1 or kernel.ordered
        self.body = BodyWriter(
            lines,
            sizes,
            kernel.operands,
            self.stage.body,
            self.plan.access,
            levels=levels,
            written=layout.written if several else frozenset(),
            written_level=2 if kernel.ordered else 1,
        )
        self.start = Point()

    def begin(self) -> None:
        """What no point changes."""
        self.body.emit(0, self.start)

    def run(self, outer: Point, item: Item) -> Kept:
        """All of the stage at the outer point of `outer`; what its folds keep, in each lane."""
        if self.plan.once:
            self._once(outer, item)
            return []
        point = self._at(outer, item)
        self.body.emit(1, point)
        kept = self._start()
        if self.layout.registers:
            self._in_registers(point, kept)
        else:
            self._loop(point, item, kept)
        return kept

    def _at(self, outer: Point, item: Item) -> Point:
        point = self.start.inner(outer.indices)
        point.condition, point.kept, point.reduced = item.on, item.kept, item.reduced
        return point

    def _start(self) -> Kept:
        kept: Kept = []
        for reduction in self.stage.reductions:
            fold = TypedReduction(reduction, self.stage.body[reduction.value].dtype)
            kept.append((fold, [self.lines.let(value, "kept") for value in fold.identity()]))
        return kept

    def clear(self, kept: Kept) -> None:
        """Begin again with nothing folded."""
        for fold, names in kept:
            for name, value in zip(names, fold.identity(), strict=True):
                self.lines.add(f"{name} = {value}")

    def finish(self, kept: Kept, item: Item) -> None:
        """Results for later stages."""
        for number, (fold, names) in enumerate(kept):
            item.reduced[self.number, number] = fold.result(self.lines, names)

    # --- a stage without inner axes

    def _once(self, outer: Point, item: Item) -> None:
        """One lane does it."""
        team = self.layout.team
        alone = "lane == 0" if team.lanes > 1 else ""
        with self.lines.guarded(both([item.on, alone])):
            point = self._at(outer, item)
            point.condition, point.kept = "", None
            self.body.emit(1, point)
            self.body.emit(2, point)
            self.body.write_stores(point, self.stage.stores)
        if item.kept is not None:
            written = {store.operand for store in self.stage.stores}
            for access in [one for one in item.kept if one.operand in written]:
                del item.kept[access]

    # --- a row in registers

    def _in_registers(self, before: Point, kept: Kept) -> None:
        """Every element of the row in a register of its lane, in all stages at once."""
        plan, team = self.plan, self.layout.team
        length = plan.size.constant or 0
        start = self.lines.let("lane" if plan.group == 1 else f"lane * {plan.group}", "j")
        lanes: list[Lane] = []
        axis = plan.inner[-1]
        span = team.lanes * plan.group
        for first in range(0, length, span):
            condition = ""
            if first + span > length:
                condition = self.lines.let(f"{start} < {length - first}", "on")
            lanes += [Lane({axis: (start, first + lane)}, condition) for lane in range(plan.group)]
        point = before.inner(lanes=tuple(lanes), axes=(axis,), vector=axis, group=plan.group, wide=plan.wide.accesses)
        self.body.emit(2, point)
        self._fold(point, kept)
        self.body.write_stores(point, self.stage.stores, self.layout.dead_stores(self.number))

    # --- a loop over the inner points

    def _loop(self, before: Point, item: Item, kept: Kept) -> None:
        lines, plan, team = self.lines, self.plan, self.layout.team
        groups = self.sizes.text(plan.size // plan.group)
        first = item.first or "lane"
        end = item.end or groups
        if item.on and not item.end:
            end = lines.let(f"{end} if {item.on} else 0", "end")
        q = lines.let(first, "q")
        if not self._has_long_chains(kept):
            with lines.block(f"while {q} < {end}"):
                self._pass(before, q, kept)
                lines.add(f"{q} = {q} + {team.lanes}")
            return
        with lines.block(f"while {q} < {end}"):
            part = self._start()
            steps = team.lanes * (_CHAIN // plan.group)
            stop = lines.let(f"min({q} + {steps}, {end})", "stop")
            with lines.block(f"while {q} < {stop}"):
                self._pass(before, q, part)
                lines.add(f"{q} = {q} + {team.lanes}")
            for (fold, names), (_, new) in zip(kept, part, strict=True):
                fold.step(lines, names, new)

    def _has_long_chains(self, kept: Kept) -> bool:
        if self.layout.short or not any(fold.is_chain for fold, _ in kept):
            return False
        size = self.plan.size.constant
        return size is None or size > _CHAIN * self.layout.team.lanes

    def _pass(self, before: Point, q: str, kept: Kept) -> None:
        """One group of neighbouring inner points."""
        plan = self.plan
        extents: list[Dim] = list(plan.extents)
        inner = plan.inner
        if plan.group > 1:
            extents[inner[-1]] = extents[inner[-1]] // plan.group
        small = is_small([plan.size])
        indices = split(self.lines, self.sizes, q, inner, extents, small=small) if inner else {}
        if plan.group > 1:
            last = inner[-1]
            start = self.lines.let(f"{indices[last][0]} * {plan.group}", "j")
            lanes = tuple(Lane({last: (start, lane)}) for lane in range(plan.group))
            others = {axis: place for axis, place in indices.items() if axis != last}
            wide = plan.wide if plan.wide.lanes == plan.group else NARROW
            point = before.inner(others, lanes, axes=(last,), vector=last, group=plan.group, wide=wide.accesses)
        else:
            point = before.inner(indices)
        point.condition = ""
        self.body.emit(2, point)
        self._fold(point, kept)
        self._store(point, self.stage.stores)

    def _store(self, point: Point, stores: Sequence[Store]) -> None:
        self.body.write_stores(point, stores)

    def _fold(self, point: Point, kept: Kept) -> None:
        for fold, names in kept:
            values = self.body.stored(fold.reduction.value, point)
            for lane, value in enumerate(values):
                with self.lines.guarded(point.lanes[lane].condition):
                    new = [value, self._position(point, lane)] if fold.is_search else [value]
                    fold.step(self.lines, names, new)

    def _position(self, point: Point, lane: int) -> str:
        """The index along the single inner axis."""
        name, delta = point.index(self.plan.inner[-1], lane) if self.plan.inner else ("", 0)
        if not name:
            return f"i64({delta})"
        return f"i64({name} + {delta})" if delta else name

    def barrier(self) -> None:
        """Before the stage, where it reads what other lanes stored."""
        if self.layout.needs_barrier(self.number):
            text = barrier_of(self.layout.team)
            if text:
                self.lines.add(text)
