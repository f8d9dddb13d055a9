"""Prefix sums, products and extremes as device code: all prefixes of a row at once, or of many columns side by side.

A row whose elements are neighbours is done by a team, as many elements at a time as it has lanes: lanes of a warp
exchange their values, warps through shared memory, and what came before is carried in a register. Otherwise a thread
goes down a column with the running value in a register, and neighbouring threads have neighbouring columns.

Assumes an ordered kernel that `find_scan` accepts. Guarantees prefixes that depend on the shape and the schedule alone.
Where the computation of an element fails, which is reported, the prefixes from there on mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, ZERO, Dim, ceil_divide, dim, product
from dfc.kernels.access import Access, StageAccess, kernel_access
from dfc.kernels.axes import Merging
from dfc.kernels.body import Affine, Apply, Instruction, Number
from dfc.kernels.form import LoopKernel, Reduction
from dfc_target_cuda.kernels.kernel_text import Geometry, Schedule
from dfc_target_cuda.kernels.write_axes import is_small, misfits, split
from dfc_target_cuda.kernels.write_body import BodyWriter
from dfc_target_cuda.kernels.write_points import Point
from dfc_target_cuda.kernels.write_reductions import TypedReduction
from dfc_target_cuda.kernels.write_teams import Team, power_of_two
from dfc_target_cuda.kernels.write_text import Lines, Sizes
from dfc_target_cuda.kernels.write_types import computing_type, number, rounded

_FOLDS = {"add": "add", "mul": "mul", "minimum": "min", "maximum": "max"}
_BLOCKS, _ODD, _STEPS = 8, 100, 8


@dataclass(frozen=True, slots=True)
class Scan:
    """`value` = function(`before`, `element`), stored; `before` loads what was stored one step earlier along `axis`,
    and is `start` at the first step (a text)."""

    function: str
    value: int
    before: int
    element: int
    axis: int
    start: str


def find_scan(kernel: LoopKernel) -> Scan | None:
    """What a kernel scans, if it is one fold with all its prefixes along one axis."""
    if not kernel.ordered or len(kernel.stages) != 1:
        return None
    stage, access = kernel.stages[0], kernel_access(kernel)[0]
    if len(stage.axes) != 1 or len(stage.stores) != 1 or stage.reductions or stage.stores[0].combine:
        return None
    value = stage.stores[0].value
    operation = stage.body[value].operation
    if not isinstance(operation, Apply) or operation.function not in _FOLDS or stage.body[value].dtype.is_bool:
        return None
    return _scan(stage.body, access, stage.axes[0], value)


def _scan(body: Sequence[Instruction], access: StageAccess, axis: int, value: int) -> Scan | None:
    operation, stored = body[value].operation, access.stores[0]
    assert isinstance(operation, Apply)
    own = [n for n, load in access.loads.items() if load.operand == stored.operand]
    if len(own) != 1 or stored.lookups:
        return None
    before = own[0]
    users = [n for n, one in enumerate(body) if before in one.arguments]
    others = [n for n, load in access.loads.items() if before in load.arguments()]
    arguments = body[value].arguments
    if users != [value] or others or arguments.count(before) != 1 or not _is_step(access.loads[before], stored, axis):
        return None
    start = body[access.loads[before].otherwise]
    if not isinstance(start.operation, Number):
        return None
    element = arguments[1 - arguments.index(before)]
    return Scan(operation.function, value, before, element, axis, number(start.dtype, start.operation.bits))


def _is_step(load: Access, stored: Access, axis: int) -> bool:
    """Whether a load reads what a store wrote one step earlier, where there is such a step."""
    step = stored.coefficients[axis]
    one_less = Affine(((axis, 1),), dim(-1))
    inside = all((bound.affine, bound.interior) == (one_less, 1) for bound in load.bounds)
    same = load.coefficients == stored.coefficients and load.offset == stored.offset - step
    return same and inside and len(load.bounds) == 1 and not load.lookups


class ScanWriter:
    """Writes one scan into lines."""

    def __init__(self, kernel: LoopKernel, scan: Scan, schedule: Schedule, lines: Lines, sizes: Sizes) -> None:
        self.kernel, self.scan, self.schedule, self.lines, self.sizes = kernel, scan, schedule, lines, sizes
        self.stage = kernel.stages[0]
        access = kernel_access(kernel)
        self.access = access[0]
        self.extents = [axis.extent for axis in kernel.axes]
        bodies = [(self.stage.body, self.access)]
        outer = Merging(kernel, access).merge(range(kernel.outer), access, self.extents)
        columns = min((misfits(bodies, axis) for axis in outer), default=_ODD)
        self.by_rows = misfits(bodies, scan.axis) <= columns
        self.outer = outer
        if outer and not self.by_rows:
            best = min(reversed(outer), key=lambda axis: misfits(bodies, axis))
            self.outer = (*(axis for axis in outer if axis != best), best)
        self.points: Dim = product(self.extents[axis] for axis in outer)
        self.length = self.extents[scan.axis]
        self.team = self._team()
        self.dtype = self.stage.body[scan.value].dtype
        self.fold = TypedReduction(Reduction(_FOLDS[scan.function], scan.value, self.dtype), self.dtype)
        self.kind = computing_type(self.dtype)
        self.shared: list[str] = []

    def _team(self) -> Team:
        """A thread to a column; at least a warp to a row."""
        threads, warp, length = self.schedule.threads, self.schedule.warp, self.length.constant
        if not self.by_rows:
            return Team(1, 1, threads, warp, rows=False)
        lanes = threads if length is None else min(threads, max(warp, power_of_two(-(-length // _STEPS))))
        return Team(lanes, 1, threads // lanes, warp, rows=True)

    def geometry(self) -> Geometry:
        return Geometry(self._tiles(), 1, self.team.threads, self.schedule.blocks * _BLOCKS)

    def _tiles(self) -> Dim:
        return ceil_divide(self.points, dim(self.team.points))

    def workspace(self) -> Dim:
        return ZERO

    def bounds_check(self) -> list[str]:
        """Does nothing after a fault: the whole block."""
        return [f"if {'barrier_any(error[0] != 0)' if self.by_rows else 'error[0] != 0'}:", "    return"]

    def first_lines(self) -> list[str]:
        return self.shared

    def write(self) -> None:
        lines, team = self.lines, self.team
        levels = dict.fromkeys(range(self.kernel.outer), 1) | {self.scan.axis: 2}
        self.body = BodyWriter(lines, self.sizes, self.kernel.operands, self.stage.body, self.access, levels=levels)
        start = Point()
        self.body.emit(0, start)
        lines.add(f"lane = {team.lane()}")
        lines.add("item = block_index()")
        with lines.block(f"while item < {self.sizes.text(self._tiles())}"):
            lines.add(f"point = item * {team.points} + {team.point()}" if team.points > 1 else "point = item")
            self._row(start)
            lines.add("item = item + block_count()")

    def _row(self, start: Point) -> None:
        lines = self.lines
        on = "" if self.team.points == 1 or self.points == ONE else "on"
        if self.team.points > 1:
            on = "on"
            lines.add(f"on = point < {self.sizes.text(self.points)}")
        small = is_small([self.points])
        point = start.inner(split(lines, self.sizes, "point", self.outer, self.extents, small=small))
        point.condition = on
        self.body.emit(1, point)
        lines.add(f"carry = {self.scan.start}")
        length = self.sizes.text(self.length)
        if self.by_rows:
            self._across(point, length)
        else:
            lines.add(f"end = {length} if {on} else 0" if on else f"end = {length}")
            lines.add("place = 0")
            with lines.block("while place < end"):
                self._down(point)
                lines.add("place = place + 1")

    def _inside(self, before: Point) -> Point:
        """The element at index q; what is known already is not computed."""
        point = before.inner({self.scan.axis: ("place", 0)})
        point.condition = ""
        point.values[self.scan.before] = ["carry"]
        point.values[self.scan.value] = [""]
        self.body.emit(2, point)
        return point

    def _store(self, point: Point, value: str) -> None:
        point.values[self.scan.value] = [value]
        self.body.write_stores(point, self.stage.stores)

    def _down(self, before: Point) -> None:
        """One more element of a column."""
        point = self._inside(before)
        self.fold.step(self.lines, ["carry"], [point.values[self.scan.element][0]])
        self.lines.add(f"carry = {rounded('carry', self.dtype)}")
        self._store(point, "carry")

    def _across(self, before: Point, length: str) -> None:
        """A team's width of a row at a time; lanes behind its end take part with what changes nothing."""
        lines, team, kind = self.lines, self.team, self.kind
        lines.add("base = 0")
        on = f"{before.condition} and " if before.condition else ""
        with lines.block(f"while base < {length}"):
            lines.add("place = base + lane")
            lines.add(f"value = {self.fold.identity()[0]}")
            with lines.block(f"if {on}place < {length}"):
                lines.add(f"value = {self._inside(before).values[self.scan.element][0]}")
            lines.add(f"value = {kind}_warp_prefix_{self.scan.function}(value, lane & {team.warp - 1}, {team.warp})")
            lines.add(f"total = shuffle_{kind}(value, {team.warp - 1})")
            if team.lanes > team.warp:
                self._warps()
            lines.add("result = carry")
            self.fold.step(lines, ["result"], ["value"])
            with lines.block(f"if {on}place < {length}"):
                inside = before.inner({self.scan.axis: ("place", 0)})
                inside.condition = ""
                self._store(inside, "result")
            self.fold.step(lines, ["carry"], ["total"])
            lines.add(f"base = base + {team.lanes}")

    def _warps(self) -> None:
        """Adds what earlier warps of the team have, and finds the total of all."""
        lines, team = self.lines, self.team
        warps = team.lanes // team.warp
        self.shared.append(f"totals = shared_{self.kind}({team.threads // team.warp})")
        first = f"{team.point()} * {warps} + " if team.points > 1 else ""
        lines.add(f"warp = lane >> {team.warp.bit_length() - 1}")
        lines.add(f"totals[{first}warp] = total")
        lines.add("barrier()")
        lines.add(f"total = {self.fold.identity()[0]}")
        lines.add(f"earlier = {self.fold.identity()[0]}")
        with lines.block(f"for one in range({warps})"):
            with lines.block("if one == warp"):
                lines.add("earlier = total")
            lines.add(f"other = totals[{first}one]")
            self.fold.step(lines, ["total"], ["other"])
        lines.add("barrier()")
        lines.add("before = earlier")
        self.fold.step(lines, ["before"], ["value"])
        lines.add("value = before")
