"""Maps as device code: a grid of threads strides over the points, each thread over one element or a group of them.

Assumes a loop kernel of one stage that folds nothing and need not run in order. Guarantees 16-byte accesses where every
operand is contiguous or constant along the innermost axis and its starts are multiples of the group: known while
compiling, or asked when the kernel runs where sizes decide it.
"""

from __future__ import annotations

from dfc.ir.dims import ONE, ZERO, Dim, ceil_divide, dim, product
from dfc.kernels.access import NONE, StageAccess, kernel_access
from dfc.kernels.axes import Merging, all_outer
from dfc.kernels.body import Instruction
from dfc.kernels.form import LoopKernel
from dfc_target_cuda.kernels.kernel_text import Geometry, Schedule
from dfc_target_cuda.kernels.write_axes import NARROW, Wide, find_wide, is_small, misfits, split
from dfc_target_cuda.kernels.write_body import BodyWriter
from dfc_target_cuda.kernels.write_points import AxisPosition, Lane, Point
from dfc_target_cuda.kernels.write_text import Lines, Sizes


def is_map(kernel: LoopKernel) -> bool:
    """Whether every point is by itself."""
    if kernel.ordered or len(kernel.stages) != 1 or kernel.stages[0].reductions:
        return False
    return all_outer(kernel).outer == len(kernel.axes)


class MapWriter:
    """Writes one map into lines."""

    def __init__(self, kernel: LoopKernel, schedule: Schedule, lines: Lines, sizes: Sizes) -> None:
        self.kernel = kernel = all_outer(kernel)
        self.schedule, self.lines, self.sizes = schedule, lines, sizes
        access = kernel_access(kernel)
        self.extents = [axis.extent for axis in kernel.axes]
        axes = Merging(kernel, access).merge(range(kernel.outer), access, self.extents)
        self.body: tuple[Instruction, ...] = kernel.stages[0].body
        self.access: StageAccess = access[0]
        self.axes = self._fastest_last(axes)
        self.points = product(self.extents[axis] for axis in axes)
        self.small = is_small([self.points])
        self.wide = self._wide()

    def _fastest_last(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        """Neighbouring threads along the axis that suits memory best; of equal ones the last."""
        stages = [(self.body, self.access)]
        if not axes:
            return axes
        best = min(reversed(axes), key=lambda axis: misfits(stages, axis))
        return (*(axis for axis in axes if axis != best), best)

    def _wide(self) -> Wide:
        if not self.axes:
            return NARROW
        last = self.axes[-1]
        divided = [self.extents[last]] if len(self.axes) > 1 else []
        wide = find_wide(self.kernel, [(self.body, self.access)], last, divided, self.schedule.vector_bytes)
        count = self.points.constant
        return NARROW if count is not None and count < wide.lanes else wide

    def geometry(self) -> Geometry:
        threads = self.schedule.threads
        groups = ceil_divide(self.points, dim(self.wide.lanes))
        return Geometry(groups, threads, threads, self.schedule.blocks)

    def workspace(self) -> Dim:
        return ZERO

    def bounds_check(self) -> list[str]:
        """Does nothing after a fault."""
        return ["if error[0] != 0:", "    return"]

    def first_lines(self) -> list[str]:
        return []

    def write(self) -> None:
        lines = self.lines
        writer = BodyWriter(
            lines,
            self.sizes,
            self.kernel.operands,
            self.body,
            self.access,
            levels=dict.fromkeys(range(len(self.extents)), 1),
        )
        first = Point()
        writer.emit(0, first)
        lines.add(f"first = block_index() * {self.schedule.threads} + thread()")
        if self.points != ONE:
            lines.add(f"step = block_count() * {self.schedule.threads}")
        if self.wide.lanes == 1:
            return self._loop(writer, first, NARROW, self.points)
        condition = self.wide.condition(self.sizes)
        with lines.guarded(condition):
            self._loop(writer, first, self.wide, self._groups())
            self._tail(writer, first)
        if condition:
            with lines.block("else"):
                self._loop(writer, first, NARROW, self.points)
        return None

    def _groups(self) -> Dim:
        """Whole groups; what is left over has fewer elements than one."""
        return self.points // self.wide.lanes

    def _loop(self, writer: BodyWriter, before: Point, wide: Wide, count: Dim) -> None:
        lines, end = self.lines, self.sizes.text(count)
        if count == ONE:
            with lines.block("if first == 0"):
                self._point(writer, before, wide, "first")
            return
        lines.add("point = first")
        with lines.block(f"while point < {end}"):
            self._point(writer, before, wide, "point")
            lines.add("point = point + step")

    def _tail(self, writer: BodyWriter, before: Point) -> None:
        """The elements behind the last whole group."""
        rest = self.points % self.wide.lanes
        if len(self.axes) > 1 or rest.constant == 0:
            return
        lines = self.lines
        lines.add(f"point = first + {self.sizes.text(self._groups() * self.wide.lanes)}")
        with lines.block(f"if point < {self.sizes.text(self.points)}"):
            self._point(writer, before, NARROW, "point")

    def _point(self, writer: BodyWriter, before: Point, wide: Wide, number: str) -> None:
        """The body at a point, or at a group of neighbours along the last axis."""
        extents = list(self.extents)
        if wide.lanes > 1:
            extents[self.axes[-1]] = extents[self.axes[-1]] // wide.lanes
        indices = split(self.lines, self.sizes, number, self.axes, extents, small=self.small)
        point = before.inner(indices)
        if wide.lanes > 1:
            last = self.axes[-1]
            start = self.lines.let(f"{indices[last][0]} * {wide.lanes}", "j")
            point = self._group(before, indices, last, start, wide)
        writer.emit(1, point)
        writer.write_stores(point, self.kernel.stages[0].stores)

    def _group(self, before: Point, indices: dict[int, AxisPosition], last: int, start: str, wide: Wide) -> Point:
        lanes = tuple(Lane({last: (start, lane)}) for lane in range(wide.lanes))
        others = {axis: index for axis, index in indices.items() if axis != last}
        return before.inner(
            others, lanes, axes=(last,) if last != NONE else (), vector=last, group=wide.lanes, wide=wide.accesses
        )
