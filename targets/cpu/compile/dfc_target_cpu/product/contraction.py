"""Contractions as calls of the matrix product, with the epilogue as a function over finished rectangles.

The sums are made in the memory of a result where that has their type and rows and is not read besides, else in a tile
of the workspace; the epilogue reads them there. Assumes that different operands of a kernel do not overlap.

Factors of two bytes are widened block by block into the workspace.
"""

import math
from collections.abc import Sequence

from dfc.ir.dims import ZERO, Dim, product
from dfc.kernels.access import NONE, Access
from dfc.kernels.contractions import Product, as_loops, as_product
from dfc.kernels.form import ContractKernel
from dfc_target_cpu.elementwise.kernels import lower_loop_kernel
from dfc_target_cpu.elementwise.loops import odometer
from dfc_target_cpu.elementwise.types import memory_type
from dfc_target_cpu.entries.context_code import asked_to_leave, load_field
from dfc_target_cpu.entries.frames import PART, FrameFunction, Lowering
from dfc_target_cpu.entries.threads import pool_run
from dfc_target_cpu.llvm.text import Value
from dfc_target_cpu.llvm.values import FALSE, NULL, byte_size, i64, literal_int
from dfc_target_cpu.machine import Machine
from dfc_target_cpu.product.epilogue import RECORD, Epilogue
from dfc_target_cpu.product.gemm_library import declare_gemm, gemm_workspace_bytes
from dfc_target_cpu.product.halves import widen_block

Matrix = tuple[Value, Value, Value]
"""Address, row stride and column stride in elements."""
PART_PRODUCTS = 150_000
"""Multiply-adds that are worth a part of their own."""
LONGEST_PIECE = 31
"""Binary digits of the multiply-adds between two looks whether the call is to stop: some 50 ms."""
TILE_ROWS, TILE_COLUMNS, TILE_DEPTH = 192, 768, 512


def lower_contraction(lowering: Lowering, kernel: ContractKernel, number: int) -> str:
    """The functions of one contraction; the name to launch it by."""
    found = as_product(kernel)
    if found is None:
        return lower_loop_kernel(lowering, as_loops(kernel), number)
    epilogue = "" if found.is_plain else Epilogue(lowering, found, number).build()
    part = _Part(lowering, found, number, epilogue).build()
    return _run(lowering, found, number, part)


def product_workspace_bytes(machine: Machine, element: str) -> int:
    """Scratch memory of each part: what the product packs, a tile of sums, and blocks of widened factors."""
    tiles = TILE_ROWS * TILE_COLUMNS + (TILE_ROWS + TILE_COLUMNS) * TILE_DEPTH
    return gemm_workspace_bytes(machine, element) + tiles * byte_size(element)


def _run(lowering: Lowering, p: Product, number: int, part: str) -> str:
    function = FrameFunction(lowering, p.kernel, f"run_{number}", (), "hidden")
    f = function.f
    function.begin()
    work = function.dims.value(product(axis.extent for axis in p.kernel.axes))
    known = literal_int(work)
    if known is not None and known < 2 * PART_PRODUCTS:
        f.call(part, "void", [function.context, function.frame, i64(0), i64(1)])
        return function.finish()
    wanted = f.assign("i64", f"udiv {work}, {PART_PRODUCTS}")
    parts = f.maximum(f.minimum(wanted, load_field(f, function.context, "threads")), i64(1))
    run = pool_run(lowering.module, lowering.machine)
    f.call(run, "void", [function.context, Value("ptr", f"@{part}"), function.frame, parts])
    return function.finish()


class _Part(FrameFunction):
    """`void product_<n>(context, frame, part, parts)`: a share of the batch, or of every product."""

    def __init__(self, lowering: Lowering, p: Product, number: int, epilogue: str) -> None:
        super().__init__(lowering, p.kernel, f"product_{number}", PART)
        self.p, self.epilogue = p, epilogue
        self.part, self.parts = self.f.arguments[2:]
        self.gemm = declare_gemm(lowering.module, p.element)

    def value(self, formula: Dim) -> Value:
        return self.dims.value(formula)

    def build(self) -> str:
        p, f = self.p, self.f
        site = self.site()
        self.pointers, self.leave = site.pointers, site.failed
        self.extents = [self.value(axis.extent) for axis in p.kernel.axes]
        spill = load_field(f, self.context, "scratch")
        each = product_workspace_bytes(self.lowering.machine, p.element)
        self.workspace = f.gep("i8", spill, f.add(i64(self.lowering.spill_bytes), f.mul(self.part, i64(each))))
        self.record = f.alloca("i64", count=len(RECORD) + p.kernel.m, align=8)
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
        a, b = (self._first_element(access, indices) for access in (p.a, p.b))
        if p.direct == NONE or p.widens:
            self._tiles(indices, share, a, b)
        else:
            self._whole(indices, share, a, b, p.epilogue.stores[p.direct])

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
        epilogue = more.get("epilogue", NULL if self.p.is_plain else self._epilogue())
        arguments = [self.record, epilogue, *a, *b, *c[:2], *sizes, more.get("accumulate", FALSE), *share]
        self.f.call(self.gemm, "void", [*arguments, self.workspace, self.extents[self.p.kernel.m]])

    def _epilogue(self) -> Value:
        return Value("ptr", f"@{self.epilogue}") if self.epilogue else NULL

    def _matrix(self, start: Value, access: Access, row: int, column: int) -> Matrix:
        return start, self.value(access.coefficients[row]), self.value(access.coefficients[column])

    def _whole(self, indices: Sequence[Value], share: tuple[Value, Value], a: Value, b: Value, target: Access) -> None:
        """Sums straight into the result."""
        p = self.p
        c = self._matrix(self._first_element(target, indices), target, p.kernel.m, p.kernel.n)
        if self.epilogue:
            self._write_record(c[0], c[1], (i64(0), i64(0)), indices)
        sizes = [self.extents[axis] for axis in (p.kernel.m, p.kernel.n, p.kernel.k)]
        self._call(
            self._matrix(a, p.a, p.kernel.m, p.kernel.k), self._matrix(b, p.b, p.kernel.k, p.kernel.n), c, sizes, share
        )

    def _tiles(self, indices: Sequence[Value], share: tuple[Value, Value], a: Value, b: Value) -> None:
        """Tile after tile through the workspace; tiles are dealt out to the parts in turn."""
        p, f = self.p, self.f
        m, n = self.extents[p.kernel.m], self.extents[p.kernel.n]
        across, down = self._blocks(n, i64(TILE_COLUMNS)), self._even_blocks(m, share[1])
        height = self._blocks(m, down)
        sums = f.gep("i8", self.workspace, i64(gemm_workspace_bytes(self.lowering.machine, p.element)))
        with f.counted_loop(share[0], f.mul(down, across), share[1], "tile") as loop:
            block = f.udiv(loop.index, across)
            row = f.minimum(f.mul(block, height), m)
            column = f.mul(f.sub(loop.index, f.mul(block, across)), i64(TILE_COLUMNS))
            rows, columns = f.minimum(height, f.sub(m, row)), f.minimum(i64(TILE_COLUMNS), f.sub(n, column))
            self._write_record(sums, i64(TILE_COLUMNS), (row, column), indices)
            a_tile = self._moved(self._matrix(a, p.a, p.kernel.m, p.kernel.k), p.a, row, 1)
            b_tile = self._moved(self._matrix(b, p.b, p.kernel.k, p.kernel.n), p.b, column, 2)
            self._tile(a_tile, b_tile, (sums, i64(TILE_COLUMNS), i64(1)), rows, columns)

    def _moved(self, matrix: Matrix, access: Access, by: Value, axis: int) -> Matrix:
        """A matrix from another row (axis 1) or column (axis 2) on."""
        element = memory_type(self.p.kernel.operands[access.operand].dtype)
        return self.f.gep(element, matrix[0], self.f.mul(by, matrix[axis])), matrix[1], matrix[2]

    def _tile(self, a: Matrix, b: Matrix, c: Matrix, rows: Value, columns: Value) -> None:
        k, alone = self.extents[self.p.kernel.k], (i64(0), i64(1))
        if not self.p.widens:
            return self._call(a, b, c, (rows, columns, k), alone, epilogue=self._epilogue())
        f, p = self.f, self.p
        wide_a = f.gep(p.element, c[0], i64(TILE_ROWS * TILE_COLUMNS))
        wide_b = f.gep(p.element, wide_a, i64(TILE_ROWS * TILE_DEPTH))
        blocks = f.maximum(self._blocks(k, i64(TILE_DEPTH)), i64(1))
        with f.counted_loop(i64(0), blocks, hint="depth") as loop:
            start = f.mul(loop.index, i64(TILE_DEPTH))
            depth = f.minimum(i64(TILE_DEPTH), f.sub(k, start))
            self._widen(p.a, wide_a, TILE_DEPTH, self._moved(a, p.a, start, 2), rows, depth)
            self._widen(p.b, wide_b, TILE_COLUMNS, self._moved(b, p.b, start, 1), depth, columns)
            last = f.icmp("eq", f.add(loop.index, i64(1)), blocks)
            self._call(
                (wide_a, i64(TILE_DEPTH), i64(1)),
                (wide_b, i64(TILE_COLUMNS), i64(1)),
                c,
                (rows, columns, depth),
                alone,
                epilogue=f.select(last, self._epilogue(), NULL),
                accumulate=f.icmp("sgt", loop.index, i64(0)),
            )
        return None

    def _widen(self, access: Access, target: Value, stride: int, source: Matrix, rows: Value, columns: Value) -> None:
        dtype = self.p.kernel.operands[access.operand].dtype
        name = widen_block(self.lowering, dtype)
        self.f.call(name, "void", [target, i64(stride), *source, rows, columns])

    def _even_blocks(self, m: Value, parts: Value) -> Value:
        """Row blocks of at most `TILE_ROWS`, as many for each part."""
        blocks = self._blocks(m, i64(TILE_ROWS))
        return self.f.maximum(self.f.mul(self._blocks(blocks, parts), parts), i64(1))

    def _blocks(self, extent: Value, size: Value) -> Value:
        return self.f.udiv(self.f.add(extent, self.f.sub(size, i64(1))), size)
