"""Sums over windows: a band of an image times a panel of the filter, chunk by chunk, row by row.

Assumes a plan of `dfc.kernels.direct.blocking.forward`, a state and the packed filter. Guarantees each sum as one chain
over ascending depth, and an epilogue that is called on rectangles that cover the item, each after its last
multiply-add: row by row where positions come one after the other, else once all phases are done.
"""

from dfc.kernels.direct.blocking import Forward
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import NULL, i64
from dfc_target_cpu.product.epilogue import RECORD
from dfc_target_cpu.windows.bands import band
from dfc_target_cpu.windows.tables import PLAN_PARAMETERS, PlanCode, dot

_ITEM = (*PLAN_PARAMETERS, Parameter("i64", "item"))
_WORDS = (
    "source", "packed", "band", "sums", "epilogue", "record", "narrow", "wide", "batch", "sums_row", "sums_group",
    "is_tile", "held", "source_image", "source_line", "source_cell", "step_y", "step_x", "rows", "bands", "copied",
    "origin", "line", "cell", "columns", "panel_count", "vectors", "wider", "source_group", "packed_group", "count_y",
    "count_x", "every_y", "every_x", "per_line", "line_step", "tap_step", "parts", "panels_first",
)  # fmt: skip


def forward_name(element: str) -> str:
    return f"window_forward_{element}"


def forward_item(module: ModuleText, element: str, lanes: int) -> str:
    """`void (plan, state, item)`: items are (group, image, band, panel), or (group, panel, image, band), row-major."""
    name = forward_name(element)
    return module.define(name, lambda: _Forward(module, name, element, lanes).build())


class _Forward:
    def __init__(self, module: ModuleText, name: str, element: str, lanes: int) -> None:
        self.module, self.element, self.lanes = module, element, lanes
        self.f = module.function(name, "void", _ITEM, linkage="hidden", attributes="nounwind noinline")
        self.words = PlanCode(self.f, Forward)
        self.words.load(*_WORDS)

    def build(self) -> FunctionText:
        f, w = self.f, self.words
        unit, panel = self._unit()
        self.first, self.width, self.lines = w.panel(panel)
        each = f.mul(w["batch"], w["bands"])
        image = f.udiv(f.sub(unit, f.mul(self.group, each)), w["bands"])
        self.row0 = f.mul(f.urem(unit, w["bands"]), w["rows"])
        self.start = self._band(unit, image)
        self.column = f.mul(self.first, i64(self.lanes))
        self.panel_width = f.mul(self.width, i64(self.lanes))
        self.panel_columns = f.minimum(self.panel_width, f.sub(w["columns"], self.column))
        self.last = f.sub(i64(self.lanes), f.sub(self.panel_width, self.panel_columns))
        self._results(image)
        self.by_rows = f.icmp("eq", w["parts"], i64(1))
        with f.counted_loop(i64(0), w["parts"], hint="phase") as phase:
            self._phase(w.part(phase.index))
        with f.when(f.icmp("sgt", w["parts"], i64(1)), "finish"):
            end = f.minimum(f.add(self.top, f.mul(w["rows"], w["every_y"])), w["count_y"])
            self._finish(self.top, f.sub(end, self.top))
        f.ret()
        return f

    def _unit(self) -> tuple[Value, Value]:
        """The band of an item, numbered over groups and images, and its panel."""
        f, w = self.f, self.words
        each = f.mul(w["batch"], w["bands"])
        whole = f.mul(each, w["panel_count"])
        self.group = f.udiv(f.argument("item"), whole)
        rest = f.sub(f.argument("item"), f.mul(self.group, whole))
        panels_first = f.icmp("ne", w["panels_first"], i64(0))
        inner = f.select(panels_first, each, w["panel_count"])
        outer_index = f.udiv(rest, inner)
        inner_index = f.sub(rest, f.mul(outer_index, inner))
        unit = f.select(panels_first, inner_index, outer_index)
        panel = f.select(panels_first, outer_index, inner_index)
        return f.add(f.mul(self.group, each), unit), panel

    def _band(self, unit: Value, image: Value) -> Value:
        """Where the windows of the first position begin; the band is copied unless it is there."""
        f, w, element = self.f, self.words, self.element
        at = dot(f, (self.group, w["source_group"]), (image, w["source_image"]))
        source = f.gep(element, w["source"], at)
        below = dot(f, (f.mul(self.row0, w["step_y"]), w["line"]))
        lies = f.gep(element, source, f.add(below, w["origin"]))
        is_copied = f.icmp("ne", w["copied"], i64(0))
        with f.when(f.bit_and(is_copied, f.icmp("ne", unit, w["held"])), "copy"):
            copy = band(self.module, element, Forward)
            f.call(copy, "void", [f.argument("plan"), f.argument("state"), source, self.row0, w["band"]])
            f.store(unit, w.address("held"))
        return f.select(is_copied, w["band"], lies)

    def _results(self, image: Value) -> None:
        """Where sums go: `base` is that of the first position of the image in the result, or of the band in a tile."""
        f, w = self.f, self.words
        self.top = f.mul(self.row0, w["every_y"])
        image_rows = f.mul(image, f.mul(w["count_y"], w["count_x"]))
        self.image_rows = image_rows
        is_tile = f.icmp("ne", w["is_tile"], i64(0))
        band_rows = f.mul(self.top, w["count_x"])
        offset = dot(f, (self.group, w["sums_group"]), (f.add(image_rows, band_rows), w["sums_row"]))
        offset = f.select(is_tile, i64(0), f.add(offset, self.column))
        self.base = f.gep(self.element, w["sums"], offset)
        self.is_tile = is_tile

    def _phase(self, part: dict[str, Value]) -> None:
        f, w = self.f, self.words
        rows = f.minimum(w["rows"], f.sub(part["count_y"], self.row0))
        at = dot(f, (self.group, w["packed_group"]), (self.column, part["depth"]))
        packed = f.gep(self.element, w["packed"], f.add(at, part["packed"]))
        first = f.add(f.mul(part["first_y"], w["count_x"]), part["first_x"])
        sums = f.gep(self.element, self.base, f.mul(first, w["sums_row"]))
        start = f.gep(self.element, self.start, part["shift"])
        with f.counted_loop(i64(0), f.maximum(part["lines"], i64(1)), part["lines_step"], "lines") as line:
            lines = f.minimum(part["lines_step"], f.sub(part["lines"], line.index))
            with f.counted_loop(i64(0), part["inner"], part["inner_step"], "inner") as inner:
                length = f.minimum(part["inner_step"], f.sub(part["inner"], inner.index))
                depth = f.add(f.mul(line.index, part["inner"]), inner.index)
                whole = f.udiv(line.index, w["per_line"])
                rest = f.sub(line.index, f.mul(whole, w["per_line"]))
                shift = f.add(dot(f, (whole, w["line_step"]), (rest, w["tap_step"])), inner.index)
                a = f.gep(self.element, start, shift)
                b = f.gep(self.element, packed, f.mul(depth, self.panel_width))
                ends = f.bit_and(
                    f.icmp("sge", f.add(line.index, lines), part["lines"]),
                    f.icmp("sge", f.add(inner.index, length), part["inner"]),
                )
                chunk = (a, b, sums, length, lines, f.icmp("sgt", depth, i64(0)))
                self._chunk(part, rows, chunk, f.bit_and(ends, self.by_rows))

    def _chunk(self, part: dict[str, Value], rows: Value, chunk: tuple[Value, ...], is_last: Value) -> None:
        """All rows of positions of the band; the last chunk finishes each."""
        f, w = self.f, self.words
        a, b, sums, length, lines, accumulate = chunk
        down = f.mul(w["step_y"], w["line"])
        below = f.mul(f.mul(w["every_y"], w["count_x"]), w["sums_row"])
        move, c_row = f.mul(w["step_x"], w["cell"]), f.mul(w["every_x"], w["sums_row"])
        with f.counted_loop(i64(0), rows, hint="row") as row:
            from_ = f.gep(self.element, a, f.mul(row.index, down))
            to = f.gep(self.element, sums, f.mul(row.index, below))
            operands = [from_, move, length, w["line_step"], lines, i64(0), i64(1), b, to, c_row, self.last]
            f.call_pointer(self.lines, "void", [*operands, accumulate, part["count_x"]])
            with f.when(is_last, "finish"):
                self._finish(f.add(self.top, row.index), i64(1))

    def _finish(self, row: Value, rows: Value) -> None:
        """The epilogue on whole rows of positions."""
        f, w = self.f, self.words
        with f.when(f.icmp("ne", w["epilogue"], NULL), "epilogue"):
            begin = f.add(self.image_rows, f.mul(self.top, w["count_x"]))
            first = f.add(self.image_rows, f.mul(row, w["count_x"]))
            origin_row = f.select(self.is_tile, begin, i64(0))
            origin_column = f.select(self.is_tile, self.column, i64(0))
            group_sums = f.gep(self.element, w["sums"], f.mul(self.group, w["sums_group"]))
            where = {
                "sums": f.select(self.is_tile, w["sums"], group_sums),
                "row": origin_row,
                "column": origin_column,
            }
            for name, value in where.items():
                f.store(value, f.gep("i64", w["record"], i64(RECORD.index(name))))
            f.store(self.group, f.gep("i64", w["record"], i64(len(RECORD))))
            row0, column0 = f.sub(first, origin_row), f.sub(self.column, origin_column)
            bounds = [row0, f.add(row0, f.mul(rows, w["count_x"])), column0, f.add(column0, self.panel_columns)]
            f.call_pointer(w["epilogue"], "void", [w["record"], *bounds])
