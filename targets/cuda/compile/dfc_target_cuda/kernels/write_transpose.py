"""Maps that read across what they write, as device code: tiles that are turned in shared memory.

A block takes a square of two axes, one along which stores are neighbours and one along which some loads are. It reads
those loads along the one into shared memory, and goes over the points along the other, so that neighbouring threads
read and write neighbours both times. Assumes a map. Guarantees the values of the map, whatever the tile.
"""

from __future__ import annotations

from dfc.ir.dims import ONE, ZERO, Dim, ceil_divide, dim, product
from dfc.kernels.access import Access
from dfc_target_cuda.kernels.kernel_text import Geometry, Schedule
from dfc_target_cuda.kernels.write_axes import is_small, split
from dfc_target_cuda.kernels.write_body import BodyWriter
from dfc_target_cuda.kernels.write_map import MapWriter
from dfc_target_cuda.kernels.write_points import Point, both
from dfc_target_cuda.kernels.write_text import Lines, Sizes
from dfc_target_cuda.kernels.write_types import memory_type, widened

_BLOCKS = 8


def crossing_axis(writer: MapWriter, schedule: Schedule) -> int | None:
    """The axis along which loads are neighbours that are not along the fastest one, if there are such loads."""
    fits = schedule.threads <= schedule.warp * schedule.warp
    if not fits or len(writer.axes) < 2 or _is_tiny(writer.extents[writer.axes[-1]], schedule):
        return None
    for access in writer.access.loads.values():
        for axis in writer.axes[:-1]:
            if _crosses(writer, access, axis) and not _is_tiny(writer.extents[axis], schedule):
                return axis
    return None


def _is_tiny(extent: Dim, schedule: Schedule) -> bool:
    known = extent.constant
    return known is not None and known < schedule.warp // 4


def _crosses(writer: MapWriter, access: Access, axis: int) -> bool:
    written = any(store.operand == access.operand for store in writer.access.stores)
    across = access.coefficients[writer.axes[-1]] not in (ZERO, ONE, dim(-1))
    return across and access.coefficients[axis] == ONE and not (written or access.lookups or access.bounds)


class TransposeWriter:
    """Writes one map into lines, by tiles."""

    def __init__(self, writer: MapWriter, axis: int, schedule: Schedule, lines: Lines, sizes: Sizes) -> None:
        self.writer, self.schedule, self.lines, self.sizes = writer, schedule, lines, sizes
        self.across, self.along = axis, writer.axes[-1]
        self.rest = tuple(other for other in writer.axes if other not in (axis, writer.axes[-1]))
        self.staged = {n: one for n, one in writer.access.loads.items() if _crosses(writer, one, axis)}
        self.side = schedule.warp
        self.rows = schedule.threads // schedule.warp
        self.tiles = [ceil_divide(writer.extents[one], dim(self.side)) for one in (self.along, self.across)]
        self.items = product([*self.tiles, *(writer.extents[other] for other in self.rest)])
        self.shared = {n: f"tile{position}" for position, n in enumerate(self.staged)}

    def geometry(self) -> Geometry:
        return Geometry(self.items, 1, self.schedule.threads, self.schedule.blocks * _BLOCKS)

    def workspace(self) -> Dim:
        return ZERO

    def bounds_check(self) -> list[str]:
        """Does nothing after a fault: the whole block."""
        return ["if barrier_any(error[0] != 0):", "    return"]

    def first_lines(self) -> list[str]:
        """A tile for each load; rows are one element apart more, so that lanes meet different banks either way."""
        size = self.side * (self.side + 1)
        return [f"{name} = shared_{self._kind(n)}({size})" for n, name in self.shared.items()]

    def _kind(self, number: int) -> str:
        return memory_type(self.writer.kernel.operands[self.staged[number].operand].dtype)

    def write(self) -> None:
        lines, sizes, writer = self.lines, self.sizes, self.writer
        levels = dict.fromkeys(range(len(writer.extents)), 1)
        body = BodyWriter(lines, sizes, writer.kernel.operands, writer.body, writer.access, levels=levels)
        start = Point()
        body.emit(0, start)
        lines.add(f"column = thread() & {self.side - 1}")
        lines.add(f"row = thread() >> {self.side.bit_length() - 1}")
        lines.add("item = block_index()")
        with lines.block(f"while item < {sizes.text(self.items)}"):
            self._tile(body, start)
            lines.add("item = item + block_count()")

    def _tile(self, body: BodyWriter, start: Point) -> None:
        lines, sizes = self.lines, self.sizes
        narrow = "32" if is_small([self.items]) else ""
        along, across = (sizes.text(count) for count in self.tiles)
        lines.add(f"first = remainder{narrow}(item, {along}) * {self.side}")
        lines.add(f"others = quotient{narrow}(item, {along})")
        lines.add(f"second = remainder{narrow}(others, {across}) * {self.side}")
        lines.add(f"others = quotient{narrow}(others, {across})")
        outer = start.inner(split(lines, sizes, "others", self.rest, self.writer.extents))
        self._read(body, outer)
        lines.add("barrier()")
        self._compute(body, outer)
        lines.add("barrier()")

    def _inside(self, along: str, across: str) -> str:
        extents = self.writer.extents
        sides = ((along, self.along), (across, self.across))
        return both(f"{index} < {self.sizes.text(extents[axis])}" for index, axis in sides)

    def _read(self, body: BodyWriter, outer: Point) -> None:
        """Neighbouring threads along the axis that loads like."""
        lines = self.lines
        with lines.counted(str(self.side // self.rows), "turn") as turn:
            lines.add(f"line = {turn} * {self.rows} + row")
            lines.add("along = first + line")
            lines.add("across = second + column")
            with lines.block(f"if {self._inside('along', 'across')}"):
                point = outer.inner({self.along: ("along", 0), self.across: ("across", 0)})
                for number, access in self.staged.items():
                    where = f"{self.shared[number]}[line * {self.side + 1} + column]"
                    lines.add(f"{where} = {body.element_text(point, access)}")

    def _compute(self, body: BodyWriter, outer: Point) -> None:
        """Neighbouring threads along the axis that stores like."""
        lines = self.lines
        with lines.counted(str(self.side // self.rows), "turn") as turn:
            lines.add(f"line = {turn} * {self.rows} + row")
            lines.add("along = first + column")
            lines.add("across = second + line")
            with lines.block(f"if {self._inside('along', 'across')}"):
                point = outer.inner({self.along: ("along", 0), self.across: ("across", 0)})
                for number, access in self.staged.items():
                    raw = f"{self.shared[number]}[column * {self.side + 1} + line]"
                    dtype = self.writer.kernel.operands[access.operand].dtype
                    point.values[number] = [lines.let(widened(raw, dtype))]
                body.emit(1, point)
                body.write_stores(point, self.writer.kernel.stages[0].stores)
