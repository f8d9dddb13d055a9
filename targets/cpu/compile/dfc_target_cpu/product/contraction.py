"""Contractions as calls of the matrix product, with the epilogue as a function over finished rectangles.

The sums are made in the memory of a result where that has their type and rows and is not read besides, else in a tile
of the workspace; the epilogue reads them there. Assumes that different operands of a kernel do not overlap.

Factors of two bytes, and those that are no matrices in memory but windows of an image, are packed into the workspace
block by block; nothing larger than such a block ever holds windows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ZERO, Dim, product
from dfc.kernels.access import NONE, Access
from dfc.kernels.contractions import Product, as_loops, as_product
from dfc.kernels.form import ContractKernel
from dfc.kernels.operand_maps import OperandMap
from dfc_driver_cpu.context import LARGE_PAGE
from dfc_target_cpu.elementwise.kernels import lower_loop_kernel
from dfc_target_cpu.elementwise.loops import odometer
from dfc_target_cpu.elementwise.types import memory_type
from dfc_target_cpu.entries.context_code import asked_to_leave, load_field
from dfc_target_cpu.entries.frames import PART, FrameFunction, Lowering
from dfc_target_cpu.entries.threads import pool_run
from dfc_target_cpu.llvm.text import Parameter, Value
from dfc_target_cpu.llvm.values import FALSE, NULL, byte_size, i64, literal_int
from dfc_target_cpu.machine import Machine
from dfc_target_cpu.product.epilogue import RECORD, Epilogue
from dfc_target_cpu.product.gemm.library import declare_gemm, gemm_workspace_bytes
from dfc_target_cpu.product.halves import widen_block
from dfc_target_cpu.product.panels import PackedAxes, pack_function, packed_axes
from dfc_target_cpu.product.stationary_factor import STRIDE, StationaryFactor
from dfc_target_cpu.windows.launch import lower_windows
from dfc_target_cpu.windows.plans import plan_windows

Matrix = tuple[Value, Value, Value]
"""Address, row stride and column stride in elements."""
PART_PRODUCTS = 150_000
"""Multiply-adds that are worth a part of their own."""
ROW_PART_PRODUCTS, WIDE_ROW = 90_000, 768
"""Likewise where one row has so many columns: each multiply-add takes an element of the other factor from memory, which
two threads read faster than one, and the rows of each part are long enough for a processor to read them ahead."""
LONGEST_PIECE = 31
"""Binary digits of the multiply-adds between two looks whether the call is to stop: some 50 ms."""
TILE_ROWS, TILE_COLUMNS, TILE_DEPTH = 192, 768, 512
TILE_ELEMENTS = TILE_ROWS * TILE_COLUMNS + (TILE_ROWS + TILE_COLUMNS) * TILE_DEPTH
"""Of the workspace, for a tile of sums and blocks of packed factors."""
DIRECT_ROWS = TILE_ROWS * (TILE_COLUMNS + TILE_DEPTH) // TILE_DEPTH
"""Rows of a block where the sums need no tile: there is room for more."""
ROW_UNIT = 8
MANY_ROWS = 1 << 32
"""Said of products of windows, whose sums are chains over k however few rows there are."""


def lower_contraction(lowering: Lowering, kernel: ContractKernel, number: int) -> str:
    """The functions of one contraction; the name to launch it by."""
    matched_product = as_product(kernel)
    if matched_product is None:
        return lower_loop_kernel(lowering, as_loops(kernel), number)
    epilogue = "" if matched_product.is_plain else Epilogue(lowering, matched_product, number).build()
    plan = plan_windows(kernel, lowering.machine)
    if plan is not None:
        return lower_windows(lowering, matched_product, plan, number, epilogue)
    part = ProductPart(lowering, matched_product, number, epilogue).build()
    return _run(lowering, matched_product, number, part)


def product_workspace_bytes(machine: Machine, element: str) -> int:
    """Scratch memory of each part: what the product packs, a tile of sums, and blocks of widened factors."""
    return in_large_pages(gemm_workspace_bytes(machine, element) + TILE_ELEMENTS * byte_size(element))


def in_large_pages(size: int) -> int:
    """So many bytes in whole large pages: each part uses the beginning of its memory most, which then is one page."""
    return -(-size // LARGE_PAGE) * LARGE_PAGE


def _run(lowering: Lowering, p: Product, number: int, part: str) -> str:
    function = FrameFunction(lowering, p.kernel, f"run_{number}", (), "hidden")
    f = function.f
    function.begin()
    work = function.dims.value(product(axis.extent for axis in p.kernel.axes))
    least = _least_part(function, p)
    known = literal_int(work)
    if known is not None and known < 2 * (literal_int(least) or 0):
        f.call(part, "void", [function.context, function.frame, i64(0), i64(1)])
        return function.finish()
    useful_parts = f.udiv(work, least)
    parts = f.maximum(f.minimum(useful_parts, load_field(f, function.context, "threads")), i64(1))
    run = pool_run(lowering.module, lowering.machine)
    f.call(run, "void", [function.context, Value("ptr", f"@{part}"), function.frame, parts])
    return function.finish()


def _least_part(function: FrameFunction, p: Product) -> Value:
    """Multiply-adds that are worth a part of their own; a literal where the sizes are known."""
    f = function.f
    sides = [function.dims.value(p.kernel.axes[axis].extent) for axis in (p.kernel.m, p.kernel.n)]
    known = [literal_int(side) for side in sides]
    if None not in known:
        is_wide_row = 1 in known and max(size or 0 for size in known) >= WIDE_ROW
        return i64(ROW_PART_PRODUCTS if is_wide_row else PART_PRODUCTS)
    is_row = f.icmp("eq", f.minimum(*sides), i64(1))
    is_wide = f.icmp("sge", f.maximum(*sides), i64(WIDE_ROW))
    return f.select(f.bit_and(is_row, is_wide), i64(ROW_PART_PRODUCTS), i64(PART_PRODUCTS))


@dataclass(frozen=True, slots=True)
class Panel:
    """How blocks of a factor are packed: by `function`, `axes.along` next to each other."""

    one: OperandMap
    axes: PackedAxes
    function: str


@dataclass(frozen=True, slots=True)
class Tile:
    """A rectangle of a product."""

    row: Value
    column: Value
    rows: Value
    columns: Value


class ProductPart(FrameFunction):
    """`void product_<n>(context, frame, part, parts)`: a share of the batch, or of every product."""

    def __init__(
        self, lowering: Lowering, p: Product, number: int, epilogue: str, extra: tuple[Parameter, ...] = PART
    ) -> None:
        super().__init__(lowering, p.kernel, f"product_{number}", extra)
        self.p, self.epilogue, self.number = p, epilogue, number
        self.rows = TILE_ROWS if p.direct == NONE else DIRECT_ROWS
        self.panels = {name: self._panel(name, one) for name, one in (("a", p.a), ("b", p.b))}
        self.gemm = declare_gemm(lowering.module, p.element)

    def value(self, formula: Dim) -> Value:
        return self.dims.value(formula)

    def _panel(self, name: str, one: OperandMap) -> Panel | None:
        """How blocks of a factor are packed; None if it is read where it lies."""
        p = self.p
        row, column = (p.kernel.m, p.kernel.k) if name == "a" else (p.kernel.k, p.kernel.n)
        if one.is_strided:
            axes = PackedAxes(row, column) if p.widens_factor(one) else None
            function = widen_block(self.lowering, p.kernel.operands[one.access.operand].dtype) if axes else ""
        else:
            axes = packed_axes(one, row, column)
            function = pack_function(self.lowering, p, one, axes, f"pack_{self.number}_{name}")
        return None if axes is None else Panel(one, axes, function)

    def build(self) -> str:
        p, f = self.p, self.f
        self.part, self.parts = f.arguments[2:]
        self.enter()
        spill = load_field(f, self.context, "scratch")
        each = product_workspace_bytes(self.lowering.machine, p.element)
        self.workspace = f.gep("i8", spill, f.add(i64(self.lowering.spill_bytes), f.mul(self.part, i64(each))))
        batch = self.value(product(axis.extent for axis in p.kernel.axes[: p.kernel.m]))
        many = f.icmp("sge", batch, f.mul(self.parts, i64(2)))
        first = f.select(many, self._border(batch, self.part), i64(0))
        last = f.select(many, self._border(batch, f.add(self.part, i64(1))), batch)
        share = (f.select(many, i64(0), self.part), f.select(many, i64(1), self.parts))
        if p.kernel.m == 0:
            self._product([], share)
        else:
            with odometer(f, first, last, self.extents[: p.kernel.m]) as indices:
                self._product(indices, share)
        return self.finish()

    def enter(self) -> None:
        """Reads operands and sizes, and makes room for the record of the epilogue."""
        site = self.site()
        self.pointers, self.leave = site.pointers, site.failed
        self.extents = [self.value(axis.extent) for axis in self.p.kernel.axes]
        self.record = self.f.alloca("i64", count=len(RECORD) + self.p.kernel.m, align=8)

    def _border(self, count: Value, part: Value) -> Value:
        return self.f.assign("i64", f"udiv {self.f.mul(count, part)}, {self.parts.text}")

    def _product(self, indices: Sequence[Value], share: tuple[Value, Value]) -> None:
        """All of one product, or this part's share of it: piece by piece where that takes long, so that a call can be
        stopped between them."""
        f, sizes = self.f, self.extents[self.p.kernel.m :]
        work = f.mul(f.mul(sizes[0], sizes[1]), sizes[2])
        known = [literal_int(size) for size in sizes]
        if all(size is not None for size in known) and math.prod(size or 0 for size in known) < 2 << LONGEST_PIECE:
            self._piece(indices, share)
            return
        pieces = f.maximum(f.udiv(f.lshr(work, i64(LONGEST_PIECE)), share[1]), i64(1))
        with f.counted_loop(i64(0), pieces, hint="piece") as piece:
            asked_to_leave(self.lowering.module, f, self.context, self.leave)
            number = f.add(f.mul(share[0], pieces), piece.index)
            self._piece(indices, (number, f.mul(share[1], pieces)))

    def _piece(self, indices: Sequence[Value], share: tuple[Value, Value]) -> None:
        p = self.p
        if p.in_place and p.direct != NONE:
            self._whole(indices, share, p.epilogue.stores[p.direct])
        elif StationaryFactor.suits(p):
            self._by_stationary_factor(indices, share)
        else:
            self._tiles(indices, share)

    def _first_element(self, access: Access, indices: Sequence[Value]) -> Value:
        """The address of an operand at a batch point, in its first row and column."""
        f, element = self.f, memory_type(self.p.kernel.operands[access.operand].dtype)
        offset = self.value(access.offset)
        for axis, index in enumerate(indices):
            if access.coefficients[axis] != ZERO:
                offset = f.add(offset, f.mul(index, self.value(access.coefficients[axis])))
        return f.gep(element, self.pointers[access.operand], offset)

    def _write_record(self, sums: Value, stride: Value, origin: Sequence[Value], indices: Sequence[Value]) -> None:
        words = [self.context, self.frame, sums, stride, *origin, *indices]
        for number, word in enumerate(words):
            self.f.store(word, self.f.gep("i64", self.record, i64(number)))

    def _call(
        self, a: Matrix, b: Matrix, c: Matrix, sizes: Sequence[Value], share: Sequence[Value], **more: Value
    ) -> None:
        """One call of the product; `more` may say `accumulate` and `epilogue`."""
        p = self.p
        epilogue = more.get("epilogue", NULL if p.is_plain else self._epilogue())
        arguments = [self.record, epilogue, *a, *b, *c[:2], *sizes, more.get("accumulate", FALSE), *share]
        whole_rows = self.extents[p.kernel.m] if p.a.is_strided and p.b.is_strided else i64(MANY_ROWS)
        self.f.call(self.gemm, "void", [*arguments, self.workspace, whole_rows])

    def _epilogue(self) -> Value:
        return Value("ptr", f"@{self.epilogue}") if self.epilogue else NULL

    def _matrix(self, access: Access, indices: Sequence[Value], row: int, column: int) -> Matrix:
        start = self._first_element(access, indices)
        return start, self.value(access.coefficients[row]), self.value(access.coefficients[column])

    def _whole(self, indices: Sequence[Value], share: tuple[Value, Value], target: Access) -> None:
        """Sums straight into the result, factors where they lie."""
        m, n, k = self.p.kernel.m, self.p.kernel.n, self.p.kernel.k
        a, b = self._matrix(self.p.a.access, indices, m, k), self._matrix(self.p.b.access, indices, k, n)
        c = self._matrix(target, indices, m, n)
        if self.epilogue:
            self._write_record(c[0], c[1], (i64(0), i64(0)), indices)
        self._call(a, b, c, [self.extents[axis] for axis in (m, n, k)], share)

    def _by_stationary_factor(self, indices: Sequence[Value], share: tuple[Value, Value]) -> None:
        """Blocks of rows by a second factor that is packed once for all of them, or tiles where that does not pay."""
        f, p, memory = self.f, self.p, self._blocks_start()
        m, n, k = (self.extents[axis] for axis in (p.kernel.m, p.kernel.n, p.kernel.k))
        factor = StationaryFactor(f, self.lowering.module, self.lowering.machine, p, TILE_ELEMENTS)
        first, last = (self._row_border(m, f.add(share[0], i64(one)), share[1]) for one in (0, 1))
        stationary, tiles, done = f.label("stationary"), f.label("tiles"), f.label("made")
        f.branch_if(factor.pays(f.sub(last, first), n, k), stationary, tiles)
        f.begin(stationary)
        step_m, step_n = factor.steps(f.sub(last, first), n)
        a, b = (
            self._matrix(one.access, indices, *axes)
            for one, axes in ((p.a, (p.kernel.m, p.kernel.k)), (p.b, (p.kernel.k, p.kernel.n)))
        )
        with f.counted_loop(i64(0), n, step_n, "columns") as column:
            columns = f.minimum(step_n, f.sub(n, column.index))
            factor.pack(memory, self._moved(b, p.element, column.index, 2), k, columns)
            with f.counted_loop(first, last, step_m, "rows") as row:
                rows = f.minimum(step_m, f.sub(last, row.index))
                self._write_record(memory, i64(STRIDE), (row.index, column.index), indices)
                sizes = [rows, columns, k]
                block = self._moved(a, p.element, row.index, 1)
                factor.multiply(memory, [self.record, self._epilogue()], block, sizes, self.workspace)
        f.branch(done)
        f.begin(tiles)
        self._tiles(indices, share)
        f.branch(done)
        f.begin(done)

    def _row_border(self, m: Value, number: Value, parts: Value) -> Value:
        """The first row of a share: whole tiles of registers but at the end."""
        f = self.f
        units = f.udiv(f.add(m, i64(ROW_UNIT - 1)), i64(ROW_UNIT))
        return f.minimum(f.mul(f.udiv(f.mul(units, number), parts), i64(ROW_UNIT)), m)

    def _tiles(self, indices: Sequence[Value], share: tuple[Value, Value]) -> None:
        """Tile after tile; tiles are dealt out to the parts in turn."""
        p, f = self.p, self.f
        m, n = self.extents[p.kernel.m], self.extents[p.kernel.n]
        across, down = self._blocks(n, i64(TILE_COLUMNS)), self._even_blocks(m, share[1])
        height = self._blocks(m, down)
        with f.counted_loop(share[0], f.mul(down, across), share[1], "tile") as loop:
            block = f.udiv(loop.index, across)
            row = f.minimum(f.mul(block, height), m)
            column = f.mul(f.sub(loop.index, f.mul(block, across)), i64(TILE_COLUMNS))
            rows, columns = f.minimum(height, f.sub(m, row)), f.minimum(i64(TILE_COLUMNS), f.sub(n, column))
            tile = Tile(row, column, rows, columns)
            sums = self._sums(tile, indices)
            self._write_record(sums[0], sums[1], (row, column), indices)
            self._tile(tile, sums, indices)

    def _sums(self, tile: Tile, indices: Sequence[Value]) -> Matrix:
        """Where the sums of a tile are made: in the result, or in the workspace."""
        p = self.p
        if p.direct == NONE:
            return self._blocks_start(), i64(TILE_COLUMNS), i64(1)
        whole = self._matrix(p.epilogue.stores[p.direct], indices, p.kernel.m, p.kernel.n)
        return self._moved(self._moved(whole, p.element, tile.row, 1), p.element, tile.column, 2)

    def _blocks_start(self) -> Value:
        return self.f.gep("i8", self.workspace, i64(gemm_workspace_bytes(self.lowering.machine, self.p.element)))

    def _moved(self, matrix: Matrix, element: str, by: Value, axis: int) -> Matrix:
        """A matrix from another row (axis 1) or column (axis 2) on."""
        return self.f.gep(element, matrix[0], self.f.mul(by, matrix[axis])), matrix[1], matrix[2]

    def _tile(self, tile: Tile, sums: Matrix, indices: Sequence[Value]) -> None:
        """The sums of a tile: at once, or one block of packed factors after the other."""
        f, p, alone = self.f, self.p, (i64(0), i64(1))
        k = self.extents[p.kernel.k]
        if p.in_place:
            a, b = (self._part_of(name, tile, i64(0), k, indices) for name in ("a", "b"))
            return self._call(a, b, sums, (tile.rows, tile.columns, k), alone, epilogue=self._epilogue())
        blocks = f.maximum(self._blocks(k, i64(TILE_DEPTH)), i64(1))
        with f.counted_loop(i64(0), blocks, hint="depth") as loop:
            start = f.mul(loop.index, i64(TILE_DEPTH))
            depth = f.minimum(i64(TILE_DEPTH), f.sub(k, start))
            a, b = (self._part_of(name, tile, start, depth, indices) for name in ("a", "b"))
            last = f.icmp("eq", f.add(loop.index, i64(1)), blocks)
            done = f.select(last, NULL if p.is_plain else self._epilogue(), NULL)
            more = f.icmp("sgt", loop.index, i64(0))
            self._call(a, b, sums, (tile.rows, tile.columns, depth), alone, epilogue=done, accumulate=more)
        return None

    # --- factors

    def _part_of(self, name: str, tile: Tile, start: Value, depth: Value, indices: Sequence[Value]) -> Matrix:
        """The rows or columns of a tile, from one depth on: in memory, or packed."""
        p, f, panel = self.p, self.f, self.panels[name]
        one, axes, width = self._sides(name, tile)
        row, column = axes
        starts = {p.kernel.k: start, row if name == "a" else column: tile.row if name == "a" else tile.column}
        counts = {p.kernel.k: depth, row if name == "a" else column: tile.rows if name == "a" else tile.columns}
        lies: Matrix | None = None
        if one.is_strided:
            element = memory_type(p.kernel.operands[one.access.operand].dtype)
            lies = self._matrix(one.access, indices, row, column)
            lies = self._moved(self._moved(lies, element, starts[row], 1), element, starts[column], 2)
        if panel is None:
            assert lies is not None
            return lies
        target = f.gep(p.element, self._blocks_start(), i64(0 if name == "a" else DIRECT_ROWS * TILE_DEPTH))
        if name == "a" and p.direct == NONE:
            target = f.gep(p.element, target, i64(TILE_ROWS * TILE_COLUMNS))
        along, across = panel.axes.along, panel.axes.across
        stride = i64(TILE_DEPTH if along == p.kernel.k else width)
        if lies is not None:
            f.call(panel.function, "void", [target, stride, *lies, counts[row], counts[column]])
        else:
            lines = [starts[across], counts[across], starts[along], counts[along]]
            f.call(panel.function, "void", [self.context, self.frame, target, stride, *lines, *indices])
        return (target, stride, i64(1)) if along == column else (target, i64(1), stride)

    def _sides(self, name: str, tile: Tile) -> tuple[OperandMap, tuple[int, int], int]:
        """A factor, its axes, and how many rows or columns a block has at most."""
        kernel = self.p.kernel
        if name == "a":
            return self.p.a, (kernel.m, kernel.k), self.rows
        return self.p.b, (kernel.k, kernel.n), TILE_COLUMNS

    def _even_blocks(self, m: Value, parts: Value) -> Value:
        """Row blocks of at most `self.rows`, as many for each part."""
        blocks = self._blocks(m, i64(self.rows))
        return self.f.maximum(self.f.mul(self._blocks(blocks, parts), parts), i64(1))

    def _blocks(self, extent: Value, size: Value) -> Value:
        return self.f.udiv(self.f.add(extent, self.f.sub(size, i64(1))), size)
