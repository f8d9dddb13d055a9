"""The schedule of a loop kernel: which axis fills the lanes, how many there are, how the work is cut.

Pure analysis over `dfc.kernels.orders`, which say what is combined with what.
Assumes a well-formed kernel. Guarantees that the plan is a function of the kernel and the machine alone, never of the
number of threads.

- `lanes over an outer axis`: neighbouring outer points share a vector; inner axes run one after the other. Maps, column
  reductions and ordered kernels are done so (a map's axes are all outer).
- `scans of rows`: each outer point by itself, a segment of `dfc.kernels.orders.scan` to a vector.
- `rows`: each outer point by itself; every stage puts the lanes along the row of its order. The accumulators of that
  order are four vectors, of more than one register where registers are narrow. Where a row turns out to be one vector,
  the others hold neutral elements, which change no value: they are left out, and the bits are the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, Dim
from dfc.kernels.access import NONE, Access, StageAccess
from dfc.kernels.axes import all_outer, misfits
from dfc.kernels.body import Apply, Instruction, Number, Philox, Size
from dfc.kernels.form import LoopKernel, Stage
from dfc.kernels.levels import varying
from dfc.kernels.orders.reduction import ACCUMULATORS, KernelOrder, StageOrder, kernel_order
from dfc.kernels.orders.scan import SEGMENT, Scan, scan_order
from dfc_target_cpu.elementwise.accesses import MOST_SHUFFLED
from dfc_target_cpu.elementwise.types import register_bytes
from dfc_target_cpu.machine import Machine

_COSTLY = frozenset(("exp", "exp_of_nonpositive", "log", "log1p", "sin", "cos", "tanh", "sigmoid", "erf", "pow"))
_MEMORY_COST, _COSTLY_COST, _RANDOM_COST, _DIVISION_COST = 2, 16, 60, 5
MOST_LANES, MOST_GATHERED_LANES = 64, 16
_WIDE, _LIGHT, _HEAVY = 4, 8, 40
_COPIES = 4
_LONG_MAP = 1 << 14
_SHORT_AXIS = 4
"""An axis up to this length fills so few lanes that others are better, though their neighbours lie apart."""
_SHORT_SCAN = 8
"""Rows of a scan up to this length have narrower vectors."""


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage: its order, and the lanes of its vectors, along `vector` or (none) along an outer axis; `unroll` of
    them make its accumulators."""

    order: StageOrder
    vector: int
    lanes: int
    unroll: int
    rolled: bool = False  # whether the accumulators take turns in a loop: a point is too much work to stand there often
    most: int | None = None  # how long a row is, at most, if the run has asked: see `short_rows`
    scan: Scan | None = None  # what it scans, if vectors are segments of a scan's rows

    @property
    def is_one_vector(self) -> bool:
        """Whether a row is one vector at most, and at least one element."""
        return self.most is not None and self.most <= self.lanes

    @property
    def has_blocks(self) -> bool:
        return self.most is None and self.order.has_blocks

    @property
    def has_parts(self) -> bool:
        return self.most is None and self.order.has_parts

    @property
    def has_unknown_rows(self) -> bool:
        return len(self.order.axes) == 1 and self.vector != NONE and self.order.row.constant is None

    def within(self, most: int) -> "StagePlan":
        """The same for rows of a length up to `most`: one block."""
        if not self.has_unknown_rows:
            return self
        if self.scan is not None:
            return replace(self, most=most, lanes=most)
        return replace(self, most=most, unroll=1 if most <= self.lanes else self.unroll)


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """A kernel: `outer` axes in loop order without `vector`, which fills the lanes when it is not NONE."""

    kernel: LoopKernel
    extents: tuple[Dim, ...]
    outer: tuple[int, ...]
    vector: int
    lanes: int
    stages: tuple[StagePlan, ...]
    is_gathered: bool  # lanes of some load lie in rows of their own, along which an outer axis runs
    wide: int  # so many vectors are worked on at once, where there are as many

    def widened(self) -> "LoopPlan":
        """The same schedule with all vectors that are worked on at once as one."""
        stages = tuple(replace(stage, lanes=stage.lanes * self.wide) for stage in self.stages)
        return replace(self, lanes=self.lanes * self.wide, stages=stages, wide=1)

    @property
    def is_long_map(self) -> bool:
        """Whether neighbours of the vector axis are computed one after the other in one pass, and may be many."""
        if self.vector == NONE or len(self.stages) > 1 or any(stage.order.axes for stage in self.stages):
            return False
        extent = self.extents[self.vector].constant
        return not self.is_gathered and (extent is None or extent > _LONG_MAP)

    def asks_for_rows(self, number: int) -> bool:
        """Whether a stage has so much to do with a row that the next one can be brought meanwhile."""
        stage = self.stages[number].order
        cost = point_cost(stage.stage.body)
        return number > 0 and bool(self.outer) and bool(stage.axes) and self.vector == NONE and cost >= _COSTLY_COST

    def short_rows(self) -> list[tuple[int, "LoopPlan"]]:
        """The same for rows that the run finds to be short, which have code of their own: up to how long, and the plan.
        They are one vector; or one block, unless a point is too much work to stand there often."""
        stages = [one for one in self.stages if one.has_unknown_rows and (one.order.stage.reductions or one.scan)]
        if not stages:
            return []
        lengths = [min(_SHORT_SCAN if one.scan else one.lanes for one in stages)]
        if all(not one.scan and one.order.has_blocks and point_cost(one.order.stage.body) <= _HEAVY for one in stages):
            lengths += [min(one.order.block.constant or 0 for one in stages)]
        plans = [replace(self, stages=tuple(one.within(most) for one in self.stages)) for most in lengths]
        return list(zip(lengths, plans, strict=True))

    def unknown_rows(self) -> list[Dim]:
        """The lengths that `short_rows` asks for."""
        return list(dict.fromkeys(one.order.row for one in self.stages if one.has_unknown_rows))

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Extents of everything at the outer level."""
        axes = (*self.outer, self.vector) if self.vector != NONE else self.outer
        return tuple(self.extents[axis] for axis in axes)


def plan_loops(kernel: LoopKernel, machine: Machine, *, in_order: bool = False) -> LoopPlan:
    """The schedule of a kernel; with `in_order` the loops over outer axes stand in their order, lanes innermost."""
    kernel = all_outer(kernel)
    order = kernel_order(kernel)
    scan = scan_order(kernel)
    if scan is not None and scan.by_rows and order.stages[0].axes:
        length = scan.length.constant
        lanes = SEGMENT if length is None else min(SEGMENT, 1 << max(length - 1, 1).bit_length())
        stage = StagePlan(order.stages[0], scan.scan.axis, lanes, 1, scan=scan.scan)
        return LoopPlan(kernel, order.extents, order.outer, NONE, 1, (stage,), False, 1)
    vector = NONE if order.by_rows else _outer_vector(order)
    if in_order and vector != NONE:
        vector = order.outer[-1]
    lanes = 1 if vector == NONE else _lanes(((s.stage.body, s.access) for s in order.stages), vector, True, machine)
    stages = tuple(_plan_stage(one, lanes, order.by_rows, machine) for one in order.stages)
    rest = tuple(axis for axis in order.outer if axis != vector)
    is_gathered = vector != NONE and any(_is_gathered(one, rest, vector) for a in order.access for one in a.all())
    wide = _wide(order, lanes, vector)
    return LoopPlan(kernel, order.extents, rest, vector, lanes, stages, is_gathered, wide)


def _outer_vector(order: KernelOrder) -> int:
    """The outer axis to fill lanes with, or NONE where points in their order are better by themselves."""
    best = min(order.outer, key=lambda axis: (order.outer_misfit(axis), -order.outer.index(axis)), default=NONE)
    if best == NONE or (order.kernel.ordered and order.outer_misfit(best) > 1):
        return NONE
    return _fuller(order, best) if _is_short(order.extents[best]) else best


def _is_short(extent: Dim) -> bool:
    return extent.constant is not None and extent.constant <= _SHORT_AXIS


def _fuller(order: KernelOrder, short: int) -> int:
    """Of a map whose best axis fills a few lanes, the last axis that fills more and stays near in memory, if any."""
    if order.kernel.ordered or any(one.axes for one in order.stages):
        return short
    fitting = [axis for axis in order.outer if not _is_short(order.extents[axis]) and _is_near(order, axis)]
    return fitting[-1] if fitting else short


def _is_near(order: KernelOrder, axis: int) -> bool:
    """Whether what neighbours along an axis read and write is the same or within a few elements."""
    every = [one for access in order.access for one in access.all()]
    steps = [None if one.lookups else one.coefficients[axis].constant for one in every]
    return all(step is not None and 0 <= step <= MOST_SHUFFLED for step in steps)


def _wide(order: KernelOrder, lanes: int, vector: int) -> int:
    """Light folds down columns run over several vectors at once, to use whole pieces of each row of memory."""
    cost = sum(point_cost(one.stage.body) for one in order.stages if one.axes)
    if vector == NONE or not cost or cost > _LIGHT:
        return 1
    if any(misfits(one.stage.body, one.access, vector, reduced_vary=True) for one in order.stages):
        return 1
    extent = order.extents[vector].constant
    return 1 if extent is not None and extent < _WIDE * lanes else _WIDE


def _is_gathered(one: Access, outer: Sequence[int], vector: int) -> bool:
    """Whether neighbours along an outer axis are neighbours in memory, and lanes are not."""
    step = one.coefficients[vector].constant
    return step not in (0, 1, -1) and any(one.coefficients[axis] == ONE for axis in outer)


def _lanes(
    stages: Iterable[tuple[Sequence[Instruction], StageAccess]], axis: int, reduced: bool, machine: Machine
) -> int:
    """Lanes for the widest type that varies along the axis."""
    widest, gathers = 1, False
    for body, access in stages:
        varies = varying(body, access, (axis,), reduced=reduced, accumulated=reduced)
        sizes = [
            register_bytes(one.dtype)
            for one, v in zip(body, varies, strict=True)
            if v and not isinstance(one.operation, Number | Size)
        ]
        widest = max([widest, *sizes])
        gathers = gathers or misfits(body, access, axis, reduced_vary=reduced) > 0
    return min(machine.vector_bits // 8 // widest, MOST_GATHERED_LANES if gathers else MOST_LANES)


def lanes_along(body: Sequence[Instruction], access: StageAccess, axis: int, machine: Machine) -> int:
    """Lanes for a body by itself whose outer values differ along the axis."""
    return _lanes([(body, access)], axis, True, machine)


def _plan_stage(one: StageOrder, lanes: int, by_rows: bool, machine: Machine) -> StagePlan:
    """`lanes`: what the outer level has; a stage of rows has its own."""
    if not by_rows or not one.axes:
        return StagePlan(one, NONE, lanes, 1)
    row = one.axes[-1]
    own = _ordered_lanes(one.stage) or _lanes([(one.stage.body, one.access)], row, False, machine)
    unroll = _unroll(one, own)
    return StagePlan(one, row, own, unroll, unroll > 1 and point_cost(one.stage.body) > _HEAVY)


def _ordered_lanes(stage: Stage) -> int:
    """Lanes for what depends on the order of its values, so that all accumulators are `_COPIES` vectors; 0 if there is
    none."""
    pairs = ((one.combine, stage.body[one.value].dtype) for one in stage.reductions)
    return ACCUMULATORS // _COPIES if any(t.is_float and not c.startswith("arg") for c, t in pairs) else 0


def _unroll(one: StageOrder, lanes: int) -> int:
    """Vectors of accumulators: enough to cover the latency of adding, but for rows that fill fewer."""
    if not one.stage.reductions:
        return 1
    length = one.row.constant
    needed = _COPIES if length is None else max(1, -(-length // lanes))
    return min(_COPIES, 1 << (needed - 1).bit_length())


def point_cost(body: Sequence[Instruction]) -> int:
    """Rough work at one point, in vector instructions."""
    return sum(_instruction_cost(one) for one in body)


def _instruction_cost(one: Instruction) -> int:
    operation = one.operation
    if isinstance(operation, Apply):
        if operation.function in _COSTLY:
            return _COSTLY_COST
        return _DIVISION_COST if operation.function in ("div", "sqrt", "rsqrt", "floordiv", "mod") else 1
    if isinstance(operation, Philox):
        return _RANDOM_COST
    return 0 if isinstance(operation, Number | Size) else _MEMORY_COST
