"""Kernels whose points have an order: scatters by the owner of the row, and what is left by one thread a row.

A scatter through computed indices is spread over blocks by the row it goes to: every block walks over all points in
ascending order, a batch at a time, and its threads together do those points whose row is the block's own. So each
element has its terms in the order of the points, whatever the number of blocks, and nothing is atomic.

Assumes an ordered kernel of one stage. Guarantees the meaning of the order: what a point reads is what earlier points
of the same outer point stored.
"""

from __future__ import annotations

from dfc.lower.threads.scatters import ScatterLayout
from dfc.lower.threads.text.axes import split
from dfc.lower.threads.text.body import BodyWriter
from dfc.lower.threads.text.lines import Lines, Sizes
from dfc.lower.threads.text.points import Point, at, both
from dfc.lower.threads.wide import is_small


class ScatterWriter:
    """Writes one scatter into lines."""

    def __init__(self, layout: ScatterLayout, lines: Lines, sizes: Sizes) -> None:
        self.layout, self.lines, self.sizes = layout, lines, sizes

    def bounds_check(self) -> list[str]:
        """Does nothing after a fault: the whole block."""
        return ["if barrier_any(error[0] != 0):", "    return"]

    def first_lines(self) -> list[str]:
        return [f"flags = shared_u8({self.layout.schedule.threads})"]

    def write(self) -> None:
        layout, lines, sizes = self.layout, self.lines, self.sizes
        outer, inner = range(layout.kernel.outer), range(layout.kernel.outer, len(layout.extents))
        levels = dict.fromkeys(inner, 1) | dict.fromkeys(outer, 2)
        self.body = BodyWriter(lines, sizes, layout.kernel.operands, layout.stage.body, layout.access, levels=levels)
        self.start = Point()
        self.body.emit(0, self.start)
        lines.add("item = block_index()")
        with lines.block(f"while item < {sizes.text(layout.owners * layout.tiles)}"):
            lines.add(f"owner = remainder(item, {sizes.text(layout.owners)})")
            lines.add(f"first = quotient(item, {sizes.text(layout.owners)}) * {layout.schedule.threads} + thread()")
            lines.add("batch = 0")
            with lines.block(f"while batch < {sizes.text(layout.length)}"):
                self._batch()
            lines.add("item = item + block_count()")

    def _batch(self) -> None:
        """As many points as a block has threads: each finds out whose one is, then all do those of the block."""
        lines, threads = self.lines, self.layout.schedule.threads
        length = self.sizes.text(self.layout.length)
        lines.add("mine = False")
        number = lines.let("batch + thread()", "q")
        with lines.block(f"if {number} < {length}"):
            point = self._inner(number)
            lines.add(f"mine = {self._is_mine(point)}")
        with lines.block("if barrier_any(mine)"):
            lines.add("flags[thread()] = u8(mine)")
            lines.add("barrier()")
            lines.add("turn = 0")
            with lines.block(f"while both(turn < {threads}, batch + turn < {length})"):
                with lines.block("if boolean(flags[turn])"):
                    self._together(lines.let("batch + turn", "q"))
                lines.add("turn = turn + 1")
            lines.add("barrier()")
        lines.add(f"batch = batch + {threads}")

    def _inner(self, number: str) -> Point:
        """What is known of an inner point, for all outer ones."""
        layout = self.layout
        indices = split(self.lines, self.sizes, number, layout.inner, layout.extents, small=is_small([layout.length]))
        point = self.start.inner(indices)
        self.body.emit(1, point)
        return point

    def _is_mine(self, point: Point) -> str:
        """Whether the row is there, and belongs to the owner."""
        layout = self.layout
        row = ""
        for lookup in layout.rows.lookups:
            index = at(point.lookups[lookup.key], 0)
            row = f"({row}) * {self.sizes.text(lookup.extent)} + {index}" if row else index
        fine = [at(point.checked[lookup.key], 0) for lookup in layout.rows.lookups if lookup.key in point.checked]
        low = f"({row}) & {(1 << 31) - 1}"  # any function of the row will do
        return both([*fine, f"remainder32({low}, {self.sizes.text(layout.owners)}) == owner"])

    def _together(self, number: str) -> None:
        """One inner point at all outer points of the tile; a thread has the same ones each time."""
        layout, lines = self.layout, self.lines
        before = self._inner(number)
        with lines.block(f"if first < {self.sizes.text(layout.points)}"):
            small = is_small([layout.points])
            point = before.inner(split(lines, self.sizes, "first", layout.outer, layout.extents, small=small))
            self.body.emit(2, point)
            self.body.write_stores(point, layout.stage.stores)
