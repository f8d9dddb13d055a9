"""The layout of a kernel with stages: teams along rows or columns, groups of neighbours, rows kept in registers.

Pure analysis. Guarantees that the layout, and with it the tree of every reduction, is a function of the kernel and the
schedule alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from dfc.ir.dims import ONE, Dim, product
from dfc.kernels.access import Access, StageAccess, kernel_access, written_operands
from dfc.kernels.form import LoopKernel, Stage
from dfc_target_cuda.kernels.kernel_text import Schedule
from dfc_target_cuda.kernels.write_axes import NARROW, Merging, Wide, find_wide, misfits
from dfc_target_cuda.kernels.write_teams import GROUP, Team, column_team, longest_row, row_team, split_team

_REGISTERS = 16
"""Most elements of a row that a lane keeps."""


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage: its inner axes (merged; `extents` are its own), the number of inner points, how many of them a lane
    takes at once, and through which accesses at once. `once`: it runs once at an outer point and folds nothing."""

    stage: Stage
    access: StageAccess
    inner: tuple[int, ...]
    extents: tuple[Dim, ...]
    once: bool
    group: int = 1
    wide: Wide = NARROW

    @property
    def size(self) -> Dim:
        return product(self.extents[axis] for axis in self.inner)


class ThreadLayout:
    """How a kernel is spread over threads."""

    def __init__(self, kernel: LoopKernel, schedule: Schedule, *, short: bool = False) -> None:
        """`short`: for rows of no more than `longest_short_row`, where their length is not known yet."""
        self.kernel, self.schedule, self.short = kernel, schedule, short
        access = kernel_access(kernel)
        self.written = written_operands(kernel.stages)
        merging = Merging(kernel, access)
        extents = [axis.extent for axis in kernel.axes]
        outer = merging.merge(range(kernel.outer), access, extents)
        plans: list[StagePlan] = []
        for stage, one in zip(kernel.stages, access, strict=True):
            own = list(extents)
            inner = merging.merge(stage.axes, [one], own)
            once = not stage.axes and not stage.reductions
            plans.append(StagePlan(stage, one, inner, tuple(own), once))
        self.extents = tuple(extents)
        by_rows = self._by_rows(outer, plans)
        self.by_rows = by_rows
        self.outer = outer if by_rows else self._fastest_last(outer, plans)
        self.points = product(extents[axis] for axis in outer)
        self.stages = [self._grouped(plan, by_rows=by_rows) for plan in plans]
        self.team = self._team(by_rows=by_rows)
        self.registers = by_rows and self._fits_registers()

    # --- rows or columns

    def _by_rows(self, outer: tuple[int, ...], plans: list[StagePlan]) -> bool:
        if self.kernel.ordered or all(plan.once for plan in plans):
            return False
        looped = [plan for plan in plans if plan.inner]
        rows = sum(min(misfits([(p.stage.body, p.access)], axis) for axis in p.inner) for p in looped)
        return not outer or rows <= min(self._misfits(axis, plans) for axis in outer)

    def _misfits(self, axis: int, plans: list[StagePlan]) -> int:
        return sum(misfits([(plan.stage.body, plan.access)], axis) for plan in plans if plan.inner or plan.once)

    def _fastest_last(self, outer: tuple[int, ...], plans: list[StagePlan]) -> tuple[int, ...]:
        """Neighbouring threads along the axis that suits memory best; of equal ones the last."""
        if not outer:
            return outer
        best = min(reversed(outer), key=lambda axis: self._misfits(axis, plans))
        return (*(axis for axis in outer if axis != best), best)

    def _team(self, *, by_rows: bool) -> Team:
        looped = [plan for plan in self.stages if not plan.once]
        lengths = [plan.size.constant for plan in looped]
        length = None if None in lengths else max([n for n in lengths if n is not None], default=1)
        if not by_rows:
            team = column_team(length, self.schedule, alone=self.kernel.ordered or not looped)
        else:
            team = row_team(self.longest_short_row if self.short and length is None else length, self.schedule)
        if self.short:
            return team
        return split_team(team, looped[0].size, self.points, self.schedule) if self._can_split() else team

    @property
    def has_rows_of_any_length(self) -> bool:
        """Whether only the sizes of a call say how many threads suit a row."""
        if not self.by_rows or self.points == ONE:
            return False
        return any(plan.size.constant is None for plan in self.stages if not plan.once)

    @property
    def longest_short_row(self) -> int:
        """The longest row for one warp."""
        return longest_row(self.schedule)

    def _can_split(self) -> bool:
        """Only where one stage folds, before all others: what comes later is done by the block that is last."""
        folding = [number for number, stage in enumerate(self.kernel.stages) if stage.reductions]
        return folding == [0] and not self.kernel.ordered

    # --- groups and registers

    def _grouped(self, plan: StagePlan, *, by_rows: bool) -> StagePlan:
        """Lanes take groups of neighbours where the innermost extent is a whole number of them: a matter of the length
        alone, whether or not the group is one access."""
        if not by_rows or not plan.inner:
            return plan
        last = plan.extents[plan.inner[-1]]
        if any(coefficient % GROUP for _, coefficient in last.terms) or last.constant == 0:
            return plan
        axis = plan.inner[-1]
        bodies = [(plan.stage.body, plan.access)]
        most = self.schedule.vector_bytes
        wide = find_wide(self.kernel, bodies, axis, [], most, lanes=GROUP)
        wide = wide if not wide.multiples else NARROW
        return StagePlan(plan.stage, plan.access, plan.inner, plan.extents, plan.once, GROUP, wide)

    def _fits_registers(self) -> bool:
        """Several passes over one row of known length that fits."""
        looped = [plan for plan in self.stages if not plan.once]
        if len(looped) < 2 or self.team.splits != ONE:
            return False
        first = looped[0]
        size = first.size.constant
        if not size or len(first.inner) != 1 or size > _REGISTERS * self.team.lanes:
            return False
        return all((plan.inner, plan.size, plan.group) == (first.inner, first.size, first.group) for plan in looped)

    def dead_stores(self, number: int) -> frozenset[int]:
        """Stores of a stage that a later one writes over, where every load between has the value in a register."""
        plan = self.stages[number]
        found: set[int] = set()
        for place, (store, access) in enumerate(zip(plan.stage.stores, plan.access.stores, strict=True)):
            if store.combine or access.lookups or not self._only_through(access):
                continue
            later = [other for other in self.stages[number + 1 :] if not other.once]
            if any(access in other.access.stores for other in later):
                found.add(place)
        return frozenset(found)

    def _only_through(self, access: Access) -> bool:
        """Whether an operand is loaded and stored through one access, by looping stages."""
        for plan in self.stages:
            for one in plan.access.all():
                if one.operand == access.operand and (one != access or plan.once):
                    return False
        return not any(s.combine for plan in self.stages for s in plan.stage.stores if s.operand == access.operand)

    def needs_barrier(self, number: int) -> bool:
        """Whether a stage touches what other lanes touched in earlier stages, and one of them stores."""
        plan = self.stages[number]
        for earlier in self.stages[:number]:
            same_lanes = (earlier.inner, earlier.once) == (plan.inner, plan.once)
            pairs = [(one, other) for one in plan.access.all() for other in earlier.access.stores]
            pairs += [(one, other) for one in plan.access.stores for other in earlier.access.all()]
            for one, other in pairs:
                own = same_lanes and one == other and not one.lookups
                if one.operand == other.operand and not own:
                    return True
        return False
