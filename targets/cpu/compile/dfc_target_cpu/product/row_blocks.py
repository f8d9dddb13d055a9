"""Row blocks as code: threads take blocks of rows, or batch points, and run every step on one block after the other.

    run_<n> -> rows_<n>(context, frame, part, parts): for each block: step, step, ..
    step of a loop kernel:   kernel_<n>(context, frame of the step, outer0, outer1, first, last)
    step of a product:       product_<n>(context, frame of the step, workspace, row0, rows, is_first, is_last,
                                         turned, is_new, batch..)

A panel lies in the scratch memory of a thread, or in the arena where a single row is too long for that. Steps index it
as if all rows were there: the address in their frame lies in front of it by what the rows before the block would take.
Assumes a verified kernel. Guarantees the order of sums of its steps, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim, product
from dfc.kernels.access import NONE
from dfc.kernels.canonical import symbol_count
from dfc.kernels.contractions import Product, as_product
from dfc.kernels.form import ContractKernel, LoopKernel, Operand, RowBlockKernel, RowStep
from dfc.kernels.row_blocks import PANEL_ALIGNMENT, PANEL_BYTES, row_bytes
from dfc_target_cpu.elementwise.kernels import range_function
from dfc_target_cpu.elementwise.loop_schedule import LoopPlan, plan_loops
from dfc_target_cpu.entries.context_code import asked_to_leave, load_field
from dfc_target_cpu.entries.frames import PART, FrameFunction, Lowering
from dfc_target_cpu.entries.threads import pool_run
from dfc_target_cpu.llvm.text import Parameter, Value
from dfc_target_cpu.llvm.values import NULL, TRUE, i64
from dfc_target_cpu.machine import Machine
from dfc_target_cpu.product.contraction import PART_PRODUCTS, TILE_COLUMNS, ProductPart, Tile, product_workspace_bytes
from dfc_target_cpu.product.epilogue import Epilogue
from dfc_target_cpu.product.turned_factor import TURNED_BYTES, TurnedFactor

BLOCKS_PER_THREAD = 4
"""Blocks that threads share out, if there are rows enough: so that one that is held up does not hold the others."""
FEWEST_ROWS = 32
"""Rows below which a block is not cut for that."""
_WAYS = ("plain", "turned", "done")
HEIGHT_UNIT = 8
"""Rows of a tile of the products."""


def row_block_elements(kernel: RowBlockKernel) -> list[str]:
    """Element types of its products."""
    products = [as_product(step.kernel) for step in kernel.steps if isinstance(step.kernel, ContractKernel)]
    return sorted({one.element for one in products if one is not None})


def row_block_workspace_bytes(machine: Machine, kernel: RowBlockKernel) -> int:
    """Scratch memory of each part: that of the products, then turned factors, then the panels."""
    products = max((product_workspace_bytes(machine, element) for element in row_block_elements(kernel)), default=0)
    return _aligned(products) + _turned_steps(kernel) * TURNED_BYTES + _panel_bytes(kernel)


def _panel_bytes(kernel: RowBlockKernel) -> int:
    return PANEL_BYTES + PANEL_ALIGNMENT * (len(kernel.panels) + 1)


def _turned_steps(kernel: RowBlockKernel) -> int:
    return sum(_is_turned(step) for step in kernel.steps)


def _is_turned(step: RowStep) -> bool:
    """Whether a step is a product that can have its second factor turned."""
    if not isinstance(step.kernel, ContractKernel) or step.sums_over_rows:
        return False
    matched = as_product(step.kernel)
    return matched is not None and matched.direct != NONE and TurnedFactor.suits(matched)


def lower_row_blocks(lowering: Lowering, kernel: RowBlockKernel, number: int) -> str:
    """The functions of one kernel; the name to launch it by."""
    steps = [_step(lowering, step, number) for step in kernel.steps]
    part = _Part(lowering, kernel, number, steps).build()
    return _run(lowering, kernel, number, part)


def _run(lowering: Lowering, kernel: RowBlockKernel, number: int, part: str) -> str:
    function = FrameFunction(lowering, kernel, f"run_{number}", (), "hidden")
    f = function.f
    function.begin()
    work = Dim(())
    for step in kernel.steps:
        if isinstance(step.kernel, ContractKernel):
            work = work + product(axis.extent for axis in step.kernel.axes)
    useful_parts = f.udiv(function.dims.value(work), i64(PART_PRODUCTS))
    fits = f.icmp("sle", function.dims.value(row_bytes(kernel.panels, len(kernel.axes))), i64(PANEL_BYTES))
    threads = f.select(fits, load_field(f, function.context, "threads"), i64(1))
    parts = f.maximum(f.minimum(useful_parts, threads), i64(1))
    run = pool_run(lowering.module, lowering.machine)
    f.call(run, "void", [function.context, Value("ptr", f"@{part}"), function.frame, parts])
    return function.finish()


# ---------------------------------------------------------------------- steps --


@dataclass(frozen=True, slots=True)
class _Step:
    """A step and its function; `plan` of a loop kernel."""

    step: RowStep
    function: str
    plan: LoopPlan | None


def _step(lowering: Lowering, step: RowStep, number: int) -> _Step:
    kernel = step.kernel
    if isinstance(kernel, LoopKernel):
        plan = plan_loops(kernel, lowering.machine, in_order=True)
        return _Step(step, range_function(lowering, plan, number, any_span=True), plan)
    matched = as_product(kernel)
    assert matched is not None, "fusion takes products only"
    epilogue = "" if matched.is_plain else Epilogue(lowering, matched, number).build()
    return _Step(step, _RowsOfProduct(lowering, matched, number, epilogue, step).build(), None)


_ROWS = (
    Parameter("ptr", "workspace"),
    Parameter("i64", "row0"),
    Parameter("i64", "rows"),
    Parameter("i1", "is_first"),
    Parameter("i1", "is_last"),
    Parameter("ptr", "turned"),
    Parameter("i1", "is_new"),
)
"""`turned`: memory for the second factor, which is another one than at the last call if `is_new`."""


class _RowsOfProduct(ProductPart):
    """Some rows of a product at one batch point; or the rows of its depth, added to what was there before them."""

    def __init__(self, lowering: Lowering, p: Product, number: int, epilogue: str, step: RowStep) -> None:
        batch = tuple(Parameter("i64", f"batch{axis}") for axis in range(p.kernel.m))
        super().__init__(lowering, p, number, epilogue, (*_ROWS, *batch))
        self.step = step

    def build(self) -> str:
        self.enter()
        f, p = self.f, self.p
        self.workspace = f.argument("workspace")
        indices = list(f.arguments[2 + len(_ROWS) :])
        if self.step.sums_over_rows:
            self._add_rows(indices)
        elif p.in_place and p.direct != NONE:
            self._make_rows(indices)
        else:
            self._make_tiles(indices)
        return self.finish()

    def _make_rows(self, indices: Sequence[Value]) -> None:
        p, row0, rows = self.p, self.f.argument("row0"), self.f.argument("rows")
        m, n, k = p.kernel.m, p.kernel.n, p.kernel.k
        a = self._moved(self._matrix(p.a.access, indices, m, k), p.element, row0, 1)
        b = self._matrix(p.b.access, indices, k, n)
        c = self._moved(self._matrix(p.epilogue.stores[p.direct], indices, m, n), p.element, row0, 1)
        if self.epilogue:
            self._write_record(c[0], c[1], (row0, i64(0)), indices)
        if not _is_turned(self.step):
            self._call(a, b, c, (rows, self.extents[n], self.extents[k]), (i64(0), i64(1)))
            return
        f, columns, depth = self.f, self.extents[n], self.extents[k]
        factor = TurnedFactor(f, self.lowering.module, self.lowering.machine, p)
        pays, plain, turned, done = factor.pays(self.extents[m], rows, columns, depth), *map(f.label, _WAYS)
        f.branch_if(pays, turned, plain)
        f.begin(plain)
        self._call(a, b, c, (rows, columns, depth), (i64(0), i64(1)))
        f.branch(done)
        f.begin(turned)
        memory = f.argument("turned")
        with f.when(f.argument("is_new"), "new"):
            factor.turn(memory, b[0], b[2], columns, depth)
        with factor.blocks(memory, columns, depth) as (column, width, block):
            sums = self._moved(c, p.element, column, 2)
            if self.epilogue:
                self._write_record(sums[0], sums[1], (row0, column), indices)
            self._call(a, block, sums, (rows, width, depth), (i64(0), i64(1)))
        f.branch(done)
        f.begin(done)

    def _add_rows(self, indices: Sequence[Value]) -> None:
        f, p, row0, rows = self.f, self.p, self.f.argument("row0"), self.f.argument("rows")
        m, n, k = p.kernel.m, p.kernel.n, p.kernel.k
        a = self._moved(self._matrix(p.a.access, indices, m, k), p.element, row0, 2)
        b = self._moved(self._matrix(p.b.access, indices, k, n), p.element, row0, 1)
        c = self._matrix(p.epilogue.stores[p.direct], indices, m, n)
        if self.epilogue:
            self._write_record(c[0], c[1], (i64(0), i64(0)), indices)
        done = f.select(f.argument("is_last"), self._epilogue(), NULL)
        more = f.bit_xor(f.argument("is_first"), TRUE)
        sizes = self.extents[m], self.extents[n], rows
        self._call(a, b, c, sizes, (i64(0), i64(1)), accumulate=more, epilogue=done)

    def _make_tiles(self, indices: Sequence[Value]) -> None:
        f, row0, n = self.f, self.f.argument("row0"), self.extents[self.p.kernel.n]
        end = f.add(row0, f.argument("rows"))
        with (
            f.counted_loop(row0, end, self.rows, "rows") as down,
            f.counted_loop(i64(0), n, TILE_COLUMNS, "columns") as across,
        ):
            rows, columns = f.sub(end, down.index), f.sub(n, across.index)
            heights = f.minimum(rows, i64(self.rows)), f.minimum(columns, i64(TILE_COLUMNS))
            tile = Tile(down.index, across.index, *heights)
            sums = self._sums(tile, indices)
            self._write_record(sums[0], sums[1], (tile.row, tile.column), indices)
            self._tile(tile, sums, indices)


# --------------------------------------------------------------------- blocks --


class _Part(FrameFunction):
    """`void rows_<n>(context, frame, part, parts)`: a share of the blocks, or of the batch points where a step adds up
    all rows."""

    def __init__(self, lowering: Lowering, kernel: RowBlockKernel, number: int, steps: Sequence[_Step]) -> None:
        super().__init__(lowering, kernel, f"rows_{number}", PART)
        self.whole, self.steps = kernel, steps
        self.sums_over_rows = any(one.step.sums_over_rows for one in steps)

    def build(self) -> str:
        f, axes = self.f, self.whole.axes
        part, parts = f.arguments[2:]
        site = self.site()
        self.pointers, self.leave = site.pointers, site.failed
        self.extents = [self.dims.value(axis.extent) for axis in axes]
        self._find_workspace(part)
        self.frames = [self._frame_of(one) for one in self.steps]
        batch, count = self.dims.value(product(axis.extent for axis in axes[:-1])), self.extents[-1]
        height = self._height(batch, count, parts)
        blocks = f.udiv(f.add(count, f.sub(height, i64(1))), height)
        if self.sums_over_rows:
            blocks = f.maximum(blocks, i64(1))
        units = batch if self.sums_over_rows else f.mul(batch, blocks)
        first, last = (f.udiv(f.mul(units, one), parts) for one in (part, f.add(part, i64(1))))
        with f.counted_loop(first, last, hint="unit") as unit:
            if self.sums_over_rows:
                with f.counted_loop(i64(0), blocks, hint="block") as block:
                    self._block(unit.index, block.index, blocks, height)
            else:
                point = f.udiv(unit.index, blocks)
                self._block(point, f.sub(unit.index, f.mul(point, blocks)), blocks, height)
        return self.finish()

    def _find_workspace(self, part: Value) -> None:
        f, low = self.f, self.lowering
        each = row_block_workspace_bytes(low.machine, self.whole)
        start = f.gep("i8", load_field(f, self.context, "scratch"), i64(low.spill_bytes))
        self.workspace = f.gep("i8", start, f.mul(part, i64(each)))
        turned = each - _panel_bytes(self.whole)
        panels = f.gep("i8", self.workspace, i64(turned))
        self.turned = f.gep("i8", panels, i64(-TURNED_BYTES * _turned_steps(self.whole)))
        self.last_point = f.alloca("i64", align=8)
        f.store(i64(-1), self.last_point)
        self.row = self.dims.value(row_bytes(self.whole.panels, len(self.whole.axes)))
        overflow = self._overflow()
        if overflow is not None:
            panels = f.select(f.icmp("sgt", self.row, i64(PANEL_BYTES)), self.pointers[overflow], panels)
        self.panels = panels

    def _overflow(self) -> int | None:
        """The operand for rows that are too long: that which no step has."""
        used = {number for step in self.whole.steps for number in step.operands}
        return next((n for n in range(len(self.whole.operands)) if n not in used), None)

    def _height(self, batch: Value, count: Value, parts: Value) -> Value:
        """Rows of a block: as many as there is room for, in blocks of nearly equal height, and enough of these."""
        f = self.f
        most = f.maximum(f.udiv(i64(PANEL_BYTES), f.maximum(self.row, i64(1))), i64(1))
        most = f.select(f.icmp("sgt", most, i64(HEIGHT_UNIT)), f.bit_and(most, i64(-HEIGHT_UNIT)), most)
        if not self.sums_over_rows:
            shared = f.udiv(f.mul(batch, count), f.mul(parts, i64(BLOCKS_PER_THREAD)))
            even = f.maximum(f.bit_and(shared, i64(-HEIGHT_UNIT)), i64(FEWEST_ROWS))
            most = f.select(f.icmp("sgt", parts, i64(1)), f.minimum(most, even), most)
        return f.maximum(f.minimum(most, count), i64(1))

    def _frame_of(self, one: _Step) -> Value:
        """The frame of a step: addresses of its operands, those of panels being filled in for each block, and sizes."""
        f, numbers = self.f, one.step.operands
        symbols = symbol_count(self.whole)
        frame = f.alloca("i64", count=len(numbers) + symbols, align=8)
        for own, number in enumerate(numbers):
            if number < len(self.whole.operands):
                f.store(self.pointers[number], f.gep("i64", frame, i64(own)))
        for symbol in range(symbols):
            size = f.load("i64", self.slot(len(self.whole.operands) + symbol))
            f.store(size, f.gep("i64", frame, i64(len(numbers) + symbol)))
        return frame

    def _block(self, point: Value, block: Value, blocks: Value, height: Value) -> None:
        """All steps on one block of rows of a batch point."""
        f, count = self.f, self.extents[-1]
        asked_to_leave(self.lowering.module, f, self.context, self.leave)
        row0 = f.mul(block, height)
        rows = f.maximum(f.minimum(height, f.sub(count, row0)), i64(0))
        line = f.add(f.mul(point, count), row0)
        panels = self._panel_addresses(line, height)
        indices = self._batch_indices(point)
        is_new = f.icmp("ne", f.load("i64", self.last_point), point)
        f.store(point, self.last_point)
        turned = self.turned
        is_first = f.icmp("eq", block, i64(0))
        is_last = f.icmp("eq", f.add(block, i64(1)), blocks)
        for one, frame in zip(self.steps, self.frames, strict=True):
            for own, number in enumerate(one.step.operands):
                if number >= len(self.whole.operands):
                    f.store(panels[number - len(self.whole.operands)], f.gep("i64", frame, i64(own)))
            if one.plan is None:
                arguments = [self.workspace, row0, rows, is_first, is_last, turned, is_new, *indices]
                turned = f.gep("i8", turned, i64(TURNED_BYTES)) if _is_turned(one.step) else turned
                f.call(one.function, "void", [self.context, frame, *arguments])
                continue
            points = f.mul(rows, self._points_of_a_row(one.plan))
            with f.when(f.icmp("sgt", points, i64(0)), "some"):
                f.call(one.function, "void", [self.context, frame, *self._range(one.plan, line, rows)])

    def _panel_addresses(self, line: Value, height: Value) -> list[Value]:
        """Where row 0 of batch point 0 of each panel would lie."""
        f, leading = self.f, len(self.whole.axes)
        addresses: list[Value] = []
        start = self.panels
        for panel in self.whole.panels:
            width = self.dims.value(_width(panel, leading))
            addresses.append(f.gep("i8", start, f.sub(i64(0), f.mul(line, width))))
            end = f.add(f.mul(height, width), i64(PANEL_ALIGNMENT - 1))
            start = f.gep("i8", start, f.bit_and(end, i64(-PANEL_ALIGNMENT)))
        return addresses

    def _batch_indices(self, point: Value) -> list[Value]:
        """The index along each batch axis."""
        f, rest = self.f, point
        indices: list[Value] = []
        for extent in reversed(self.extents[:-1]):
            above = f.udiv(rest, extent)
            indices.append(f.sub(rest, f.mul(above, extent)))
            rest = above
        return indices[::-1]

    def _points_of_a_row(self, plan: LoopPlan) -> Value:
        kernel = plan.kernel
        return self.dims.value(product(axis.extent for axis in kernel.axes[len(self.whole.axes) : kernel.outer]))

    def _range(self, plan: LoopPlan, line: Value, rows: Value) -> list[Value]:
        """The outer points of some rows, counted from `line`, as a range of the loops of a plan."""
        f, kernel, leading, inside = self.f, plan.kernel, len(self.whole.axes), self._points_of_a_row(plan)
        first, last = f.mul(line, inside), f.mul(f.add(line, rows), inside)
        if plan.vector == NONE:
            return [first, last, i64(0), i64(1)]
        extent = plan.extents[plan.vector]
        width = self.dims.value(extent)
        tails = [product(axis.extent for axis in kernel.axes[n : kernel.outer]) for n in range(leading, kernel.outer)]
        if extent in tails:
            return [f.udiv(first, width), f.udiv(last, width), i64(0), width]
        outer = f.udiv(first, width)
        start = f.sub(first, f.mul(outer, width))
        return [outer, f.add(outer, i64(1)), start, f.add(start, f.sub(last, first))]


def _width(panel: Operand, leading: int) -> Dim:
    """Bytes of a row of a panel."""
    return product(panel.shape[leading:]) * panel.dtype.size


def _aligned(size: int) -> int:
    return -(-size // PANEL_ALIGNMENT) * PANEL_ALIGNMENT
