"""Stages of a loop kernel as code: loops over the inner axes, folds, stores; and the loops around all stages.

Assumes a plan from `lower_plan` and a site with addresses and sizes. Guarantees the order of stages at each outer
point, and reduction trees that do not depend on which part of the outer points is asked for.
"""

from dataclasses import dataclass

from dfc.kernels.access import NONE, written_operands
from dfc.kernels.form import Reduction
from dfc_target_cpu.elementwise.accesses import EmissionSite, Point
from dfc_target_cpu.elementwise.body import BodyCode
from dfc_target_cpu.elementwise.loop_schedule import LoopPlan, StagePlan
from dfc_target_cpu.elementwise.loops import nested, odometer, vector_loop
from dfc_target_cpu.elementwise.reductions import TypedReduction
from dfc_target_cpu.llvm.text import Value
from dfc_target_cpu.llvm.values import i64

_COLUMN_BLOCK = 1024


class Accumulators:
    """The running values of one reduction, one set for each copy of an unrolled loop; registers once optimised."""

    def __init__(self, site: EmissionSite, fold: TypedReduction, lanes: int, copies: int) -> None:
        self.f, self.fold, self.lanes = site.f, fold, lanes
        self.types = fold.types(lanes)
        self.copies = copies
        self.arrays = [self.f.alloca(f"[{copies} x {kind}]") for kind in self.types]

    def _places(self, copy: Value) -> list[Value]:
        return [self.f.gep(kind, array, copy) for kind, array in zip(self.types, self.arrays, strict=True)]

    def clear(self) -> None:
        for copy in range(self.copies):
            self._write(self._places(i64(copy)), self.fold.identity(self.lanes))

    def _write(self, places: list[Value], values: list[Value]) -> None:
        for place, value in zip(places, values, strict=True):
            self.f.store(value, place)

    def _read(self, places: list[Value]) -> list[Value]:
        return [self.f.load(kind, place) for kind, place in zip(self.types, places, strict=True)]

    def add(self, copy: Value, new: list[Value], mask: Value | None) -> None:
        places = self._places(copy)
        self._write(places, self.fold.combine(self.f, self._read(places), self.fold.masked(self.f, mask, new)))

    def total(self) -> list[Value]:
        """All copies as one, neighbours first."""
        totals = [self._read(self._places(i64(copy))) for copy in range(self.copies)]
        while len(totals) > 1:
            pairs = zip(totals[0::2], totals[1::2], strict=True)
            totals = [self.fold.combine(self.f, a, b) for a, b in pairs]
        return totals[0]


@dataclass(slots=True)
class StageCode:
    """One stage at one outer point."""

    site: EmissionSite
    plan: StagePlan
    number: int
    body: BodyCode
    outer_levels: int
    extents: list[Value]
    by_rows: bool

    def run(self, point: Point) -> None:
        """All of the stage; its reductions are in `point.reduced` afterwards."""
        self.body.emit(self.outer_levels, point)
        accumulators = self._fold_columns(point) if self._has_columns() else self._fold_rows(point)
        for number, one in enumerate(accumulators):
            point.reduced[self.number, number] = one.fold.result(self.site.f, self.total(one))

    def _has_columns(self) -> bool:
        """Whether one chain of sums could become long: lanes do not share the work of an inner axis."""
        if self.by_rows or not self.plan.inner or not self.plan.stage.reductions:
            return False
        length = self.plan.extents[self.plan.inner[0]].constant
        return length is None or length > _COLUMN_BLOCK

    def _fold_rows(self, point: Point) -> list[Accumulators]:
        accumulators = self.start()
        self.iterate(point, accumulators, None)
        return accumulators

    def _fold_columns(self, point: Point) -> list[Accumulators]:
        """Blocks of the first inner axis one by one, each added to the total."""
        f, totals = self.site.f, self.start()
        last = self.extents[self.plan.inner[0]]
        with f.counted_loop(i64(0), last, _COLUMN_BLOCK, "block") as loop:
            block = self.start()
            self.iterate(point, block, (loop.index, f.minimum(f.add(loop.index, i64(_COLUMN_BLOCK)), last)))
            for total, one in zip(totals, block, strict=True):
                total.add(i64(0), one.total(), None)
        return totals

    def start(self) -> list[Accumulators]:
        copies = self.plan.unroll if self.plan.inner else 1
        found = [Accumulators(self.site, self.fold(r), self.plan.lanes, copies) for r in self.plan.stage.reductions]
        for one in found:
            one.clear()
        return found

    def fold(self, reduction: Reduction) -> TypedReduction:
        return TypedReduction(reduction, self.plan.stage.body[reduction.value].dtype)

    def total(self, accumulators: Accumulators) -> list[Value]:
        total = accumulators.total()
        return accumulators.fold.across(self.site.f, total) if self.by_rows else total

    def iterate(self, point: Point, accumulators: list[Accumulators], span: tuple[Value, Value] | None) -> None:
        """The loops over the inner axes; `span` limits the first of them."""
        inner = self.plan.inner
        if not inner:
            self._finish(point, accumulators, i64(0))
            return
        extents = [self.extents[axis] for axis in inner]
        first, last = (i64(0), extents[0]) if span is None else span
        if len(inner) == 1:
            return self._innermost(point, accumulators, first, last)
        with self.site.f.counted_loop(first, last) as loop:
            inside = point.inner(inner[0], loop.index)
            self._enter(len(inner) - 1, inside)
            with nested(self.site.f, inner[1:-1], extents[1:-1], inside, self._enter) as innermost:
                self._innermost(innermost, accumulators, i64(0), extents[-1])

    def _enter(self, left: int, point: Point) -> None:
        """Emit what becomes known in a loop that has `left` more inside it."""
        self.body.emit(self.outer_levels + len(self.plan.inner) - left, point)

    def _innermost(self, point: Point, accumulators: list[Accumulators], first: Value, last: Value) -> None:
        axis = self.plan.inner[-1]

        def emit(index: Value, mask: Value | None, copy: Value) -> None:
            inside = point.inner(axis, index, mask)
            self._enter(0, inside)
            self._finish(inside, accumulators, copy)

        lanes = self.plan.lanes if self.by_rows else 1
        vector_loop(self.site.f, first, last, lanes, self.plan.unroll, emit, rolled=self.plan.rolled)

    def _finish(self, point: Point, accumulators: list[Accumulators], copy: Value) -> None:
        """At the innermost point: fold and store."""
        stage = self.plan.stage
        for one in accumulators:
            new = [self.body.stored(one.fold.reduction.value, point)]
            if one.fold.is_search:
                new.append(self._position(point))
            one.add(copy, new, point.mask)
        for store, access in zip(stage.stores, self.plan.access.stores, strict=True):
            self.body.store(point, access, self.body.stored(store.value, point), store.combine)

    def _position(self, point: Point) -> Value:
        """The index along the single inner axis, in all lanes."""
        if not self.plan.inner:
            return self.body.all_lanes(point, i64(0))
        axis = self.plan.inner[-1]
        index = point.index(axis)
        if axis == point.vector and point.lanes > 1:
            return self.body.ramp(index, i64(1), point.lanes)
        return self.body.all_lanes(point, index)


class LoopCode:
    """A loop kernel: the outer loops, and the stages inside them."""

    def __init__(self, site: EmissionSite, plan: LoopPlan) -> None:
        self.site, self.plan = site, plan
        self.extents = [site.dims.value(extent) for extent in plan.extents]
        written = written_operands(plan.kernel.stages)
        common = (*plan.outer, plan.vector) if plan.vector != NONE else plan.outer
        self.outer_levels = len(common)
        self.stages = [self._stage(number, common, written) for number in range(len(plan.stages))]

    def _stage(self, number: int, common: tuple[int, ...], written: frozenset[int]) -> StageCode:
        plan = self.plan.stages[number]
        by_rows = plan.vector != NONE
        body = BodyCode(
            self.site,
            plan.stage.body,
            plan.access,
            (*common, *plan.inner),
            plan.vector if by_rows else self.plan.vector,
            outer_levels=self.outer_levels,
            outer_varies=not by_rows and self.plan.vector != NONE,
            written=written if len(self.plan.stages) > 1 or self.plan.kernel.ordered else frozenset(),
            in_order=self.plan.kernel.ordered,
        )
        extents = [self.site.dims.value(extent) for extent in plan.extents]
        return StageCode(self.site, plan, number, body, self.outer_levels, extents, by_rows)

    def first_points(self) -> list[Point]:
        """One point for each stage, before all loops."""
        reduced: dict[tuple[int, int], Value] = {}
        points: list[Point] = []
        for stage in self.stages:
            vector = stage.plan.vector if stage.by_rows else self.plan.vector
            points.append(Point(vector, stage.plan.lanes, reduced=reduced))
        return points

    def run(self, outer: tuple[Value, Value], span: tuple[Value, Value], *, exact: bool = False) -> None:
        """The outer points number `outer` (without the vector axis), and along the vector axis those in `span`, which
        is `exact` when it is whole vectors."""
        points = self.first_points()
        self._emit_outer(0, points)
        if not self.plan.outer:
            return self._inside(points, span, exact)
        with odometer(self.site.f, *outer, [self.extents[axis] for axis in self.plan.outer]) as indices:
            inside = [point.inner() for point in points]
            for level, (axis, index) in enumerate(zip(self.plan.outer, indices, strict=True)):
                for point in inside:
                    point.indices[axis] = index
                self._emit_outer(level + 1, inside)
            self._inside(inside, span, exact)

    def _emit_outer(self, level: int, points: list[Point]) -> None:
        if level < self.outer_levels:
            for stage, point in zip(self.stages, points, strict=True):
                stage.body.emit(level, point)

    def _inside(self, points: list[Point], span: tuple[Value, Value], exact: bool) -> None:
        if self.plan.vector == NONE:
            return self._stages(points)

        def emit(index: Value, mask: Value | None, _: Value) -> None:
            self._stages([point.inner(self.plan.vector, index, mask) for point in points])

        vector_loop(self.site.f, *span, self.plan.lanes, 1, emit, exact=exact)
        return None

    def _stages(self, points: list[Point]) -> None:
        for stage, point in zip(self.stages, points, strict=True):
            stage.run(point)
