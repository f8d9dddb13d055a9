"""The schedule of a loop kernel: which axes are merged, which one fills the lanes, how the work is cut.

Pure analysis over the accesses of `dfc.kernels.access`. Assumes a well-formed kernel. Guarantees that the plan is a
function of the kernel and the machine alone, never of the number of threads.

- `lanes over an outer axis`: neighbouring outer points share a vector; inner axes run one after the other. Maps, column
  reductions and ordered kernels are done so (a map's axes are all outer).
- `rows`: each outer point by itself; every stage puts the lanes along one of its inner axes. The lanes and accumulators
  of a sum are a matter of its length alone, not of what else is fused with it, or bits would depend on fusion.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dfc.ir.dims import ONE, Dim, product
from dfc.kernels.access import NONE, Access, StageAccess, kernel_access, named_axes
from dfc.kernels.body import Apply, Instruction, Number, Philox, Size
from dfc.kernels.form import LoopKernel, Stage
from dfc.kernels.levels import varying
from dfc_target_cpu.elementwise.types import register_bytes
from dfc_target_cpu.machine import Machine

_COSTLY = frozenset(("exp", "log", "log1p", "sin", "cos", "tanh", "erf", "pow"))
_MEMORY_COST, _COSTLY_COST, _RANDOM_COST, _DIVISION_COST = 2, 16, 60, 5
MOST_LANES, MOST_GATHERED_LANES = 64, 16
_WIDE, _LIGHT, _HEAVY = 4, 8, 40


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage: its inner axes in loop order (merged ones gone: `extents` are its own); `vector` is the last of them,
    or none."""

    stage: Stage
    access: StageAccess
    inner: tuple[int, ...]
    extents: tuple[Dim, ...]
    vector: int
    lanes: int
    unroll: int
    rolled: bool = False  # whether the accumulators take turns in a loop: a point is too much work to stand there often

    @property
    def points(self) -> Dim:
        """How many inner points there are."""
        return product(self.extents[axis] for axis in self.inner)


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """A kernel: `outer` axes in loop order without `vector`, which fills the lanes when it is not NONE."""

    kernel: LoopKernel
    extents: tuple[Dim, ...]
    outer: tuple[int, ...]
    vector: int
    lanes: int
    stages: tuple[StagePlan, ...]
    spread: bool  # lanes of some load lie in rows of their own, along which an outer axis runs
    wide: int  # so many vectors are worked on at once, where there are as many

    def widened(self) -> "LoopPlan":
        """The same schedule with all vectors that are worked on at once as one."""
        stages = tuple(replace(stage, lanes=stage.lanes * self.wide) for stage in self.stages)
        return replace(self, lanes=self.lanes * self.wide, stages=stages, wide=1)

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Extents of everything at the outer level."""
        axes = (*self.outer, self.vector) if self.vector != NONE else self.outer
        return tuple(self.extents[axis] for axis in axes)


def plan_loops(kernel: LoopKernel, machine: Machine) -> LoopPlan:
    """The schedule of a kernel."""
    kernel = _all_outer(kernel)
    access = kernel_access(kernel)
    merging = _Merging(kernel, access)
    extents = [axis.extent for axis in kernel.axes]
    outer = merging.merge(tuple(range(kernel.outer)), access, extents)
    work: list[_StageWork] = []
    for stage, one in zip(kernel.stages, access, strict=True):
        own = list(extents)
        work.append(_StageWork(stage, one, merging.merge(stage.axes, [one], own), tuple(own)))
    vector = _outer_vector(outer, work, extents, kernel.ordered)
    lanes = _common_lanes(kernel, access, vector, machine)
    by_rows = vector == NONE and not kernel.ordered
    stages = [_plan_stage(one, lanes, by_rows, machine) for one in work]
    rest = tuple(axis for axis in outer if axis != vector)
    spread = vector != NONE and any(_is_spread(one, rest, vector) for a in access for one in a.all())
    return LoopPlan(
        kernel, tuple(extents), rest, vector, lanes, tuple(stages), spread, _wide(work, lanes, vector, extents)
    )


def _all_outer(kernel: LoopKernel) -> LoopKernel:
    """A single stage that folds nothing is parallel in all its axes."""
    if kernel.ordered or len(kernel.stages) != 1 or kernel.stages[0].reductions:
        return kernel
    stage = kernel.stages[0]
    if stage.axes != tuple(range(kernel.outer, len(kernel.axes))):
        return kernel
    return replace(kernel, outer=len(kernel.axes), stages=(replace(stage, axes=()),))


def _wide(work: Sequence["_StageWork"], lanes: int, vector: int, extents: Sequence[Dim]) -> int:
    """Light folds down columns run over several vectors at once, to use whole pieces of each row of memory."""
    cost = sum(point_cost(one.stage.body) for one in work if one.inner)
    if vector == NONE or not cost or cost > _LIGHT or any(one.misfits(vector, True) for one in work):
        return 1
    extent = extents[vector].constant
    return 1 if extent is not None and extent < _WIDE * lanes else _WIDE


def _is_spread(one: Access, outer: Sequence[int], vector: int) -> bool:
    """Whether neighbours along an outer axis are neighbours in memory, and lanes are not."""
    step = one.coefficients[vector].constant
    return step not in (0, 1, -1) and any(one.coefficients[axis] == ONE for axis in outer)


class _Merging:
    """Axes with neighbours merged: the extent of the inner one becomes the product, the outer one goes."""

    def __init__(self, kernel: LoopKernel, access: Sequence[StageAccess]) -> None:
        self.allowed = not kernel.ordered
        pairs = zip(kernel.stages, access, strict=True)
        self.named = set[int]().union(*(named_axes(s.body, a) for s, a in pairs))

    def merge(self, axes: Sequence[int], accesses: Sequence[StageAccess], extents: list[Dim]) -> tuple[int, ...]:
        """What is left of `axes`: those of extent 1 are dropped, neighbours that all accesses step through alike
        are one. Changes `extents`."""
        kept: list[int] = []
        for axis in axes:
            if extents[axis] == ONE:
                continue
            if kept and self.allowed and self._mergeable(kept[-1], axis, accesses, extents[axis]):
                outer = kept.pop()
                extents[axis] = extents[outer] * extents[axis]
            kept.append(axis)
        return tuple(kept)

    def _mergeable(self, outer: int, inner: int, accesses: Sequence[StageAccess], extent: Dim) -> bool:
        if outer in self.named or inner in self.named:
            return False
        return all(
            one.coefficients[outer] == one.coefficients[inner] * extent for stage in accesses for one in stage.all()
        )


def _misfit(one: Access, axis: int, varies: Sequence[bool], stored: bool) -> int:
    """How badly an access suits lanes along `axis`: 0 for neighbours in memory or one element for all."""
    looked_up = any(
        varies[lookup.instruction] if lookup.instruction != NONE else axis in one.named_axes() for lookup in one.lookups
    )
    step = one.coefficients[axis].constant
    if not looked_up and (step == 1 or (step == 0 and not stored)):
        return 0
    return 3 if stored else 2


def _misfits(stage_body: Sequence[Instruction], access: StageAccess, axis: int, reduced_vary: bool) -> int:
    varies = varying(stage_body, access, (axis,), reduced=reduced_vary, accumulated=reduced_vary)
    loads = sum(_misfit(one, axis, varies, False) for one in access.loads.values())
    return loads + sum(_misfit(one, axis, varies, True) for one in access.stores)


@dataclass(frozen=True, slots=True)
class _StageWork:
    """A stage with its inner axes merged."""

    stage: Stage
    access: StageAccess
    inner: tuple[int, ...]
    extents: tuple[Dim, ...]

    def misfits(self, axis: int, reduced_vary: bool) -> int:
        return _misfits(self.stage.body, self.access, axis, reduced_vary)


def _outer_vector(outer: tuple[int, ...], work: Sequence[_StageWork], extents: Sequence[Dim], ordered: bool) -> int:
    """The outer axis to fill lanes with, or NONE where rows (or single points) are better."""

    def misfit(axis: int) -> int:
        few = extents[axis].constant is not None and (extents[axis].constant or 0) < 4
        return sum(one.misfits(axis, True) for one in work) + few

    best = min(outer, key=lambda axis: (misfit(axis), -outer.index(axis)), default=NONE)
    if best == NONE or (ordered and misfit(best) > 1):
        return NONE
    if ordered or not any(one.inner for one in work):
        return best
    rows = sum(min((one.misfits(axis, False) for axis in one.inner), default=0) for one in work)
    return NONE if rows <= misfit(best) else best


def _lanes(stages: Iterable[tuple[Sequence[Instruction], StageAccess]], axis: int, reduced: bool, machine: Machine):
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
        gathers = gathers or _misfits(body, access, axis, reduced) > 0
    return min(machine.vector_bits // 8 // widest, MOST_GATHERED_LANES if gathers else MOST_LANES)


def lanes_along(body: Sequence[Instruction], access: StageAccess, axis: int, machine: Machine) -> int:
    """Lanes for a body by itself whose outer values differ along the axis."""
    return _lanes([(body, access)], axis, True, machine)


def _common_lanes(kernel: LoopKernel, access: Sequence[StageAccess], vector: int, machine: Machine) -> int:
    if vector == NONE:
        return 1
    return _lanes(((s.body, a) for s, a in zip(kernel.stages, access, strict=True)), vector, True, machine)


def _plan_stage(one: _StageWork, lanes: int, by_rows: bool, machine: Machine) -> StagePlan:
    """`lanes`: what the outer level has; a stage of rows has its own."""
    stage, access, inner, extents = one.stage, one.access, one.inner, one.extents
    if not by_rows or not inner:
        return StagePlan(stage, access, inner, extents, NONE, lanes, 1)
    best = min(inner, key=lambda axis: (one.misfits(axis, False), -inner.index(axis)))
    order = (*(axis for axis in inner if axis != best), best)
    own = _sum_lanes(stage, machine) or _lanes([(stage.body, access)], best, False, machine)
    unroll = _unroll(stage, order, extents)
    return StagePlan(stage, access, order, extents, best, own, unroll, unroll > 1 and point_cost(stage.body) > _HEAVY)


def _sum_lanes(stage: Stage, machine: Machine) -> int:
    """Lanes for sums and products that depend on their order, the same for all types; 0 if there is none."""
    folds = (stage.body[one.value].dtype for one in stage.reductions if one.combine in ("add", "mul"))
    return machine.lanes(32) if any(dtype.is_float for dtype in folds) else 0


def _unroll(stage: Stage, inner: tuple[int, ...], extents: Sequence[Dim]) -> int:
    """Independent accumulators, to cover the latency of adding."""
    if not stage.reductions or not inner:
        return 1
    length = extents[inner[-1]].constant
    return 1 if length is not None and length < 64 else 4


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
