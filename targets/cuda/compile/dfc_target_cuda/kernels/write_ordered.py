"""Kernels whose points have an order: scatters by the owner of the row, and what is left by one thread a row.

A scatter through computed indices is spread over blocks by the row it goes to: every block walks over all points in
ascending order, a batch at a time, and its threads together do those points whose row is the block's own. So each
element has its terms in the order of the points, whatever the number of blocks, and nothing is atomic.

Assumes an ordered kernel of one stage. Guarantees the meaning of the order: what a point reads is what earlier points
of the same outer point stored.
"""

from __future__ import annotations

from dfc.ir.dims import ONE, ZERO, Dim, ceil_divide, dim, maximum, minimum, product
from dfc.kernels.access import Access, kernel_access
from dfc.kernels.axes import Merging
from dfc.kernels.body import Load
from dfc.kernels.form import LoopKernel
from dfc.kernels.levels import varying
from dfc_target_cuda.kernels.kernel_text import Geometry, Schedule
from dfc_target_cuda.kernels.write_axes import is_small, misfits, split
from dfc_target_cuda.kernels.write_body import BodyWriter
from dfc_target_cuda.kernels.write_points import Point, at, both
from dfc_target_cuda.kernels.write_text import Lines, Sizes


def is_scatter(kernel: LoopKernel) -> bool:
    """Whether rows have owners: one stage, whose stores go through computed indices that the outer axes do not change,
    to operands that are not loaded, all to the same rows."""
    if not kernel.ordered or len(kernel.stages) != 1 or not kernel.stages[0].stores:
        return False
    stage, access = kernel.stages[0], kernel_access(kernel)[0]
    loaded = {one.operation.operand for one in stage.body if isinstance(one.operation, Load)}
    varies = varying(stage.body, access, range(kernel.outer), reduced=False, accumulated=True)
    first = access.stores[0]
    return (
        not stage.reductions
        and bool(first.lookups)
        and not any(varies[lookup.instruction] for lookup in first.lookups)
        and all(one.operand not in loaded and one.lookups == first.lookups for one in access.stores)
    )


class ScatterWriter:
    """Writes one scatter into lines."""

    def __init__(self, kernel: LoopKernel, schedule: Schedule, lines: Lines, sizes: Sizes) -> None:
        self.kernel, self.schedule, self.lines, self.sizes = kernel, schedule, lines, sizes
        self.stage = kernel.stages[0]
        access = kernel_access(kernel)
        self.access = access[0]
        merging = Merging(kernel, access)
        self.extents = [axis.extent for axis in kernel.axes]
        outer = merging.merge(range(kernel.outer), access, self.extents)
        bodies = [(self.stage.body, self.access)]
        self.outer = outer
        if outer:
            best = min(reversed(outer), key=lambda axis: misfits(bodies, axis))
            self.outer = (*(axis for axis in outer if axis != best), best)
        self.inner = merging.merge(self.stage.axes, access, self.extents)
        self.points: Dim = product(self.extents[axis] for axis in outer)
        self.length: Dim = product(self.extents[axis] for axis in self.inner)
        self.rows: Access = self.access.stores[0]

        rows = product(lookup.extent for lookup in self.rows.lookups)
        self.owners = maximum(minimum(rows, dim(schedule.blocks)), ONE)
        self.tiles = ceil_divide(self.points, dim(schedule.threads))

    def geometry(self) -> Geometry:
        return Geometry(self.owners * self.tiles, 1, self.schedule.threads, self.schedule.blocks)

    def workspace(self) -> Dim:
        return ZERO

    def bounds_check(self) -> list[str]:
        """Does nothing after a fault: the whole block."""
        return ["if barrier_any(error[0] != 0):", "    return"]

    def first_lines(self) -> list[str]:
        return [f"flags = shared_u8({self.schedule.threads})"]

    def write(self) -> None:
        lines, sizes = self.lines, self.sizes
        outer, inner = range(self.kernel.outer), range(self.kernel.outer, len(self.extents))
        levels = dict.fromkeys(inner, 1) | dict.fromkeys(outer, 2)
        self.body = BodyWriter(lines, sizes, self.kernel.operands, self.stage.body, self.access, levels=levels)
        self.start = Point()
        self.body.emit(0, self.start)
        lines.add("item = block_index()")
        with lines.block(f"while item < {sizes.text(self.owners * self.tiles)}"):
            lines.add(f"owner = remainder(item, {sizes.text(self.owners)})")
            lines.add(f"first = quotient(item, {sizes.text(self.owners)}) * {self.schedule.threads} + thread()")
            lines.add("batch = 0")
            with lines.block(f"while batch < {sizes.text(self.length)}"):
                self._batch()
            lines.add("item = item + block_count()")

    def _batch(self) -> None:
        """As many points as a block has threads: each finds out whose one is, then all do those of the block."""
        lines, threads = self.lines, self.schedule.threads
        length = self.sizes.text(self.length)
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
        indices = split(self.lines, self.sizes, number, self.inner, self.extents, small=is_small([self.length]))
        point = self.start.inner(indices)
        self.body.emit(1, point)
        return point

    def _is_mine(self, point: Point) -> str:
        """Whether the row is there, and belongs to the owner."""
        row = ""
        for lookup in self.rows.lookups:
            index = at(point.lookups[lookup.key], 0)
            row = f"({row}) * {self.sizes.text(lookup.extent)} + {index}" if row else index
        fine = [at(point.checked[lookup.key], 0) for lookup in self.rows.lookups if lookup.key in point.checked]
        low = f"({row}) & {(1 << 31) - 1}"  # any function of the row will do
        return both([*fine, f"remainder32({low}, {self.sizes.text(self.owners)}) == owner"])

    def _together(self, number: str) -> None:
        """One inner point at all outer points of the tile; a thread has the same ones each time."""
        lines = self.lines
        before = self._inner(number)
        with lines.block(f"if first < {self.sizes.text(self.points)}"):
            small = is_small([self.points])
            point = before.inner(split(lines, self.sizes, "first", self.outer, self.extents, small=small))
            self.body.emit(2, point)
            self.body.write_stores(point, self.stage.stores)
