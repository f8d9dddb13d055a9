"""Products as kernel text: tiles in shared memory, sums in registers, and the epilogue at each finished place.

A block of threads takes one tile of the result after the other. Two blocks of depth lie in shared memory: the next one
is read from memory while the sums of this one are made. Where few tiles have long sums, several blocks of threads take
parts of a tile's depth; the last of them adds the partial sums in the order of the parts.

Assumes a contraction that `tiles.tiled` accepts. Guarantees the order of `dfc.kernels.orders.product` (chains of small
matrices where tensor cores make them), whatever runs at the same time.
"""

from __future__ import annotations

from dfc.ir.dims import is_multiple
from dfc.kernels.orders.product import part_depth
from dfc.lower.threads.schedule import ZEROED, Schedule
from dfc.lower.threads.text.axes import split
from dfc.lower.threads.text.body import BodyWriter
from dfc.lower.threads.text.lines import Lines, Sizes
from dfc.lower.threads.text.points import Lane, Point
from dfc.lower.threads.text.tiles import FactorLoads, Sums
from dfc.lower.threads.text.types import computing_type
from dfc.lower.threads.tiles import Tiled
from dfc.lower.threads.wide import NARROW, find_wide


class ContractWriter:
    """Writes one product into lines; `loads` and `sums` are how a machine moves factors and multiplies."""

    def __init__(
        self,
        product: Tiled,
        schedule: Schedule,
        lines: Lines,
        sizes: Sizes,
        *,
        guarded: bool,
        loads: type[FactorLoads] = FactorLoads,
        sums: type[Sums] = Sums,
    ) -> None:
        self.product, self.schedule, self.lines, self.sizes, self.guarded = product, schedule, lines, sizes, guarded
        self.a = loads(product, product.a, "a", lines, sizes)
        self.b = loads(product, product.b, "b", lines, sizes)
        self.sums = sums(product, lines)

    def bounds_check(self) -> list[str]:
        """Does nothing after a fault: a whole block, or where blocks wait for each other not here but at the end."""
        return [] if self.product.is_split else ["if barrier_any(error[0] != 0):", "    return"]

    def first_lines(self) -> list[str]:
        ticket = ["ticket = shared_u32(1)"] if self.product.is_split else []
        return ["t = thread()", *self.a.declare(), *self.b.declare(), *ticket]

    # --- the walk over tiles

    def write(self) -> None:
        lines, product = self.lines, self.product
        for part in (self.a, self.b, self.sums):
            part.begin()
        count = product.tiles * product.splits
        lines.add("item = block_index()")
        with lines.block(f"while item < {self.sizes.text(count)}"):
            self._item()
            lines.add("barrier()")
            lines.add("item = item + block_count()")

    def _item(self) -> None:
        lines, product, sizes = self.lines, self.product, self.sizes
        tile, part = "item", ""
        if self.product.is_split:
            tile = lines.let(f"quotient(item, {sizes.text(product.splits)})", "tile")
            part = lines.let(f"remainder(item, {sizes.text(product.splits)})", "part")
        columns, rows = sizes.text(product.blocks_n), sizes.text(product.blocks_m)
        column = lines.let(f"remainder({tile}, {columns}) * {product.tiling.n}", "column")
        rest = lines.let(f"quotient({tile}, {columns})", "rest")
        row = lines.let(f"remainder({rest}, {rows}) * {product.tiling.m}", "row")
        batch = lines.let(f"quotient({rest}, {rows})", "batch")
        outer = Point(split(lines, sizes, batch, tuple(range(product.kernel.m)), product.extents))
        self.a.start(row, outer)
        self.b.start(column, outer)
        self.sums.clear()
        self._depth(part)
        if not self.product.is_split:
            return self._epilogue(outer, row, column)
        self._combine(tile, part)
        with lines.block("if last"):
            self._epilogue(outer, row, column)
        return None

    def _depth(self, part: str) -> None:
        """All blocks of depth of a tile, or of its part."""
        lines, product = self.lines, self.product
        depth, size = product.extents[product.kernel.k], product.tiling.k
        begin, end = "0", self.sizes.text(depth)
        if part:
            span = self.sizes.text(part_depth(depth, product.splits, size))
            begin = lines.let(f"{part} * {span}", "begin")
            end = lines.let(f"min({end}, {begin} + {span})", "end")
        exact = is_multiple(depth, size)
        with lines.guarded("" if depth.constant and not part else f"{begin} < {end}"):
            self._fetch(begin, end, exact)
        lines.add(f"depth = {begin}")
        lines.add("buffer = 0")
        with lines.block(f"while depth < {end}"):
            self.a.put("buffer")
            self.b.put("buffer")
            lines.add("barrier()")
            with lines.block(f"if depth + {size} < {end}"):
                self._fetch(lines.let(f"depth + {size}", "next"), end, exact)
            if exact or product.tensor:
                self.sums.add(self.a, self.b, "buffer", str(size))
            else:
                with lines.block(f"if depth + {size} <= {end}"):
                    self.sums.add(self.a, self.b, "buffer", str(size))
                with lines.block("else"):
                    self.sums.add(self.a, self.b, "buffer", f"{end} - depth")
            lines.add("buffer = 1 - buffer")
            lines.add(f"depth = depth + {size}")

    def _fetch(self, depth: str, end: str, exact: bool) -> None:
        self.a.fetch(depth, end, exact=exact)
        self.b.fetch(depth, end, exact=exact)

    # --- parts of the depth

    def _combine(self, tile: str, part: str) -> None:
        """Partial sums to the workspace; the block that comes last adds all parts in order."""
        lines, product = self.lines, self.product
        splits = self.sizes.text(product.splits)
        threads, kind = product.tiling.threads, computing_type(product.kernel.accumulator)
        lines.add("last = True")
        with lines.block(f"if {splits} > 1"):
            size = product.tiling.m * product.tiling.n
            memory = lines.let(f"{kind}_pointer(workspace, {ZEROED})", "partial")
            first = lines.let(f"{tile} * {splits} * {size} + t", "first")
            mine = lines.let(f"{first} + {part} * {size}", "mine")
            for number, name in enumerate(self.sums.names()):
                lines.add(f"{memory}[{mine} + {number * threads}] = {name}")
            lines.add("fence()")
            lines.add("barrier()")
            with lines.block("if t == 0"):
                lines.add(f"ticket[0] = atomic_add_u32(u32_pointer(workspace, 0), {tile}, u32(1))")
            lines.add("barrier()")
            lines.add(f"last = i64(ticket[0]) == {splits} - 1")
            with lines.block("if last"):
                lines.add("fence()")
                self.sums.clear()
                with lines.counted(splits, "number") as one:
                    other = lines.let(f"{first} + {one} * {size}", "other")
                    for number, name in enumerate(self.sums.names()):
                        lines.add(f"{name} = {kind}_add({name}, {memory}[{other} + {number * threads}])")
                lines.add(f"u32_pointer(workspace, 0)[{tile}] = u32(0)")
        if self.guarded:
            lines.add("last = both(last, not barrier_any(error[0] != 0))")

    # --- results

    def _epilogue(self, outer: Point, row: str, column: str) -> None:
        product, lines = self.product, self.lines
        kernel, m, n = product.kernel, product.kernel.m, product.kernel.n
        levels = {axis: 2 if axis == m else 1 for axis in range(len(kernel.axes))}
        writer = BodyWriter(
            lines, self.sizes, kernel.operands, kernel.epilogue, product.epilogue, levels=levels, results=2
        )
        together = self.sums.columns_together
        wide = NARROW
        if together > 1:
            wide_dims = find_wide(
                kernel,
                [(kernel.epilogue, product.epilogue)],
                n,
                [product.extents[n]],
                self.schedule.vector_bytes,
                lanes=together,
            )
            wide = NARROW if wide_dims.multiples else wide_dims
        lanes = self._lanes(column, whole=wide is not NARROW)
        point = outer.inner(
            {}, lanes, axes=(n,), vector=n, group=together if wide is not NARROW else 1, wide=wide.accesses
        )
        writer.emit(0, outer)
        point.values.update(outer.values)
        writer.emit(1, point)
        for number in range(product.tiling.thread_m):
            row_text = lines.let(f"{row} + my_row + {self.sums.row(number)}", "row")
            one = point.inner({m: (row_text, 0)}, lanes, axes=(n,), vector=n, group=point.group, wide=wide.accesses)
            if not is_multiple(product.extents[m], product.tiling.m):
                one.condition = f"{row_text} < {self.sizes.text(product.extents[m])}"
            one.accumulated = [self.sums.name(number, j) for j in range(len(lanes))]
            writer.emit(2, one)
            writer.write_stores(one, kernel.stores)

    def _lanes(self, column: str, *, whole: bool) -> tuple[Lane, ...]:
        """The columns of a thread. `whole`: the extent holds whole groups of neighbours."""
        product, lines = self.product, self.lines
        extent, together = product.extents[product.kernel.n], self.sums.columns_together
        exact = is_multiple(extent, product.tiling.n)
        lanes_: list[Lane] = []
        for first in range(0, product.tiling.thread_n, together):
            name = lines.let(f"{column} + my_column + {self.sums.column(first)}", "column")
            for lane in range(together):
                lane_text = name if whole or lane == 0 else f"{name} + {lane}"
                condition = "" if exact else f"{lane_text} < {self.sizes.text(extent)}"
                lanes_.append(Lane({product.kernel.n: (name, lane)}, condition))
        return tuple(lanes_)
