"""Prefix sums, products and extremes as kernel text: all prefixes of a row at once, or of many columns side by side.

A row whose elements are neighbours is done by a team, a segment of the order of `dfc.kernels.orders.scan` to each
of its warps: lanes exchange their values by shuffles, warps theirs through shared memory, and what came before is
carried in a register. Otherwise a thread goes down a column with the running value in a register, and neighbouring
threads have neighbouring columns.

Assumes warps of at most a segment. Guarantees the order of `dfc.kernels.orders.scan`. Where the computation of an
element fails, which is reported, the prefixes from there on mean nothing.
"""

from __future__ import annotations

from dfc.ir.dims import ONE
from dfc.kernels.body import Number
from dfc.kernels.orders.scan import DISTANCES, SEGMENT
from dfc.lower.threads.scans import ScanLayout
from dfc.lower.threads.text.axes import split
from dfc.lower.threads.text.body import BodyWriter
from dfc.lower.threads.text.lines import Lines, Sizes
from dfc.lower.threads.text.points import Point, both
from dfc.lower.threads.text.teams import lane_of, point_of
from dfc.lower.threads.text.types import computing_type, number, rounded
from dfc.lower.threads.wide import is_small


class ScanWriter:
    """Writes one scan into lines."""

    def __init__(self, layout: ScanLayout, lines: Lines, sizes: Sizes) -> None:
        order = layout.order
        self.layout, self.lines, self.sizes, self.scan, self.kernel = layout, lines, sizes, order.scan, order.kernel
        self.stage, self.access = order.kernel.stages[0], order.access
        self.extents, self.by_rows, self.length = order.extents, order.by_rows, order.length
        self.team, self.points, self.copies = layout.team, layout.points, layout.copies
        self.dtype = self.stage.body[self.scan.value].dtype
        self.kind = computing_type(self.dtype)
        self.shared: list[str] = []

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
        lines.add(f"lane = {lane_of(team)}")
        lines.add("item = block_index()")
        with lines.block(f"while item < {self.sizes.text(self.layout.tiles)}"):
            lines.add(f"point = item * {team.points} + {point_of(team)}" if team.points > 1 else "point = item")
            self._row(start)
            lines.add("item = item + block_count()")

    def _row(self, start: Point) -> None:
        lines = self.lines
        on = "" if self.team.points == 1 or self.points == ONE else "on"
        if self.team.points > 1:
            on = "on"
            lines.add(f"on = point < {self.sizes.text(self.points)}")
        small = is_small([self.points])
        point = start.inner(split(lines, self.sizes, "point", self.layout.outer, self.extents, small=small))
        point.condition = on
        self.body.emit(1, point)
        lines.add(f"carry = {self._start()}")
        length = self.sizes.text(self.length)
        if self.by_rows:
            self._across(point, length)
        else:
            lines.add(f"end = i64_select({on}, {length}, 0)" if on else f"end = {length}")
            lines.add("place = 0")
            with lines.block("while place < end"):
                self._down(point)
                lines.add("place = place + 1")

    def _start(self) -> str:
        start = self.stage.body[self.scan.start]
        assert isinstance(start.operation, Number)
        return number(start.dtype, start.operation.bits)

    def _inside(self, before: Point, copy: int) -> Point:
        """The element at an index; what is known already is not computed."""
        point = before.inner({self.scan.axis: ("place", copy * self.team.warp)})
        point.condition = ""
        point.values[self.scan.before] = ["carry"]
        point.values[self.scan.value] = [""]
        self.body.emit(2, point)
        return point

    def _store(self, point: Point, value: str) -> None:
        point.values[self.scan.value] = [value]
        self.body.write_stores(point, self.stage.stores)

    def _combined(self, earlier: str, later: str) -> str:
        """Two values as one, on the sides where the kernel has them."""
        first, second = (later, earlier) if self.scan.is_element_first else (earlier, later)
        return f"{self.kind}_{self.scan.function}({first}, {second})"

    def _down(self, before: Point) -> None:
        """One more element of a column."""
        point = self._inside(before, 0)
        self.lines.add(f"carry = {self._combined('carry', point.values[self.scan.element][0])}")
        self.lines.add(f"carry = {rounded('carry', self.dtype)}")
        self._store(point, "carry")

    def _across(self, before: Point, length: str) -> None:
        """A segment of a row to each warp at a time; what lanes behind the end of the row have is never used."""
        lines, team = self.lines, self.team
        lines.add(f"warp_lane = lane & {team.warp - 1}" if team.lanes > team.warp else "warp_lane = lane")
        lines.add("base = 0")
        with lines.block(f"while base < {length}"):
            own = "lane" if self.copies == 1 else f"{self._warp()} * {SEGMENT} + warp_lane"
            lines.add(f"place = base + {own}")
            for copy in range(self.copies):
                lines.add(f"value{copy} = {self._start()}")
                with lines.block(f"if {self._on(before, copy, length)}"):
                    lines.add(f"value{copy} = {self._inside(before, copy).values[self.scan.element][0]}")
            self._prefixes()
            lines.add(f"total = shuffle_{self.kind}(value{self.copies - 1}, {team.warp - 1})")
            lines.add("earlier = carry")
            if team.lanes > team.warp:
                self._exchange()
            else:
                lines.add(f"carry = {self._combined('carry', 'total')}")
            for copy in range(self.copies):
                with lines.block(f"if {self._on(before, copy, length)}"):
                    lines.add(f"result = {self._combined('earlier', f'value{copy}')}")
                    inside = before.inner({self.scan.axis: ("place", copy * team.warp)})
                    inside.condition = ""
                    self._store(inside, "result")
            lines.add(f"base = base + {team.lanes * self.copies}")

    def _on(self, before: Point, copy: int, length: str) -> str:
        return both([before.condition, f"{self._index(copy)} < {length}"])

    def _index(self, copy: int) -> str:
        return f"place + {copy * self.team.warp}" if copy else "place"

    def _warp(self) -> str:
        """That of a warp in its team."""
        return f"(lane >> {self.team.warp.bit_length() - 1})"

    def _prefixes(self) -> None:
        """All prefixes of a segment; the value `warp` elements behind that of a lane is its next one."""
        lines, warp = self.lines, self.team.warp
        for distance in DISTANCES:
            if distance >= warp:
                for copy in reversed(range(distance // warp, self.copies)):
                    lines.add(f"value{copy} = {self._combined(f'value{copy - distance // warp}', f'value{copy}')}")
                continue
            for copy in range(self.copies):
                lines.add(f"other{copy} = shuffle_{self.kind}(value{copy}, (warp_lane - {distance}) & {warp - 1})")
            for copy in reversed(range(1, self.copies)):
                select = f"{self.kind}_select(warp_lane >= {distance}, other{copy}, other{copy - 1})"
                lines.add(f"other{copy} = {select}")
                lines.add(f"value{copy} = {self._combined(f'other{copy}', f'value{copy}')}")
            combined = self._combined("other0", "value0")
            lines.add(f"value0 = {self.kind}_select(warp_lane >= {distance}, {combined}, value0)")

    def _exchange(self) -> None:
        """What comes before the segment of this warp, and behind those of all."""
        lines, team = self.lines, self.team
        warps = team.lanes // team.warp
        self.shared.append(f"totals = shared_{self.kind}({team.threads // team.warp})")
        first = f"{point_of(team)} * {warps} + " if team.points > 1 else ""
        lines.add(f"warp = {self._warp()}")
        lines.add(f"totals[{first}warp] = total")
        lines.add("barrier()")
        with lines.counted(str(warps), "one") as one:
            lines.add(f"earlier = {self.kind}_select({one} == warp, carry, earlier)")
            lines.add(f"other = totals[{first}{one}]")
            lines.add(f"carry = {self._combined('carry', 'other')}")
        lines.add("barrier()")
