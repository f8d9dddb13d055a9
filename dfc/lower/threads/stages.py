"""The layout of a kernel with stages: teams along rows or columns, groups of neighbours, rows kept in registers.

Pure analysis. Guarantees that the layout is a function of the kernel and the schedule alone, and that it is one for the
order of `dfc.kernels.orders.reduction`.
"""

from __future__ import annotations

from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, ZERO, Dim, ceil_divide, dim, is_multiple, minimum
from dfc.kernels.access import Access, written_operands
from dfc.kernels.form import LoopKernel
from dfc.kernels.orders.reduction import StageOrder, kernel_order
from dfc.lower.threads.schedule import ZEROED, Geometry, Schedule
from dfc.lower.threads.teams import Team, column_team, power_of_two, row_team, split_team
from dfc.lower.threads.wide import NARROW, Wide, fastest_last, find_wide

PARTIAL = 8
"""Bytes of a partial result in the workspace, of any type."""
_TICKET = 4
_BLOCKS = 8
_GROUP = 2
"""Neighbours that a lane takes at once where that is one access."""
_REGISTERS = 16
"""Most elements of a row that a lane keeps."""


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage in its order: how many accumulators a lane has (`copies`), and how many of these are neighbours
    (`group`), taken through the accesses of `wide`. `once`: it runs once at an outer point and folds nothing."""

    order: StageOrder
    once: bool
    group: int = 1
    copies: int = 1
    wide: Wide = NARROW


class ThreadLayout:
    """How a kernel is spread over threads."""

    def __init__(self, kernel: LoopKernel, schedule: Schedule, *, short: bool = False) -> None:
        """`short`: for rows of one block, where their length is not known yet."""
        self.kernel, self.schedule, self.short = kernel, schedule, short
        self.written = written_operands(kernel.stages)
        order = kernel_order(kernel)
        plans = [StagePlan(one, not one.stage.axes and not one.stage.reductions) for one in order.stages]
        self.extents = order.extents
        self.by_rows = order.by_rows and not all(plan.once for plan in plans)
        self.outer = order.outer
        if not self.by_rows:
            looped = [plan.order for plan in plans if plan.order.axes or plan.once]
            self.outer = fastest_last(order.outer, [(one.stage.body, one.access) for one in looped])
        self.points = order.points
        self.looped = [plan.order for plan in plans if not plan.once]
        self.team = self._team()
        self.stages = self._with_lanes(plans) if self.by_rows else plans
        self.registers = self.by_rows and self._fits_registers()
        self.tiles = ceil_divide(self.points, dim(self.team.points))
        assert _TICKET * schedule.blocks // 2 <= ZEROED, "a ticket for each tile that is split"

    # --- what a launch needs

    @property
    def is_split(self) -> bool:
        """Whether several blocks of threads share the parts of a tile."""
        return self.team.splits != ONE

    @property
    def geometry(self) -> Geometry:
        """Blocks beyond the most take turns."""
        return Geometry(self.tiles * self.team.splits, 1, self.team.threads, self.schedule.blocks * _BLOCKS)

    @property
    def workspace(self) -> Dim:
        """Bytes: a ticket for each tile that is split, and what each part makes of each point."""
        if not self.is_split:
            return ZERO
        first = self.stages[0].order
        kept = sum(2 if reduction.combine.startswith("arg") else 1 for reduction in first.stage.reductions)
        needed = dim(ZEROED) + dim(PARTIAL * kept) * self.points * first.parts
        return needed * minimum(self.team.splits - 1, ONE)

    # --- rows or columns

    def _team(self) -> Team:
        if self.by_rows:
            team = row_team(self.looped, self.schedule, short=self.short)
        else:
            team = column_team(self.looped, self.schedule, alone=self.kernel.ordered or not self.looped)
        if self.short or not self._can_split():
            return team
        return split_team(team, self.looped[0], self.points, self.schedule)

    @property
    def has_rows_of_any_length(self) -> bool:
        """Whether only the sizes of a call say how many threads suit a row."""
        return self.by_rows and self.points != ONE and any(one.points.constant is None for one in self.looped)

    def _can_split(self) -> bool:
        """Only where one stage folds, before all others: what comes later is done by the block that is last."""
        folding = [number for number, stage in enumerate(self.kernel.stages) if stage.reductions]
        return folding == [0] and not self.kernel.ordered

    # --- groups and registers

    def _with_lanes(self, plans: list[StagePlan]) -> list[StagePlan]:
        """The stages with the accumulators of a lane; all of them in groups, or none."""
        wides = [self._wide(plan) for plan in plans if not plan.once]
        group = _GROUP if wides and all(wide.lanes == _GROUP for wide in wides) else 1
        planned: list[StagePlan] = []
        for plan in plans:
            if plan.once or not plan.order.axes:
                planned.append(plan)
                continue
            lanes, length = self.team.lanes, plan.order.row.constant
            most = plan.order.accumulators // lanes
            needed = most if length is None else group * power_of_two(-(-length // (group * lanes)))
            wide = self._wide(plan) if group > 1 else NARROW
            planned.append(replace(plan, group=group, copies=max(group, min(most, needed)), wide=wide))
        return planned

    def _wide(self, plan: StagePlan) -> Wide:
        """Groups of neighbours as one access; never where the rows themselves are no whole number of them."""
        last = plan.order.row
        if not plan.order.axes or not is_multiple(last, _GROUP) or last.constant == 0:
            return NARROW
        bodies = [(plan.order.stage.body, plan.order.access)]
        wide = find_wide(self.kernel, bodies, plan.order.axes[-1], [], self.schedule.vector_bytes, lanes=_GROUP)
        return NARROW if wide.multiples else wide

    def _fits_registers(self) -> bool:
        """Several passes over one row of known length that fits: each worker has one block at most."""
        looped = [plan for plan in self.stages if not plan.once]
        if len(looped) < 2 or self.team.splits != ONE:
            return False
        first = looped[0]
        size, block = first.order.points.constant, first.order.block.constant or 0
        if not size or len(first.order.axes) != 1 or size > block * self.team.workers:
            return False
        if min(size, block) > _REGISTERS * self.team.lanes:
            return False
        return all(
            (plan.order.axes, plan.order.points, plan.group) == (first.order.axes, first.order.points, first.group)
            for plan in looped
        )

    def dead_stores(self, number: int) -> frozenset[int]:
        """Stores of a stage that a later one writes over, where every load between has the value in a register."""
        plan = self.stages[number]
        dead: set[int] = set()
        for position, (store, access) in enumerate(zip(plan.order.stage.stores, plan.order.access.stores, strict=True)):
            if store.combine or access.lookups or not self._only_through(access):
                continue
            later = [other for other in self.stages[number + 1 :] if not other.once]
            if any(access in other.order.access.stores for other in later):
                dead.add(position)
        return frozenset(dead)

    def _only_through(self, access: Access) -> bool:
        """Whether an operand is loaded and stored through one access, by looping stages."""
        for plan in self.stages:
            for one in plan.order.access.all():
                if one.operand == access.operand and (one != access or plan.once):
                    return False
        return not any(
            s.combine for plan in self.stages for s in plan.order.stage.stores if s.operand == access.operand
        )

    def needs_barrier(self, number: int) -> bool:
        """Whether a stage touches what other lanes touched in earlier stages, and one of them stores."""
        plan = self.stages[number]
        for earlier in self.stages[:number]:
            same_lanes = (earlier.order.axes, earlier.once) == (plan.order.axes, plan.once)
            pairs = [(one, other) for one in plan.order.access.all() for other in earlier.order.access.stores]
            pairs += [(one, other) for one in plan.order.access.stores for other in earlier.order.access.all()]
            for one, other in pairs:
                own = same_lanes and one == other and not one.lookups
                if one.operand == other.operand and not own:
                    return True
        return False


class StagedLayout:
    """One walk over outer points (`walk`), or beside it one for short rows where the length of rows is known when the
    kernel runs: where each stage is surely one block."""

    def __init__(self, kernel: LoopKernel, schedule: Schedule) -> None:
        self.walk = walk = ThreadLayout(kernel, schedule)
        self.short: ThreadLayout | None = None
        if walk.has_rows_of_any_length and any(one.has_blocks for one in walk.looped):
            self.short = ThreadLayout(kernel, schedule, short=True)

    @property
    def geometry(self) -> Geometry:
        return self.walk.geometry

    @property
    def workspace(self) -> Dim:
        return self.walk.workspace
