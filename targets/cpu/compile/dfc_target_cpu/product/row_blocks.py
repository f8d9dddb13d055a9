"""Row blocks as code: threads take blocks of rows, or batch points, and run every step on one block after the other.

    run_<n> -> rows_<n>(context, frame, part, parts): for each block: step, step, ..
    step of a loop kernel:   kernel_<n>(context, frame of the step, outer0, outer1, first, last)
    step of a product:       product_<n>(context, frame of the step, .., batch..), see `row_products`

A panel lies in the scratch memory of a thread, or in the arena where a single row is too long for that. Steps index it
as if all rows were there: the address in their frame lies in front of it by what the rows before the block would take.
Where the kernel has a band (`dfc.kernels.bands`), a block takes the columns that its rows need, and is begun again with
all of them where a check fails.
Assumes a verified kernel. Guarantees the order of sums of its steps, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim, Symbol, product
from dfc.kernels.access import NONE
from dfc.kernels.bands.band import RowBand, row_band
from dfc.kernels.canonical import symbol_count
from dfc.kernels.contractions import as_product
from dfc.kernels.form import ContractKernel, LoopKernel, Operand, RowBlockKernel, RowStep
from dfc.kernels.row_blocks import PANEL_ALIGNMENT, PANEL_BYTES, row_bytes
from dfc_target_cpu.elementwise.kernels import range_function
from dfc_target_cpu.elementwise.loop_schedule import LoopPlan, plan_loops
from dfc_target_cpu.entries.context_code import asked_to_leave, load_field
from dfc_target_cpu.entries.dims import DimCode
from dfc_target_cpu.entries.frames import PART, FrameFunction, Lowering
from dfc_target_cpu.entries.threads import pool_run
from dfc_target_cpu.llvm.text import Value
from dfc_target_cpu.llvm.values import i64
from dfc_target_cpu.machine import Machine
from dfc_target_cpu.product.contraction import PART_PRODUCTS, in_large_pages, product_workspace_bytes
from dfc_target_cpu.product.epilogue import Epilogue
from dfc_target_cpu.product.row_band import MOST_ROWS, BandCode
from dfc_target_cpu.product.row_products import Columns, RowsOfProduct, is_turned
from dfc_target_cpu.product.turned_factor import TURNED_BYTES

BLOCKS_PER_THREAD = 4
"""Blocks that threads share out, if there are rows enough: so that one that is held up does not hold the others."""
FEWEST_ROWS = 32
"""Rows below which a block is not cut for that."""
HEIGHT_UNIT = 8
"""Rows of a tile of the products."""
NEAR_BYTES, NEAR_ROWS = 1 << 18, 96
"""Rows of a block, unless steps add up rows: those of so many bytes, which stay in the second cache beside the factors,
or so many, since each block reads the factors again."""
FAR_BYTES = 1 << 20
"""And no more than this: factors that are too large for the second cache run through it."""


def row_block_elements(kernel: RowBlockKernel) -> list[str]:
    """Element types of its products."""
    products = [as_product(step.kernel) for step in kernel.steps if isinstance(step.kernel, ContractKernel)]
    return sorted({one.element for one in products if one is not None})


def row_block_workspace_bytes(machine: Machine, kernel: RowBlockKernel) -> int:
    """Scratch memory of each part: turned factors, checks of rows, the panels, and behind them that of the products.
    What is used of all these lies in few large pages, as they all begin with it."""
    products = max((product_workspace_bytes(machine, element) for element in row_block_elements(kernel)), default=0)
    before = _turned_steps(kernel) * TURNED_BYTES + _panel_bytes(kernel) + _check_bytes(kernel)
    return in_large_pages(products + before)


def _panel_bytes(kernel: RowBlockKernel) -> int:
    return PANEL_BYTES + PANEL_ALIGNMENT * (len(kernel.panels) + 1)


def _check_bytes(kernel: RowBlockKernel) -> int:
    """A byte for each row and step that may have a check."""
    return _aligned(MOST_ROWS * len(kernel.steps))


def _turned_steps(kernel: RowBlockKernel) -> int:
    return sum(is_turned(step) for step in kernel.steps)


def lower_row_blocks(lowering: Lowering, kernel: RowBlockKernel, number: int) -> str:
    """The functions of one kernel; the name to launch it by."""
    band = row_band(kernel)
    columns = {} if band is None else {step: Columns(axis, band.columns) for step, axis in band.axes.items()}
    whole = kernel if band is None else band.kernel
    steps = [_step(lowering, step, number, columns.get(index)) for index, step in enumerate(whole.steps)]
    part = _Part(lowering, kernel, number, steps, band).build()
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


def _step(lowering: Lowering, step: RowStep, number: int, columns: Columns | None) -> _Step:
    kernel = step.kernel
    if isinstance(kernel, LoopKernel):
        plan = plan_loops(kernel, lowering.machine, in_order=True)
        return _Step(step, range_function(lowering, plan, number, any_span=True), plan)
    matched = as_product(kernel)
    assert matched is not None, "fusion takes products only"
    epilogue = "" if matched.is_plain else Epilogue(lowering, matched, number).build()
    return _Step(step, RowsOfProduct(lowering, matched, number, epilogue, step, columns).build(), None)


# --------------------------------------------------------------------- blocks --


class _Part(FrameFunction):
    """`void rows_<n>(context, frame, part, parts)`: a share of the blocks, or of the batch points where a step adds up
    all rows."""

    def __init__(
        self, lowering: Lowering, kernel: RowBlockKernel, number: int, steps: Sequence[_Step], band: RowBand | None
    ) -> None:
        super().__init__(lowering, kernel, f"rows_{number}", PART)
        self.whole, self.steps = kernel, steps
        self.band: BandCode | None = None
        if band is not None:
            self.dims = DimCode(self.f, self._size, measured=frozenset([band.stop]))
            self.band = BandCode(self.f, self.dims, band)
        self.sums_over_rows = any(one.step.sums_over_rows for one in steps)

    def _size(self, symbol: Symbol) -> Value:
        is_stop = self.band is not None and symbol == self.band.band.stop
        return self.f.load("i64", self.band.stop) if self.band is not None and is_stop else super()._size(symbol)

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
        self.workspace = self._behind_panels(height)
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
                block = f.sub(unit.index, f.mul(point, blocks))
                block = block if self.band is None else self.band.mirrored(block, blocks)
                self._block(point, block, blocks, height)
        return self.finish()

    def _find_workspace(self, part: Value) -> None:
        f, low = self.f, self.lowering
        each = row_block_workspace_bytes(low.machine, self.whole)
        scratch = f.gep("i8", load_field(f, self.context, "scratch"), i64(low.spill_bytes))
        self.turned = f.gep("i8", scratch, f.mul(part, i64(each)))
        self.checks = f.gep("i8", self.turned, i64(TURNED_BYTES * _turned_steps(self.whole)))
        panels = self.own_panels = f.gep("i8", self.checks, i64(_check_bytes(self.whole)))
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
        most = self._rows_within(PANEL_BYTES)
        if not self.sums_over_rows:
            near = f.maximum(self._rows_within(NEAR_BYTES), i64(NEAR_ROWS))
            most = f.minimum(most, f.minimum(self._rows_within(FAR_BYTES), near))
        most = f.select(f.icmp("sgt", most, i64(HEIGHT_UNIT)), f.bit_and(most, i64(-HEIGHT_UNIT)), most)
        if self.band is not None:
            most = self.band.height(most, count)
        elif not self.sums_over_rows:
            shared = f.udiv(f.mul(batch, count), f.mul(parts, i64(BLOCKS_PER_THREAD)))
            even = f.maximum(f.bit_and(shared, i64(-HEIGHT_UNIT)), i64(FEWEST_ROWS))
            most = f.select(f.icmp("sgt", parts, i64(1)), f.minimum(most, even), most)
        return f.maximum(f.minimum(most, count), i64(1))

    def _rows_within(self, size: int) -> Value:
        f = self.f
        return f.maximum(f.udiv(i64(size), f.maximum(self.row, i64(1))), i64(1))

    def _frame_of(self, one: _Step) -> Value:
        """The frame of a step: addresses of its operands, those of panels being filled in for each block, and sizes,
        the last of which is the number of columns in a band."""
        f, numbers = self.f, one.step.operands
        symbols = symbol_count(self.whole)
        frame = f.alloca("i64", count=len(numbers) + symbols + (self.band is not None), align=8)
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
        is_new = f.icmp("ne", f.load("i64", self.last_point), point)
        f.store(point, self.last_point)
        is_first = f.icmp("eq", block, i64(0))
        is_last = f.icmp("eq", f.add(block, i64(1)), blocks)
        arguments = [self.workspace, row0, rows, is_first, is_last], [is_new, *self._batch_indices(point)]
        again = f.label("again")
        if self.band is not None:
            self.band.begin(row0, rows, count)
            f.branch(again)
            f.begin(again)
        turned = self.turned
        for number, (one, frame) in enumerate(zip(self.steps, self.frames, strict=True)):
            self._fill(one, frame, panels)
            if one.plan is None:
                f.call(one.function, "void", [self.context, frame, *arguments[0], turned, *arguments[1]])
                turned = f.gep("i8", turned, i64(TURNED_BYTES)) if is_turned(one.step) else turned
                continue
            points = f.mul(rows, self._points_of_a_row(one.plan))
            with f.when(f.icmp("sgt", points, i64(0)), "some"):
                f.call(one.function, "void", [self.context, frame, *self._range(one.plan, line, rows)])
            if self.band is not None and number in self.band.band.checks:
                self._check(panels[self._panel(self.band.band.checks[number])], line, rows, again)

    def _check(self, checks: Value, line: Value, rows: Value, again: str) -> None:
        """Begins the block again with all columns, if a row does not pass its check."""
        f, band = self.f, self.band
        assert band is not None
        missed, held = f.label("missed"), f.label("held")
        f.branch_if(band.hold(f.gep("i8", checks, line), rows), held, missed)
        f.begin(missed)
        f.store(band.columns(), band.stop)
        f.branch(again)
        f.begin(held)

    def _fill(self, one: _Step, frame: Value, panels: Sequence[Value]) -> None:
        """What the frame of a step has that is different for each block."""
        f = self.f
        for own, number in enumerate(one.step.operands):
            if number >= len(self.whole.operands):
                f.store(panels[self._panel(number)], f.gep("i64", frame, i64(own)))
        if self.band is not None:
            slot = len(one.step.operands) + symbol_count(self.whole)
            f.store(f.load("i64", self.band.stop), f.gep("i64", frame, i64(slot)))

    def _panel(self, operand: int) -> int:
        return operand - len(self.whole.operands)

    def _panel_addresses(self, line: Value, height: Value) -> list[Value]:
        """Where row 0 of batch point 0 of each panel would lie; then of the checks, if there are any."""
        f, leading = self.f, len(self.whole.axes)
        addresses: list[Value] = []
        start = self.panels
        for panel in self.whole.panels:
            width = self.dims.value(_width(panel, leading))
            addresses.append(f.gep("i8", start, f.sub(i64(0), f.mul(line, width))))
            end = f.add(f.mul(height, width), i64(PANEL_ALIGNMENT - 1))
            start = f.gep("i8", start, f.bit_and(end, i64(-PANEL_ALIGNMENT)))
        checks = 0 if self.band is None else len(self.band.band.checks)
        for number in range(checks):
            addresses.append(f.gep("i8", self.checks, f.sub(i64(MOST_ROWS * number), line)))
        return addresses

    def _behind_panels(self, height: Value) -> Value:
        """Where the memory of the products begins."""
        f = self.f
        fits = f.icmp("sle", self.row, i64(PANEL_BYTES))
        size = f.add(
            f.mul(height, f.select(fits, self.row, i64(0))), i64(PANEL_ALIGNMENT * (len(self.whole.panels) + 1))
        )
        return f.gep("i8", self.own_panels, f.bit_and(size, i64(-PANEL_ALIGNMENT)))

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
