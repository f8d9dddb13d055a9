"""Contractions as calls of the matrix product, with the epilogue as a function over finished rectangles.

The sums are made in the memory of a result where that has their type and rows and is not read besides, else in a tile
of the workspace; the epilogue reads them there. Assumes that different operands of a kernel do not overlap.

Rectangles reach the epilogue through a tile record of 8-byte words: context, frame, address of the sums, their row
stride, number of the first row and column, then the batch indices.
"""

from collections.abc import Sequence

from dfc.ir.dims import ZERO, Dim, product
from dfc.kernels.form import ContractKernel
from dfc_targets.cpu.context_code import load_field
from dfc_targets.cpu.gemm_library import declare_gemm, gemm_workspace_bytes
from dfc_targets.cpu.llvm_text import Parameter, Value
from dfc_targets.cpu.llvm_values import FALSE, NULL, byte_size, i64, literal_int, vector_type
from dfc_targets.cpu.lower_access import NONE, Access
from dfc_targets.cpu.lower_body import BodyCode
from dfc_targets.cpu.lower_contract import Product, as_loops, as_product
from dfc_targets.cpu.lower_frames import PART, FrameFunction, Lowering
from dfc_targets.cpu.lower_kernels import lower_loop_kernel
from dfc_targets.cpu.lower_loops import odometer, vector_loop
from dfc_targets.cpu.lower_memory import Point
from dfc_targets.cpu.lower_plan import lanes_along
from dfc_targets.cpu.machine import Machine
from dfc_targets.cpu.threads import pool_run

PART_PRODUCTS = 150_000
"""Multiply-adds that are worth a part of their own."""
TILE_ROWS, TILE_COLUMNS = 192, 768
_RECORD = ("context", "frame", "sums", "stride", "row", "column")
_TILE = (Parameter("ptr", "tile"),)
_RECTANGLE = tuple(Parameter("i64", name) for name in ("row0", "row1", "column0", "column1"))


def lower_contraction(lowering: Lowering, kernel: ContractKernel, number: int) -> str:
    """The functions of one contraction; the name to launch it by."""
    found = as_product(kernel)
    if found is None:
        return lower_loop_kernel(lowering, as_loops(kernel), number)
    epilogue = "" if found.is_plain and not found.loads else _Epilogue(lowering, found, number).build()
    part = _Part(lowering, found, number, epilogue).build()
    return _run(lowering, found, number, part)


def product_workspace_bytes(machine: Machine, element: str) -> int:
    """Scratch memory of each part: what the product packs, and a tile of sums."""
    return gemm_workspace_bytes(machine, element) + TILE_ROWS * TILE_COLUMNS * byte_size(element)


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
        self.pointers = self.site().pointers
        self.extents = [self.value(axis.extent) for axis in p.kernel.axes]
        spill = load_field(f, self.context, "scratch")
        each = product_workspace_bytes(self.lowering.machine, p.element)
        self.workspace = f.gep("i8", spill, f.add(i64(self.lowering.spill_bytes), f.mul(self.part, i64(each))))
        self.record = f.alloca("i64", count=len(_RECORD) + p.m, align=8)
        batch = self.value(product(axis.extent for axis in p.kernel.axes[: p.m]))
        many = f.icmp("sge", batch, f.mul(self.parts, i64(2)))
        first = f.select(many, self._border(batch, self.part), i64(0))
        last = f.select(many, self._border(batch, f.add(self.part, i64(1))), batch)
        share = (f.select(many, i64(0), self.part), f.select(many, i64(1), self.parts))
        if p.m == 0:
            self._product([], share)
        else:
            with odometer(f, first, last, self.extents[: p.m]) as indices:
                self._product(indices, share)
        return self.finish()

    def _border(self, count: Value, part: Value) -> Value:
        return self.f.assign("i64", f"udiv {self.f.mul(count, part)}, {self.parts.text}")

    def _product(self, indices: Sequence[Value], share: tuple[Value, Value]) -> None:
        """All of one product, or this part's share of it."""
        p = self.p
        a, b = (self._first_element(access, indices) for access in (p.a, p.b))
        if p.direct == NONE:
            self._tiles(indices, share, a, b)
        else:
            self._whole(indices, share, a, b, p.epilogue.stores[p.direct])

    def _first_element(self, access: Access, indices: Sequence[Value]) -> Value:
        """The address of an operand at a batch point, in its first row and column."""
        f = self.f
        offset = self.value(access.offset)
        for axis, index in enumerate(indices):
            if access.coefficients[axis] != ZERO:
                offset = f.add(offset, f.mul(index, self.value(access.coefficients[axis])))
        return f.gep(self.p.element, self.pointers[access.operand], offset)

    def _write_record(self, sums: Value, stride: Value, origin: Sequence[Value], indices: Sequence[Value]) -> None:
        words = [self.context, self.frame, sums, stride, *origin, *indices]
        for number, word in enumerate(words):
            self.f.store(word, self.f.gep("i64", self.record, i64(number)))

    def _call(self, a: Value, b: Value, c: Value, sizes: Sequence[Value], share: Sequence[Value], plain: bool) -> None:
        p = self.p
        steps = [self.value(one.coefficients[axis]) for one, axis in ((p.a, p.m), (p.a, p.k), (p.b, p.k), (p.b, p.n))]
        epilogue = NULL if plain or not self.epilogue else Value("ptr", f"@{self.epilogue}")
        c_pointer, c_step = c, sizes[3]
        arguments = [self.record, epilogue, a, steps[0], steps[1], b, steps[2], steps[3], c_pointer, c_step]
        arguments += [*sizes[:3], FALSE, *share, self.workspace, self.extents[p.m]]
        self.f.call(self.gemm, "void", arguments)

    def _whole(self, indices: Sequence[Value], share: tuple[Value, Value], a: Value, b: Value, target: Access) -> None:
        """Sums straight into the result."""
        p = self.p
        c, stride = self._first_element(target, indices), self.value(target.coefficients[p.m])
        if self.epilogue:
            self._write_record(c, stride, (i64(0), i64(0)), indices)
        m, n, k = (self.extents[axis] for axis in (p.m, p.n, p.k))
        self._call(a, b, c, (m, n, k, stride), share, p.is_plain)

    def _tiles(self, indices: Sequence[Value], share: tuple[Value, Value], a: Value, b: Value) -> None:
        """Tile after tile through the workspace; tiles are dealt out to the parts in turn."""
        p, f = self.p, self.f
        m, n, k = (self.extents[axis] for axis in (p.m, p.n, p.k))
        across, down = self._blocks(n, i64(TILE_COLUMNS)), self._even_blocks(m, share[1])
        height = self._blocks(m, down)
        c = f.gep("i8", self.workspace, i64(gemm_workspace_bytes(self.lowering.machine, p.element)))
        with f.counted_loop(share[0], f.mul(down, across), share[1], "tile") as loop:
            block = f.udiv(loop.index, across)
            row = f.minimum(f.mul(block, height), m)
            column = f.mul(f.sub(loop.index, f.mul(block, across)), i64(TILE_COLUMNS))
            rows, columns = f.minimum(height, f.sub(m, row)), f.minimum(i64(TILE_COLUMNS), f.sub(n, column))
            self._write_record(c, i64(TILE_COLUMNS), (row, column), indices)
            a_tile = f.gep(p.element, a, f.mul(row, self.value(p.a.coefficients[p.m])))
            b_tile = f.gep(p.element, b, f.mul(column, self.value(p.b.coefficients[p.n])))
            self._call(a_tile, b_tile, c, (rows, columns, k, i64(TILE_COLUMNS)), (i64(0), i64(1)), False)

    def _even_blocks(self, m: Value, parts: Value) -> Value:
        """Row blocks of at most `TILE_ROWS`, as many for each part."""
        blocks = self._blocks(m, i64(TILE_ROWS))
        return self.f.maximum(self.f.mul(self._blocks(blocks, parts), parts), i64(1))

    def _blocks(self, extent: Value, size: Value) -> Value:
        return self.f.udiv(self.f.add(extent, self.f.sub(size, i64(1))), size)


class _Epilogue(FrameFunction):
    """`void epilogue_<n>(tile, row0, row1, column0, column1)`: the body at each finished point of a rectangle."""

    def __init__(self, lowering: Lowering, p: Product, number: int) -> None:
        self.p = p
        super().__init__(lowering, p.kernel, f"epilogue_{number}", _RECTANGLE, head=_TILE)

    def find_frame(self) -> tuple[Value, Value]:
        return self._word("context"), self._word("frame")

    def _word(self, name: str, kind: str = "ptr") -> Value:
        return self.f.load(kind, self.f.gep("i64", self.f.arguments[0], i64(_RECORD.index(name))))

    def build(self) -> str:
        p, f = self.p, self.f
        sums, stride = self._word("sums"), self._word("stride", "i64")
        row_origin, column_origin = self._word("row", "i64"), self._word("column", "i64")
        words = [f.gep("i64", f.arguments[0], i64(len(_RECORD) + axis)) for axis in range(p.m)]
        batch = [f.load("i64", word) for word in words]
        row0, row1, column0, column1 = f.arguments[1:]
        site = self.site()
        order = (*range(p.m), p.m, p.n)
        body = BodyCode(
            site,
            p.kernel.epilogue,
            p.epilogue,
            order,
            p.n,
            outer_levels=len(order),
            outer_varies=True,
            written=frozenset(),
        )
        lanes = lanes_along(p.kernel.epilogue, p.epilogue, p.n, self.lowering.machine)
        point = Point(p.n, lanes, indices=dict(enumerate(batch)))
        for level in range(p.m + 1):
            body.emit(level, point)
        with f.counted_loop(row0, row1, hint="row") as loop:
            line = f.gep(p.element, sums, f.mul(loop.index, stride))
            in_row = point.inner(p.m, f.add(row_origin, loop.index))
            body.emit(p.m + 1, in_row)

            def emit(column: Value, mask: Value | None, _: int) -> None:
                self._at(body, in_row.inner(p.n, f.add(column_origin, column), mask), f.gep(p.element, line, column))

            vector_loop(f, column0, column1, lanes, 1, emit)
        return self.finish()

    def _at(self, body: BodyCode, point: Point, address: Value) -> None:
        """One vector of finished sums."""
        f, kind = self.f, vector_type(point.lanes, self.p.element)
        nothing = body.all_lanes(point, Value(self.p.element, "0.0"))
        point.accumulated = (
            f.load(kind, address) if point.mask is None else f.masked_load(kind, address, point.mask, nothing)
        )
        body.emit(self.p.n + 1, point)
        for store, access in zip(self.p.kernel.stores, self.p.epilogue.stores, strict=True):
            body.store(point, access, body.stored(store.value, point), store.combine)
