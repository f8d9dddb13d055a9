"""Stages of a loop kernel as code: loops over the inner axes, folds, stores; and the loops around all stages.

Assumes a plan of `loop_schedule` and a site with addresses and sizes. Guarantees the order of stages at each outer
point, and within a stage the order of `dfc.kernels.orders.reduction`.
"""

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.access import NONE, Access, written_operands
from dfc_target_cpu.elementwise.accesses import STREAM_PREFETCH, EmissionSite, Point, PrefetchDistance
from dfc_target_cpu.elementwise.body import BodyCode
from dfc_target_cpu.elementwise.loop_schedule import LoopPlan, StagePlan
from dfc_target_cpu.elementwise.loops import nested, odometer, tail_masks, vector_loop
from dfc_target_cpu.elementwise.reductions import TypedReduction
from dfc_target_cpu.elementwise.scans import RowScan
from dfc_target_cpu.llvm.text import FunctionText, Value
from dfc_target_cpu.llvm.values import i64, literal_int

_NEAR_ROWS = 2
"""Length of rows, in nearest caches, up to which the next one is asked for."""


class Accumulators:
    """The running values of one reduction, `copies` vectors of them; registers once optimised."""

    def __init__(self, f: FunctionText, fold: TypedReduction, lanes: int, copies: int) -> None:
        self.f, self.fold, self.lanes, self.copies = f, fold, lanes, copies
        self.types = fold.types(lanes)
        self.arrays = [self.f.alloca(f"[{copies} x {kind}]") for kind in self.types]
        for copy in range(copies):
            self._write(self._slots(i64(copy)), fold.identity(lanes))

    def _slots(self, copy: Value) -> list[Value]:
        return [self.f.gep(kind, array, copy) for kind, array in zip(self.types, self.arrays, strict=True)]

    def _write(self, slots: list[Value], values: list[Value]) -> None:
        for slot, value in zip(slots, values, strict=True):
            self.f.store(value, slot)

    def _read(self, copy: Value) -> list[Value]:
        return [self.f.load(kind, slot) for kind, slot in zip(self.types, self._slots(copy), strict=True)]

    def add(self, copy: Value, new: list[Value], mask: Value | None) -> None:
        self._write(self._slots(copy), self.fold.combine(self.f, self._read(copy), self.fold.masked(self.f, mask, new)))

    def replace(self, values: list[Value]) -> None:
        """Go on from other values than neutral ones; for one copy."""
        self._write(self._slots(i64(0)), values)

    def add_all(self, later: "Accumulators") -> None:
        """Each takes the one of its number."""
        for copy in map(i64, range(self.copies)):
            self._write(self._slots(copy), self.fold.combine(self.f, self._read(copy), later._read(copy)))

    def total(self, *, lanes: bool) -> list[Value]:
        """All copies as one, halves on halves, and where `lanes` of a vector are accumulators those as well."""
        totals = [self._read(i64(copy)) for copy in range(self.copies)]
        while len(totals) > 1:
            half = len(totals) // 2
            totals = [self.fold.combine(self.f, a, b) for a, b in zip(totals[:half], totals[half:], strict=True)]
        return self.fold.across(self.f, totals[0]) if lanes else totals[0]


def typed_reductions(plan: StagePlan) -> list[TypedReduction]:
    """The reductions of a stage, each with the type that it combines."""
    stage = plan.order.stage
    return [TypedReduction(one, stage.body[one.value].dtype) for one in stage.reductions]


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
    masks: list[Value]  # of the end of a row

    def run(self, point: Point) -> None:
        """All of the stage; its reductions are in `point.reduced` afterwards."""
        self.body.emit(self.outer_levels, point)
        if self.plan.scan is not None:
            row = RowScan(self.site, self.plan, self.plan.scan, self.body, self.outer_levels + 1)
            return row.run(point, self.extents[self.plan.vector], self.masks)
        for number, (fold, total) in enumerate(zip(self.folds(), self._parts(point), strict=True)):
            point.reduced[self.number, number] = fold.result(self.site.f, total)
        return None

    def folds(self) -> list[TypedReduction]:
        return typed_reductions(self.plan)

    def _parts(self, point: Point) -> list[list[Value]]:
        """What the reductions make of all inner points."""
        f, order = self.site.f, self.plan.order
        if not order.stage.reductions or not self.plan.has_parts:
            return self.part(point, None)
        totals = self._start(1 if self.by_rows else self.plan.lanes, 1)
        last, size = self.extents[order.axes[0]], self.site.dims.value(order.part)
        with f.counted_loop(i64(0), last, size, "part") as loop:
            part = self.part(point, (loop.index, f.minimum(f.add(loop.index, size), last)))
            for total, one in zip(totals, part, strict=True):
                total.add(i64(0), one, None)
        return [total.total(lanes=False) for total in totals]

    def part(self, point: Point, span: tuple[Value, Value] | None) -> list[list[Value]]:
        """What they make of one part: of the points in `span` of the first inner axis, or of all."""
        f, order = self.site.f, self.plan.order
        if not order.stage.reductions or not self.plan.has_blocks:
            return self._one_block(point, span)
        totals = self._accumulators()
        first, last = span if span is not None else (i64(0), self.extents[order.axes[0]])
        size = self.site.dims.value(order.block)
        with f.counted_loop(first, last, size, "block") as loop:
            block = self._accumulators()
            self._iterate(point, block, (loop.index, f.minimum(f.add(loop.index, size), last)))
            for total, one in zip(totals, block, strict=True):
                total.add_all(one)
        return [total.total(lanes=self.by_rows) for total in totals]

    def _one_block(self, point: Point, span: tuple[Value, Value] | None) -> list[list[Value]]:
        totals = self._accumulators()
        self._iterate(point, totals, span)
        return [total.total(lanes=self.by_rows) for total in totals]

    def _accumulators(self) -> list[Accumulators]:
        return self._start(self.plan.lanes, self.plan.unroll)

    def _start(self, lanes: int, copies: int) -> list[Accumulators]:
        return [Accumulators(self.site.f, one, lanes, copies) for one in self.folds()]

    def _iterate(self, point: Point, accumulators: list[Accumulators], span: tuple[Value, Value] | None) -> None:
        """The loops over the inner axes; `span` limits the first of them."""
        inner = self.plan.order.axes
        if not inner:
            self.finish(point, accumulators, i64(0))
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
        self.body.emit(self.outer_levels + len(self.plan.order.axes) - left, point)

    def _innermost(self, point: Point, accumulators: list[Accumulators], first: Value, last: Value) -> None:
        def emit(index: Value, mask: Value | None, copy: Value) -> None:
            self.at(point, accumulators, index, mask, copy)

        if self.plan.is_one_vector:
            return emit(first, self.masks[0] if self.masks else None, i64(0))
        lanes, rolled = self.plan.lanes if self.by_rows else 1, self.plan.rolled
        return vector_loop(self.site.f, first, last, lanes, self.plan.unroll, emit, rolled=rolled, masks=self.masks)

    def at(self, point: Point, accumulators: list[Accumulators], index: Value, mask: Value | None, copy: Value) -> None:
        """One vector, or one point, of the innermost axis."""
        inside = point.inner(self.plan.order.axes[-1], index, mask)
        self._enter(0, inside)
        self.finish(inside, accumulators, copy)

    def finish(self, point: Point, accumulators: list[Accumulators], copy: Value) -> None:
        """At the innermost point: fold and store."""
        stage = self.plan.order.stage
        for one in accumulators:
            new = [self.body.stored(one.fold.reduction.value, point)]
            if one.fold.is_search:
                new.append(self._position(point))
            one.add(copy, new, point.mask)
        for store, access in zip(stage.stores, self.plan.order.access.stores, strict=True):
            self.body.store(point, access, self.body.stored(store.value, point), store.combine)

    def _position(self, point: Point) -> Value:
        """The index along the single inner axis, in all lanes."""
        if not self.plan.order.axes:
            return self.body.all_lanes(point, i64(0))
        axis = self.plan.order.axes[-1]
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
        self.masks: dict[tuple[Value, int, int, bool, bool], list[Value]] = {}
        self.stages = [self._stage(number, common, written) for number in range(len(plan.stages))]

    def _stage(self, number: int, common: tuple[int, ...], written: frozenset[int]) -> StageCode:
        plan = self.plan.stages[number]
        by_rows = plan.vector != NONE
        body = BodyCode(
            self.site,
            plan.order.stage.body,
            plan.order.access,
            (*common, *plan.order.axes),
            plan.vector if by_rows else self.plan.vector,
            outer_levels=self.outer_levels,
            outer_varies=not by_rows and self.plan.vector != NONE,
            written=written if len(self.plan.stages) > 1 or self.plan.kernel.ordered else frozenset(),
            in_order=self.plan.kernel.ordered,
            prefetch_distance=self._prefetch_distance(number),
        )
        extents = [self.site.dims.value(extent) for extent in plan.order.extents]
        masks = self._masks(plan, extents) if by_rows else []
        return StageCode(self.site, plan, number, body, self.outer_levels, extents, by_rows, masks)

    def _prefetch_distance(self, number: int) -> PrefetchDistance:
        """What a stage asks for ahead. Long arithmetic leaves time to bring the row behind this one, which no processor
        sees coming where rows are pages. What is much longer than the nearest cache is gone again before it is used."""
        if self.plan.is_long_map:
            return lambda _: STREAM_PREFETCH
        if not self.plan.asks_for_rows(number):
            return lambda _: None
        f, dims, first = self.site.f, self.site.dims, self.plan.stages[0].order.access
        again = {one.operand for one in first.loads.values()}

        def distance(access: Access) -> Value | None:
            if access.operand not in again:
                return None
            element = self.site.operands[access.operand].dtype.size
            size = dims.value(access.coefficients[self.plan.outer[-1]] * element)
            return f.select(f.icmp("ule", size, i64(_NEAR_ROWS * self.site.machine.l1_bytes)), size, i64(0))

        by_operand = {one.operand: distance(one) for one in self.plan.stages[number].order.access.loads.values()}
        return lambda access: by_operand[access.operand]

    def _masks(self, plan: StagePlan, extents: list[Value]) -> list[Value]:
        """Computed before all loops, where the run alone knows them. Stages of one shape share them."""
        row, f = extents[plan.vector], self.site.f
        if literal_int(row) is not None:
            return []
        key = (row, plan.lanes, plan.unroll, plan.rolled, plan.is_one_vector)
        if key not in self.masks:
            one = plan.is_one_vector and plan.lanes > 1
            whole = [f.tail_mask(row, plan.lanes)] if one else None
            self.masks[key] = whole or tail_masks(f, row, plan.lanes, plan.unroll, rolled=plan.rolled)
        return self.masks[key]

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
