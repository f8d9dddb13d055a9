"""Convolutions as kernels of a program: the frame of a launch in, calls of the loops of the library out.

    run -> all parts: pack the filter -> all parts: items (band, panel) of sums over windows
    run -> all parts: transform the filter -> all parts: items (block of tiles, panels) by Winograd's algorithm
    run -> all parts: pieces of panels of sums over positions

Assumes kernels with a plan. Guarantees the same bits for any number of parts.
"""

from __future__ import annotations

from collections.abc import Callable

from dfc.ir.dims import Dim, product
from dfc.kernels.access import NONE
from dfc.kernels.contractions import Product
from dfc.kernels.direct.blocking import Forward, Summing
from dfc.kernels.direct.geometry import Windows, windows
from dfc.kernels.winograd.tiling import LEAST_TILES, Winograd
from dfc_target_cpu.entries.context_code import asked_to_leave, load_field
from dfc_target_cpu.entries.frames import PART, FrameFunction, Lowering
from dfc_target_cpu.entries.threads import pool_run
from dfc_target_cpu.llvm.text import Value
from dfc_target_cpu.llvm.values import NULL, i64, literal_int
from dfc_target_cpu.product.epilogue import RECORD
from dfc_target_cpu.windows.filters import way_of_packing
from dfc_target_cpu.windows.library import (
    declare,
    forward_name,
    line_address,
    pack_name,
    summing_name,
    transform_name,
    winograd_name,
)
from dfc_target_cpu.windows.plans import COUNTER_BYTES, part_layout, resources
from dfc_target_cpu.windows.tables import STATE, Plan, words, write_state

PART_PRODUCTS = 150_000
"""Multiply-adds that are worth a part of their own."""
MANY_BANDS = 4
"""For each part: then these are shared out one after the other."""


def lower_windows(lowering: Lowering, p: Product, plan: Plan, number: int, epilogue: str) -> str:
    """The functions of one kernel; the name to launch it by. `epilogue`: its function, if there is anything to do."""
    functions: list[str] = []
    if not isinstance(plan, Summing):
        pack = _Part(lowering, p, plan, f"filter_{number}", epilogue)
        functions.append(pack.build(pack.filter))
    sums = _Part(lowering, p, plan, f"windows_{number}", epilogue)
    functions.append(sums.build(sums.sums))
    return _run(lowering, p, number, functions)


def _run(lowering: Lowering, p: Product, number: int, functions: list[str]) -> str:
    """One function after the other, each by all parts."""
    function = FrameFunction(lowering, p.kernel, f"run_{number}", (), "hidden")
    f = function.f
    function.begin()
    work = function.dims.value(product(axis.extent for axis in p.kernel.axes))
    known = literal_int(work)
    threads = load_field(f, function.context, "threads")
    parts = f.maximum(f.minimum(f.assign("i64", f"udiv {work}, {PART_PRODUCTS}"), threads), i64(1))
    for one in functions:
        if known is not None and known < 2 * PART_PRODUCTS:
            f.call(one, "void", [function.context, function.frame, i64(0), i64(1)])
        else:
            run = pool_run(lowering.module, lowering.machine)
            f.call(run, "void", [function.context, Value("ptr", f"@{one}"), function.frame, parts])
    return function.finish()


class _Part(FrameFunction):
    """`void (context, frame, part, parts)`: a share of what is to be packed, or of the sums."""

    def __init__(self, lowering: Lowering, p: Product, plan: Plan, hint: str, epilogue: str) -> None:
        super().__init__(lowering, p.kernel, hint, PART)
        self.p, self.plan, self.epilogue = p, plan, epilogue
        self.part, self.parts = self.f.arguments[2:]

    def build(self, loops: Callable[[], None]) -> str:
        """The function around these loops."""
        f = self.f
        site = self.site()
        self.pointers, self.leave = site.pointers, site.failed
        self.table = self.lowering.module.table("i64", words(self.plan), hint="plan")
        self.state = f.alloca("i64", len(STATE), align=8)
        self.batch = self.dims.value(self._seen().batch)
        write_state(f, self.state, self._state())
        loops()
        return self.finish()

    def _seen(self) -> Windows:
        seen = windows(self.p.kernel)
        assert seen is not None
        return seen

    def value(self, formula: Dim) -> Value:
        return self.dims.value(formula)

    def _state(self) -> dict[str, Value]:
        p, f, plan, element = self.p, self.f, self.plan, self.p.element
        low = self.lowering
        is_tile = p.direct == NONE
        chunk, tile, width, each = part_layout(plan, element, self._lanes(), tile=is_tile)
        scratch = load_field(f, self.context, "scratch")
        own = f.gep("i8", scratch, f.add(i64(low.spill_bytes), f.mul(self.part, i64(each))))
        other = self._seen().other.offset
        second = self.pointers[p.b.access.operand]
        sums = (f.gep("i8", own, i64(tile)), i64(width), i64(0)) if is_tile else self._result()
        record = self._record(sums[1])
        narrow = line_address(low.module, plan, element, low.machine, plan.panels.vectors)
        wide = line_address(low.module, plan, element, low.machine, max(plan.panels.widths))
        return {
            "context": self.context,
            "source": self.pointers[p.a.access.operand],
            "other": f.gep(element, second, i64(other) if isinstance(other, int) else self.value(other)),
            "packed": f.gep("i8", scratch, i64(low.shared_start + COUNTER_BYTES)),
            "band": own,
            "chunk": f.gep("i8", own, i64(chunk)),
            "sums": sums[0],
            "epilogue": Value("ptr", f"@{self.epilogue}") if self.epilogue else NULL,
            "record": record,
            "narrow": narrow,
            "wide": wide,
            "batch": self.batch,
            "sums_row": sums[1],
            "sums_group": sums[2],
            "is_tile": i64(int(is_tile)),
            "held": i64(-1),
        }

    def _lanes(self) -> int:
        return resources(self.lowering.machine, self.p.element).lanes

    def _result(self) -> tuple[Value, Value, Value]:
        """The memory of the result: its first element, from one row to the next, from one group to the next."""
        p, f = self.p, self.f
        access = p.epilogue.stores[p.direct]
        start = f.gep(p.element, self.pointers[access.operand], self.value(access.offset))
        group = self.value(access.coefficients[0]) if p.kernel.m else i64(0)
        return start, self.value(access.coefficients[p.kernel.m]), group

    def _record(self, stride: Value) -> Value:
        f = self.f
        record = f.alloca("i64", len(RECORD) + 1, align=8)
        for name, word in (("context", self.context), ("frame", self.frame), ("stride", stride)):
            f.store(word, f.gep("i64", record, i64(RECORD.index(name))))
        return record

    # --- loops

    def filter(self) -> None:
        plan, element = self.plan, self.p.element
        assert not isinstance(plan, Summing)
        with self.f.when(self.f.icmp("eq", self.part, i64(0)), "first"):
            self.f.atomic_store(i64(0), self._counter())
        way = way_of_packing(plan)
        name = transform_name(element, way, plan.tile) if isinstance(plan, Winograd) else pack_name(element, way)
        declare(self.lowering.module, name, 2)
        self.f.call(name, "void", [self.table, self.state, self.part, self.parts])

    def sums(self) -> None:
        """The loops of the plan."""
        if isinstance(self.plan, Forward):
            self._bands(self.plan)
        elif isinstance(self.plan, Winograd):
            self._tiles(self.plan)
        else:
            self._pieces(self.plan)

    def _share(self, work: Value) -> tuple[Value, Value]:
        f = self.f
        first = f.udiv(f.mul(work, self.part), self.parts)
        return first, f.udiv(f.mul(work, f.add(self.part, i64(1))), self.parts)

    def _counter(self) -> Value:
        """Items that a part has taken; set to 0 while the filter is packed."""
        f = self.f
        return f.gep("i8", load_field(f, self.context, "scratch"), i64(self.lowering.shared_start))

    def _bands(self, plan: Forward) -> None:
        """Items as long as there are any. Where there are bands enough, a part takes a few at a time, those of one
        band: so one on a core that something else runs on takes fewer. Else it takes an even share at once: most of
        that part of the filter is what it has packed itself, and still in its cache."""
        f = self.f
        name = declare(self.lowering.module, forward_name(self.p.element), 1)
        bands, panels = f.mul(self.batch, i64(plan.groups * plan.band.bands)), i64(plan.panels.panel_count)
        total = f.mul(bands, panels)
        is_many = f.icmp("sge", bands, f.mul(self.parts, i64(MANY_BANDS)))
        share = f.udiv(f.add(total, f.sub(self.parts, i64(1))), self.parts)
        grain = f.select(is_many, i64(1) if plan.panels_first else panels, share)
        self._items(total, grain, lambda item: f.call(name, "void", [self.table, self.state, item]))

    def _tiles(self, plan: Winograd) -> None:
        """Blocks of tiles, as many for each part and as high as each other; parts share panels of a block where there
        are fewer blocks."""
        f, groups = self.f, i64(plan.groups)
        name = declare(self.lowering.module, winograd_name(self.p.element, plan.tile), 3)
        total = f.mul(self.batch, i64(plan.tiles_y * plan.tiles_x))
        least = self._quotient(total, i64(plan.block_tiles))
        low = self._quotient(total, i64(LEAST_TILES))
        even = f.mul(self._quotient(f.mul(least, groups), self.parts), self.parts)
        blocks = f.maximum(f.minimum(self._quotient(even, groups), f.maximum(low, least)), i64(1))
        tiles = f.maximum(self._quotient(total, blocks), i64(1))
        units = f.mul(self._quotient(total, tiles), groups)
        shares = f.maximum(
            f.minimum(f.udiv(self.parts, f.maximum(units, i64(1))), i64(plan.panels.panel_count)), i64(1)
        )
        arguments = [self.table, self.state]
        self._items(f.mul(units, shares), i64(1), lambda item: f.call(name, "void", [*arguments, item, tiles, shares]))

    def _quotient(self, value: Value, by: Value) -> Value:
        """Rounded up."""
        f = self.f
        return f.udiv(f.add(value, f.sub(by, i64(1))), by)

    def _items(self, total: Value, grain: Value, run: Callable[[Value], object]) -> None:
        """So many items for all parts, each of which takes `grain` of them at a time."""
        f = self.f
        again, some, done = f.label("again"), f.label("some"), f.label("done")
        counter = self._counter()
        f.branch(again)
        f.begin(again)
        first = f.atomic_update("add", counter, grain, "monotonic")
        f.branch_if(f.icmp("slt", first, total), some, done)
        f.begin(some)
        with f.counted_loop(first, f.minimum(f.add(first, grain), total), hint="item") as item:
            asked_to_leave(self.lowering.module, f, self.context, self.leave)
            run(item.index)
        f.branch(again)
        f.begin(done)

    def _pieces(self, plan: Summing) -> None:
        f = self.f
        name = declare(self.lowering.module, summing_name(self.p.element), 4)
        each = plan.lines * plan.pieces
        first, last = self._share(i64(plan.groups * plan.panels.panel_count * each))
        panels = f.udiv(first, i64(each)), f.udiv(f.add(last, i64(each - 1)), i64(each))
        with f.counted_loop(*panels, hint="panel") as loop:
            asked_to_leave(self.lowering.module, f, self.context, self.leave)
            begin = f.mul(loop.index, i64(each))
            group = f.udiv(loop.index, i64(plan.panels.panel_count))
            panel = f.sub(loop.index, f.mul(group, i64(plan.panels.panel_count)))
            low, high = f.maximum(f.sub(first, begin), i64(0)), f.minimum(f.sub(last, begin), i64(each))
            f.call(name, "void", [self.table, self.state, group, panel, low, high])
