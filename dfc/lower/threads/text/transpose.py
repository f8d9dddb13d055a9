"""Maps that read across what they write, as kernel text: tiles that are turned in shared memory.

A block takes a square of two axes, one along which stores are neighbours and one along which some loads are. It reads
those loads along the one into shared memory, and goes over the points along the other, so that neighbouring threads
read and write neighbours both times. Assumes a map. Guarantees the values of the map, whatever the tile.
"""

from __future__ import annotations

from dfc.lower.threads.maps import TransposeLayout
from dfc.lower.threads.text.axes import split
from dfc.lower.threads.text.body import BodyWriter
from dfc.lower.threads.text.lines import Lines, Sizes
from dfc.lower.threads.text.points import Point, both
from dfc.lower.threads.text.types import memory_type, widened
from dfc.lower.threads.wide import is_small


class TransposeWriter:
    """Writes one map into lines, by tiles."""

    def __init__(self, layout: TransposeLayout, lines: Lines, sizes: Sizes) -> None:
        self.layout, self.map, self.lines, self.sizes = layout, layout.map, lines, sizes
        self.shared = {n: f"tile{position}" for position, n in enumerate(layout.staged)}

    def bounds_check(self) -> list[str]:
        """Does nothing after a fault: the whole block."""
        return ["if barrier_any(error[0] != 0):", "    return"]

    def first_lines(self) -> list[str]:
        """A tile for each load; rows are one element apart more, so that lanes meet different banks either way."""
        size = self.layout.side * (self.layout.side + 1)
        return [f"{name} = shared_{self._kind(n)}({size})" for n, name in self.shared.items()]

    def _kind(self, number: int) -> str:
        return memory_type(self.map.kernel.operands[self.layout.staged[number].operand].dtype)

    def write(self) -> None:
        layout = self.layout
        lines, sizes, one = self.lines, self.sizes, self.map
        levels = dict.fromkeys(range(len(one.extents)), 1)
        body = BodyWriter(lines, sizes, one.kernel.operands, one.body, one.access, levels=levels)
        start = Point()
        body.emit(0, start)
        lines.add(f"column = thread() & {layout.side - 1}")
        lines.add(f"row = thread() >> {layout.side.bit_length() - 1}")
        lines.add("item = block_index()")
        with lines.block(f"while item < {sizes.text(layout.items)}"):
            self._tile(body, start)
            lines.add("item = item + block_count()")

    def _tile(self, body: BodyWriter, start: Point) -> None:
        layout, lines, sizes = self.layout, self.lines, self.sizes
        narrow = "32" if is_small([layout.items]) else ""
        along, across = (sizes.text(count) for count in layout.tiles)
        lines.add(f"first = remainder{narrow}(item, {along}) * {layout.side}")
        lines.add(f"others = quotient{narrow}(item, {along})")
        lines.add(f"second = remainder{narrow}(others, {across}) * {layout.side}")
        lines.add(f"others = quotient{narrow}(others, {across})")
        outer = start.inner(split(lines, sizes, "others", layout.rest, self.map.extents))
        self._read(body, outer)
        lines.add("barrier()")
        self._compute(body, outer)
        lines.add("barrier()")

    def _inside(self, along: str, across: str) -> str:
        extents = self.map.extents
        sides = ((along, self.layout.along), (across, self.layout.across))
        return both(f"{index} < {self.sizes.text(extents[axis])}" for index, axis in sides)

    def _read(self, body: BodyWriter, outer: Point) -> None:
        """Neighbouring threads along the axis that loads like."""
        layout, lines = self.layout, self.lines
        with lines.counted(str(layout.side // layout.rows), "turn") as turn:
            lines.add(f"line = {turn} * {layout.rows} + row")
            lines.add("along = first + line")
            lines.add("across = second + column")
            with lines.block(f"if {self._inside('along', 'across')}"):
                point = outer.inner({layout.along: ("along", 0), layout.across: ("across", 0)})
                for number, access in layout.staged.items():
                    where = f"{self.shared[number]}[line * {layout.side + 1} + column]"
                    lines.add(f"{where} = {body.element_text(point, access)}")

    def _compute(self, body: BodyWriter, outer: Point) -> None:
        """Neighbouring threads along the axis that stores like."""
        layout, lines = self.layout, self.lines
        with lines.counted(str(layout.side // layout.rows), "turn") as turn:
            lines.add(f"line = {turn} * {layout.rows} + row")
            lines.add("along = first + column")
            lines.add("across = second + line")
            with lines.block(f"if {self._inside('along', 'across')}"):
                point = outer.inner({layout.along: ("along", 0), layout.across: ("across", 0)})
                for number, access in layout.staged.items():
                    raw = f"{self.shared[number]}[column * {layout.side + 1} + line]"
                    dtype = self.map.kernel.operands[access.operand].dtype
                    point.values[number] = [lines.let(widened(raw, dtype))]
                body.emit(1, point)
                body.write_stores(point, self.map.kernel.stages[0].stores)
