"""Long folds down columns, done by whole rows: threads share out the parts of a column, and read rows from end to end.

Column by column, a vector at a time, each row of memory is read in pieces of 64 bytes that lie far apart, which
processors do not see coming. Here running values of all columns of a piece lie in memory that stays in the nearest
cache, and each stage takes a few rows, all vectors of them, then the next rows.

Assumes a plan that `done_by_whole_rows` accepts: one outer axis, which fills the lanes, and sizes that are known while
compiling. Guarantees the order of `dfc.kernels.orders.reduction`: parts are combined one after the other, so 1 or many
threads give the same bits, which are those of the columns done by themselves.

Scratch memory that all parts of the kernel share: results of reductions, then partial results of one stage, part by
part; each is a row of `width` values.
"""

from collections.abc import Callable, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.access import NONE
from dfc.kernels.axes import misfits
from dfc.kernels.body import Reduced
from dfc_target_cpu.elementwise.accesses import Point
from dfc_target_cpu.elementwise.kernels import PART_WORK
from dfc_target_cpu.elementwise.loop_schedule import LoopPlan, StagePlan, point_cost
from dfc_target_cpu.elementwise.loops import vector_loop
from dfc_target_cpu.elementwise.reductions import TypedReduction
from dfc_target_cpu.elementwise.stages import Accumulators, LoopCode, typed_reductions
from dfc_target_cpu.elementwise.types import register_bytes, register_type
from dfc_target_cpu.entries.context_code import load_field
from dfc_target_cpu.entries.frames import PART, FrameFunction, Lowering
from dfc_target_cpu.entries.threads import pool_run
from dfc_target_cpu.llvm.text import Value
from dfc_target_cpu.llvm.values import i64, vector_type

_LEAST_PARTS = 4
"""Columns of fewer parts are left to threads column by column."""
_PIECE = 512
"""Columns that are done at once: whole pages of rows of 2 KiB, while the running values stay in the nearest cache."""
_ROWS = 8
"""Rows that are taken at once: what is the same down a column is computed once for them, as running values are read."""
_MOST_WORK = 64
"""Stages with more instructions than this at a point gain nothing from memory that is read in order."""
_MOST_SHARED = 1 << 23
"""Bytes of partial results, at most."""
_INDEX_BYTES = 8


def done_by_whole_rows(plan: LoopPlan) -> bool:
    """Whether a kernel is one fold down columns, or several, long enough to be worth it."""
    if plan.kernel.ordered or plan.vector == NONE or plan.outer or plan.extents[plan.vector].constant is None:
        return False
    if not all(_is_fitting(stage, plan.vector) for stage in plan.stages):
        return False
    lengths = [_parts(stage) for stage in plan.stages if stage.order.stage.reductions]
    if not lengths or max(lengths) < _LEAST_PARTS or not any(_fills_threads(plan, stage) for stage in plan.stages):
        return False
    return shared_bytes(plan) <= _MOST_SHARED


def _is_fitting(stage: StagePlan, vector: int) -> bool:
    """Whether rows of what a stage accesses lie in memory as lanes do, under at most one axis of known length."""
    order = stage.order
    if len(order.axes) > 1 or (order.stage.reductions and not order.axes):
        return False
    if order.axes and (order.first.constant is None or order.part.constant is None):
        return False
    if point_cost(order.stage.body) > _MOST_WORK:
        return False
    return not misfits(order.stage.body, order.access, vector, reduced_vary=True)


def _parts(stage: StagePlan) -> int:
    return (stage.order.parts.constant or 0) if stage.order.axes else 1


def _pieces(plan: LoopPlan) -> int:
    return -(-(plan.extents[plan.vector].constant or 0) // _PIECE)


def _fills_threads(plan: LoopPlan, stage: StagePlan) -> bool:
    """Whether a stage has work for several threads."""
    order = stage.order
    width, length = plan.extents[plan.vector].constant or 0, (order.first.constant or 0) if order.axes else 1
    cost = max(1, point_cost(order.stage.body) + 2 * len(order.stage.stores))
    return width * length * cost >= 2 * PART_WORK * plan.lanes


@dataclass(frozen=True, slots=True)
class _Rows:
    """Where rows of running values lie in shared memory: number `row` begins `row * bytes` behind its start."""

    element: int
    width: int

    @staticmethod
    def of(plan: LoopPlan) -> "_Rows":
        sizes = [_INDEX_BYTES if one.is_search else register_bytes(one.dtype) for one in _folds(plan)]
        sizes += [register_bytes(one.reduction.dtype) for one in _folds(plan)]
        return _Rows(max(sizes), -(-(plan.extents[plan.vector].constant or 0) // plan.lanes) * plan.lanes)

    @property
    def bytes(self) -> int:
        return -(-self.width * self.element // 64) * 64


def _folds(plan: LoopPlan) -> list[TypedReduction]:
    return [one for stage in plan.stages for one in typed_reductions(stage)]


def _components(stage: StagePlan) -> int:
    """Values that the running values of a stage are, at each column."""
    return sum(len(one.types(1)) for one in typed_reductions(stage))


def shared_bytes(plan: LoopPlan) -> int:
    """Bytes that all parts of a kernel share."""
    partials = max(_components(stage) * _parts(stage) for stage in plan.stages)
    return (len(_folds(plan)) + partials) * _Rows.of(plan).bytes


def lower_by_whole_rows(lowering: Lowering, plan: LoopPlan, number: int) -> str:
    """The functions of one kernel; the name to launch it by."""
    stages = range(len(plan.stages))
    parts = [_Part(lowering, plan, number, stage).build() for stage in stages]
    return _Run(lowering, plan, number, parts).build()


class _SharedFunction(FrameFunction):
    """A function that knows where in the shared memory of the kernel its rows lie."""

    def begin_shared(self, plan: LoopPlan) -> None:
        """Finds them, at the start of the code proper."""
        f, self.plan = self.f, plan
        self.rows, self.width = _Rows.of(plan), plan.extents[plan.vector].constant or 0
        self.results = f.gep("i8", load_field(f, self.context, "scratch"), i64(self.lowering.shared_start))
        self.partials = f.gep("i8", self.results, i64(len(_folds(plan)) * self.rows.bytes))

    def address(self, start: Value, row: Value, column: Value) -> Value:
        """Where the value of a column lies in a row."""
        f = self.f
        offset = f.add(f.mul(row, i64(self.rows.bytes)), f.mul(column, i64(self.rows.element)))
        return f.gep("i8", start, offset)

    def partial(self, stage: StagePlan, part: Value, column: Value) -> list[Value]:
        """Where the running values of a part lie at a column, reduction by reduction."""
        f, count = self.f, _components(stage)
        first = f.mul(part, i64(count))
        return [self.address(self.partials, f.add(first, i64(one)), column) for one in range(count)]

    def read(self, stage: StagePlan, addresses: Sequence[Value]) -> list[list[Value]]:
        """The running values of each reduction at these addresses."""
        kinds = [one.types(stage.lanes) for one in typed_reductions(stage)]
        rest = iter(addresses)
        return [[self.f.load(kind, next(rest), align=1) for kind in each] for each in kinds]

    def write(self, values: Sequence[Sequence[Value]], addresses: Sequence[Value]) -> None:
        for value, address in zip((one for each in values for one in each), addresses, strict=True):
            self.f.store(value, address, align=1)


class _Part(_SharedFunction):
    """`void rows_<n>_<stage>(context, frame, task, tasks)`: one stage in a part of the rows, at a piece of columns."""

    def __init__(self, lowering: Lowering, plan: LoopPlan, number: int, stage: int) -> None:
        super().__init__(lowering, plan.kernel, f"rows_{number}_{stage}", PART)
        self.whole, self.number, self.stage = plan, stage, plan.stages[stage]

    def build(self) -> str:
        f, order = self.f, self.stage.order
        site, task, pieces = self.site(), f.arguments[2], i64(_pieces(self.whole))
        self.begin_shared(self.whole)
        self.part, self.first = f.udiv(task, pieces), f.mul(f.urem(task, pieces), i64(_PIECE))
        self.last = f.minimum(f.add(self.first, i64(_PIECE)), i64(self.width))
        code = LoopCode(site, self.whole)
        self.code, self.point = code.stages[self.number], code.first_points()[self.number]
        self.code.body.emit(0, self.point)
        if not order.axes:
            self._points(lambda inside, _: self.code.finish(inside, [], i64(0)))
            return self.finish()
        length, size = order.first.constant or 0, order.part.constant or 0
        first = f.mul(self.part, i64(size))
        last = f.minimum(f.add(first, i64(size)), i64(length))
        if order.stage.reductions:
            self._fold(first, last)
        else:
            self._take_rows(first, last, lambda inside, _, rows: self._each(inside, [], rows))
        return self.finish()

    # --- rows

    def _fold(self, first: Value, last: Value) -> None:
        """The blocks of a part, in order: each begins anew in memory of its own, and is added to the whole part."""
        f, folds = self.f, typed_reductions(self.stage)
        neutral = [one.identity(self.stage.lanes) for one in folds]
        bytes_, count = _PIECE * self.rows.element, _components(self.stage)
        self.block = f.alloca("i8", count * bytes_, 64)
        self._vectors(lambda index: self.write(neutral, self.partial(self.stage, self.part, index)))
        size = self.stage.order.block.constant or 0
        with f.counted_loop(first, last, size, "block") as loop:
            self._vectors(lambda index: self.write(neutral, self._block_addresses(index)))
            self._take_rows(loop.index, f.minimum(f.add(loop.index, i64(size)), last), self._add_rows)
            self._vectors(self._end_block)

    def _block_addresses(self, column: Value) -> list[Value]:
        f, size = self.f, _PIECE * self.rows.element
        offset = f.mul(f.sub(column, self.first), i64(self.rows.element))
        return [f.gep("i8", self.block, f.add(offset, i64(one * size))) for one in range(_components(self.stage))]

    def _add_rows(self, inside: Point, column: Value, rows: Sequence[Value]) -> None:
        """Adds a few rows to the running values of a block, at one vector."""
        f, addresses = self.f, self._block_addresses(column)
        running = [Accumulators(f, one, self.stage.lanes, 1) for one in typed_reductions(self.stage)]
        for one, values in zip(running, self.read(self.stage, addresses), strict=True):
            one.replace(values)
        self._each(inside, running, rows)
        self.write([one.total(lanes=False) for one in running], addresses)

    def _end_block(self, column: Value) -> None:
        whole, block = self.partial(self.stage, self.part, column), self._block_addresses(column)
        before, after = self.read(self.stage, whole), self.read(self.stage, block)
        folds = zip(typed_reductions(self.stage), before, after, strict=True)
        self.write([fold.combine(self.f, a, b) for fold, a, b in folds], whole)

    def _take_rows(self, first: Value, last: Value, emit: Callable[[Point, Value, Sequence[Value]], None]) -> None:
        """Calls for every vector of a few rows, then of the next ones."""
        f = self.f
        some = f.add(first, f.bit_and(f.sub(last, first), i64(-_ROWS)))
        for start, stop, step in ((first, some, _ROWS), (some, last, 1)):
            with f.counted_loop(start, stop, step, "rows") as loop:
                rows = [f.add(loop.index, i64(one)) for one in range(step)]
                self._points(lambda inside, column, rows=rows: emit(inside, column, rows))

    def _each(self, inside: Point, running: list[Accumulators], rows: Sequence[Value]) -> None:
        for row in rows:
            self.code.at(inside, running, row, None, i64(0))

    # --- columns

    def _points(self, emit: Callable[[Point, Value], None]) -> None:
        """Calls at each vector of the piece, with what is the same down the column."""

        def at(column: Value, mask: Value | None, _: Value) -> None:
            inside = self.point.inner(self.plan.vector, column, mask)
            self._find_results(inside, column)
            self.code.body.emit(self.code.outer_levels, inside)
            emit(inside, column)

        exact = self.width % self.plan.lanes == 0
        vector_loop(self.f, self.first, self.last, self.plan.lanes, 1, at, exact=exact)

    def _vectors(self, emit: Callable[[Value], None]) -> None:
        """Calls at each vector of the piece; rows of running values are whole vectors."""
        with self.f.counted_loop(self.first, self.last, self.plan.lanes, "column") as loop:
            emit(loop.index)

    def _find_results(self, inside: Point, column: Value) -> None:
        """Results of earlier stages that this one uses."""
        for one in self.stage.order.stage.body:
            if isinstance(one.operation, Reduced):
                key = (one.operation.stage, one.operation.reduction)
                row = sum(len(each.order.stage.reductions) for each in self.plan.stages[: key[0]]) + key[1]
                kind = vector_type(self.plan.lanes, register_type(one.dtype))
                inside.reduced[key] = self.f.load(kind, self.address(self.results, i64(row), column), align=1)


class _Run(_SharedFunction):
    """`void run_<n>(context, frame)`: all stages, one after the other."""

    def __init__(self, lowering: Lowering, plan: LoopPlan, number: int, parts: Sequence[str]) -> None:
        super().__init__(lowering, plan.kernel, f"run_{number}", (), "hidden")
        self.whole, self.parts = plan, parts

    def build(self) -> str:
        self.begin()
        self.begin_shared(self.whole)
        row = 0
        for stage, name in zip(self.plan.stages, self.parts, strict=True):
            self._run_stage(stage, name)
            self._combine(stage, row)
            row += len(stage.order.stage.reductions)
        return self.finish()

    def _run_stage(self, stage: StagePlan, name: str) -> None:
        """Every part of a stage at every piece of columns, on several threads where that is worth it."""
        f, tasks = self.f, i64(_parts(stage) * _pieces(self.plan))
        if _fills_threads(self.plan, stage):
            run = pool_run(self.lowering.module, self.lowering.machine)
            f.call(run, "void", [self.context, Value("ptr", f"@{name}"), self.frame, tasks])
            return
        with f.counted_loop(i64(0), tasks, hint="task") as loop:
            f.call(name, "void", [self.context, self.frame, loop.index, tasks])

    def _combine(self, stage: StagePlan, row: int) -> None:
        """Partial results in the order of the parts, as results."""
        f, folds = self.f, typed_reductions(stage)
        if not folds:
            return
        with f.counted_loop(i64(0), i64(self.width), stage.lanes, "column") as columns:
            totals = [Accumulators(f, one, stage.lanes, 1) for one in folds]
            with f.counted_loop(i64(0), i64(_parts(stage)), hint="part") as loop:
                addresses = self.partial(stage, loop.index, columns.index)
                for total, values in zip(totals, self.read(stage, addresses), strict=True):
                    total.add(i64(0), values, None)
            for number, (fold, total) in enumerate(zip(folds, totals, strict=True)):
                address = self.address(self.results, i64(row + number), columns.index)
                f.store(fold.result(f, total.total(lanes=False)), address, align=1)
