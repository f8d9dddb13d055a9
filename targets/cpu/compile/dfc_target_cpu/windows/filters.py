"""Filters packed for direct convolutions: for each panel of columns the rows of all elements of a window.

Before: a filter with any strides, turned round for a gradient by the image, say.
After: [group][phase][panel][element of a window, channel][column of the panel], columns beyond the last are anything.

Assumes room for `Forward.packed_elements`. Guarantees that parts write different elements, which cover all.
"""

from dfc.kernels.direct.blocking import PACKED_CHANNELS, Forward
from dfc.kernels.winograd.tiling import Winograd
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i64, vector_type, zero
from dfc_target_cpu.product.gemm.pack import SQUARE, transpose
from dfc_target_cpu.windows.tables import PLAN_PARAMETERS, PlanCode, dot

ROWS, TURNED, ANY = "rows", "turned", "any"
_PACK = (*PLAN_PARAMETERS, Parameter("i64", "part"), Parameter("i64", "parts"))
_WORDS = (
    "other", "packed", "channels", "columns", "panel_count", "vectors", "wider", "groups", "filter_group",
    "packed_group",
    "filter_channel", "filter_column", "parts", "narrow", "wide",
)  # fmt: skip


def way_of_packing(plan: Forward | Winograd) -> str:
    """How a filter lies: columns together, channels together, or neither."""
    if plan.filter_column == 1:
        return ROWS
    return TURNED if plan.filter_channel == 1 else ANY


def pack_name(element: str, way: str) -> str:
    return f"window_filter_{way}_{element}"


def pack_filter(module: ModuleText, element: str, lanes: int, way: str) -> str:
    """`void (plan, state, part, parts)`: this part's share of the packed filter."""
    name = pack_name(element, way)
    return module.define(name, lambda: _Pack(module, name, element, lanes, way).build())


class _Pack:
    def __init__(self, module: ModuleText, name: str, element: str, lanes: int, way: str) -> None:
        self.f = module.function(name, "void", _PACK, linkage="hidden", attributes="nounwind noinline")
        self.element, self.lanes = element, lanes
        self.words = PlanCode(self.f, Forward)
        self.words.load(*_WORDS)
        self.packing = PanelPacking(self.f, self.words, element, lanes, way)

    def build(self) -> FunctionText:
        f, w, arg = self.f, self.words, self.f.argument
        blocks = f.udiv(f.add(w["channels"], i64(PACKED_CHANNELS - 1)), i64(PACKED_CHANNELS))
        with f.counted_loop(i64(0), w["groups"], hint="group") as group:
            source = f.gep(self.element, w["other"], f.mul(group.index, w["filter_group"]))
            target = f.gep(self.element, w["packed"], f.mul(group.index, w["packed_group"]))
            with f.counted_loop(i64(0), w["parts"], hint="phase") as phase:
                part = w.part(phase.index)
                work = f.mul(part["taps"], blocks)
                first = f.udiv(f.mul(work, arg("part")), arg("parts"))
                last = f.udiv(f.mul(work, f.add(arg("part"), i64(1))), arg("parts"))
                with f.counted_loop(first, last, hint="block") as block:
                    tap = f.udiv(block.index, blocks)
                    channel = f.mul(f.sub(block.index, f.mul(tap, blocks)), i64(PACKED_CHANNELS))
                    self._block(part, tap, channel, source, f.gep(self.element, target, part["packed"]))
        f.ret()
        return f

    def _block(self, part: dict[str, Value], tap: Value, channel: Value, source: Value, target: Value) -> None:
        """Some channels of an element of the windows, for all columns."""
        f, w = self.f, self.words
        down = f.udiv(tap, part["taps_x"])
        across = f.sub(tap, f.mul(down, part["taps_x"]))
        at = dot(f, (down, part["filter_row"]), (across, part["filter_element"]), (channel, w["filter_channel"]))
        source = f.gep(self.element, source, f.add(part["filter_offset"], at))
        rows = f.minimum(i64(PACKED_CHANNELS), f.sub(w["channels"], channel))
        depth = f.add(f.mul(tap, w["channels"]), channel)
        with f.counted_loop(i64(0), w["panel_count"], hint="panel") as panel:
            first, vectors, _ = w.panel(panel.index)
            column, width = f.mul(first, i64(self.lanes)), f.mul(vectors, i64(self.lanes))
            to = f.gep(self.element, target, f.add(f.mul(column, part["depth"]), f.mul(depth, width)))
            start = f.gep(self.element, source, f.mul(column, w["filter_column"]))
            left = f.sub(w["columns"], column)
            self.packing.block(start, to, rows, width, left)


class PanelPacking:
    """Code that copies rows of some columns of a filter that lies in one of three ways. Assumes that `filter_channel`
    and `filter_column` are loaded."""

    def __init__(self, f: FunctionText, words: PlanCode, element: str, lanes: int, way: str) -> None:
        self.f, self.words, self.element, self.lanes, self.way = f, words, element, lanes, way

    def block(self, source: Value, target: Value, rows: Value, width: Value, left: Value) -> None:
        """`rows` channels of a panel of `width` columns, of which `left` are there."""
        {ROWS: self._rows, TURNED: self._turned, ANY: self._any}[self.way](source, target, rows, width, left)

    def _rows(self, source: Value, target: Value, rows: Value, width: Value, left: Value) -> None:
        f, vector = self.f, vector_type(self.lanes, self.element)
        with f.counted_loop(i64(0), width, self.lanes, "vector") as column:
            mask = f.tail_mask(f.sub(left, column.index), self.lanes)
            with f.counted_loop(i64(0), rows, hint="row") as row:
                at = f.add(f.mul(row.index, self.words["filter_channel"]), column.index)
                value = f.masked_load(vector, f.gep(self.element, source, at), mask, zero(vector))
                f.store(value, f.gep(self.element, target, f.add(f.mul(row.index, width), column.index)))

    def _turned(self, source: Value, target: Value, rows: Value, width: Value, left: Value) -> None:
        """Square by square, turned in registers; columns beyond the last repeat it."""
        f, side = self.f, min(self.lanes, SQUARE)
        vector, step = vector_type(side, self.element), self.words["filter_column"]
        last = f.sub(left, i64(1))
        with f.counted_loop(i64(0), rows, side, "square") as row, f.counted_loop(i64(0), width, side, "columns") as at:
            more = f.sub(rows, row.index)
            mask = f.tail_mask(more, side)
            square: list[Value] = []
            for lane in range(side):
                column = f.minimum(f.add(at.index, i64(lane)), last)
                address = f.gep(self.element, source, f.add(f.mul(column, step), row.index))
                square.append(f.masked_load(vector, address, mask, zero(vector)))
            to = f.gep(self.element, target, f.add(f.mul(row.index, width), at.index))
            for number, value in enumerate(transpose(f, square)):
                with f.when(f.icmp("sgt", more, i64(number))):
                    f.store(value, f.gep(self.element, to, f.mul(width, i64(number))))

    def _any(self, source: Value, target: Value, rows: Value, width: Value, left: Value) -> None:
        f, w, columns = self.f, self.words, self.f.minimum(width, left)
        with f.counted_loop(i64(0), rows, hint="row") as row, f.counted_loop(i64(0), columns, hint="column") as column:
            at = dot(f, (row.index, w["filter_channel"]), (column.index, w["filter_column"]))
            value = f.load(self.element, f.gep(self.element, source, at))
            f.store(value, f.gep(self.element, target, f.add(f.mul(row.index, width), column.index)))
