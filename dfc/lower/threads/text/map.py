"""Maps as kernel text: a grid of threads strides over the points, each thread over one element or a group of them."""

from __future__ import annotations

from dfc.ir.dims import ONE, Dim
from dfc.kernels.access import NONE
from dfc.lower.threads.maps import MapLayout
from dfc.lower.threads.text.axes import split, wide_condition
from dfc.lower.threads.text.body import BodyWriter
from dfc.lower.threads.text.lines import Lines, Sizes
from dfc.lower.threads.text.points import AxisPosition, Lane, Point
from dfc.lower.threads.wide import NARROW, Wide


class MapWriter:
    """Writes one map into lines."""

    def __init__(self, layout: MapLayout, lines: Lines, sizes: Sizes) -> None:
        self.layout, self.lines, self.sizes = layout, lines, sizes

    def bounds_check(self) -> list[str]:
        """Does nothing after a fault."""
        return ["if error[0] != 0:", "    return"]

    def first_lines(self) -> list[str]:
        return []

    def write(self) -> None:
        layout, lines = self.layout, self.lines
        writer = BodyWriter(
            lines,
            self.sizes,
            layout.kernel.operands,
            layout.body,
            layout.access,
            levels=dict.fromkeys(range(len(layout.extents)), 1),
        )
        first = Point()
        writer.emit(0, first)
        lines.add(f"first = block_index() * {layout.schedule.threads} + thread()")
        if layout.points != ONE:
            lines.add(f"step = block_count() * {layout.schedule.threads}")
        if layout.wide.lanes == 1:
            return self._loop(writer, first, NARROW, layout.points)
        condition = wide_condition(layout.wide, self.sizes)
        with lines.guarded(condition):
            self._loop(writer, first, layout.wide, layout.groups)
            self._tail(writer, first)
        if condition:
            with lines.block("else"):
                self._loop(writer, first, NARROW, layout.points)
        return None

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
        layout = self.layout
        rest = layout.points % layout.wide.lanes
        if len(layout.axes) > 1 or rest.constant == 0:
            return
        lines = self.lines
        lines.add(f"point = first + {self.sizes.text(layout.groups * layout.wide.lanes)}")
        with lines.block(f"if point < {self.sizes.text(layout.points)}"):
            self._point(writer, before, NARROW, "point")

    def _point(self, writer: BodyWriter, before: Point, wide: Wide, number: str) -> None:
        """The body at a point, or at a group of neighbours along the last axis."""
        layout = self.layout
        extents = list(layout.extents)
        if wide.lanes > 1:
            extents[layout.axes[-1]] = extents[layout.axes[-1]] // wide.lanes
        indices = split(self.lines, self.sizes, number, layout.axes, extents, small=layout.small)
        point = before.inner(indices)
        if wide.lanes > 1:
            last = layout.axes[-1]
            start = self.lines.let(f"{indices[last][0]} * {wide.lanes}", "j")
            point = self._group(before, indices, last, start, wide)
        writer.emit(1, point)
        writer.write_stores(point, layout.kernel.stages[0].stores)

    def _group(self, before: Point, indices: dict[int, AxisPosition], last: int, start: str, wide: Wide) -> Point:
        lanes = tuple(Lane({last: (start, lane)}) for lane in range(wide.lanes))
        others = {axis: index for axis, index in indices.items() if axis != last}
        return before.inner(
            others, lanes, axes=(last,) if last != NONE else (), vector=last, group=wide.lanes, wide=wide.accesses
        )
