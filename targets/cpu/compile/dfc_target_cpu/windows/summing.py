"""Sums over positions: for a panel of columns, all bands of all images, chunk by chunk, into rows of the result.

Assumes a plan of `dfc.kernels.direct.blocking.summing` and a state. Guarantees each sum as one chain over ascending
positions (image, row, column), made by the part that has its rows: so the bits do not depend on the parts. The epilogue
is called once a panel is done.
"""

from dfc.kernels.direct.blocking import Summing
from dfc_target_cpu.entries.context_code import asked_to_leave
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import NULL, i64, vector_type, zero
from dfc_target_cpu.product.epilogue import RECORD
from dfc_target_cpu.windows.bands import band
from dfc_target_cpu.windows.tables import PLAN_PARAMETERS, PlanCode, dot

_PART = (*PLAN_PARAMETERS, Parameter("i64", "group"), *(Parameter("i64", n) for n in ("panel", "first", "last")))
_WORDS = (
    "context", "source", "other", "band", "chunk", "sums", "epilogue", "record", "narrow", "wide", "batch",
    "sums_row", "sums_group", "is_tile", "source_image", "source_line", "source_cell", "step_y", "step_x", "rows",
    "bands", "rows_in", "copied", "origin", "line", "cell", "images", "columns", "panel_count", "vectors", "wider",
    "source_group", "other_group", "other_row", "count_y", "count_x", "taps", "per_line", "line_step", "tap_step",
    "block_step", "blocks", "width_in", "channels", "inner", "pieces", "piece", "chunk_y", "chunk_x", "copies",
)  # fmt: skip


def summing_name(element: str) -> str:
    return f"window_summing_{element}"


def summing_panel(module: ModuleText, element: str, lanes: int) -> str:
    """`void (plan, state, group, panel, first, last)`: pieces `first` to `last` of the rows of a panel."""
    name = summing_name(element)
    return module.define(name, lambda: _Summing(module, name, element, lanes).build())


class _Summing:
    def __init__(self, module: ModuleText, name: str, element: str, lanes: int) -> None:
        self.module, self.element, self.lanes = module, element, lanes
        self.f = module.function(name, "void", _PART, linkage="hidden", attributes="nounwind noinline")
        self.words = PlanCode(self.f, Summing)
        self.words.load(*_WORDS)

    def build(self) -> FunctionText:
        f, w = self.f, self.words
        self.group = f.argument("group")
        first, width, self.lines = w.panel(f.argument("panel"))
        self.column, self.width = f.mul(first, i64(self.lanes)), f.mul(width, i64(self.lanes))
        self.panel_columns = f.minimum(self.width, f.sub(w["columns"], self.column))
        self.last = f.sub(i64(self.lanes), f.sub(self.width, self.panel_columns))
        self.is_tile = f.icmp("ne", w["is_tile"], i64(0))
        offset = f.add(f.mul(self.group, w["sums_group"]), self.column)
        self.sums = f.gep(self.element, w["sums"], f.select(self.is_tile, i64(0), offset))
        self.is_copied = f.icmp("ne", w["copied"], i64(0))
        left = f.label("left")
        groups = f.udiv(f.add(w["batch"], f.sub(w["images"], i64(1))), w["images"])
        units = f.mul(groups, w["bands"])
        with f.counted_loop(i64(0), f.maximum(units, i64(1)), hint="unit") as unit:
            asked_to_leave(self.module, f, w["context"], left)
            self._unit(unit.index)
        self._finish()
        f.branch(left)
        f.begin(left)
        f.ret()
        return f

    def _unit(self, unit: Value) -> None:
        """A band of an image, or some images; none of an empty batch, whose sums are 0."""
        f, w = self.f, self.words
        image = f.mul(f.udiv(unit, w["bands"]), w["images"])
        row = f.mul(f.urem(unit, w["bands"]), w["rows"])
        images = f.minimum(w["images"], f.sub(w["batch"], image))
        at = dot(f, (self.group, w["source_group"]), (image, w["source_image"]))
        source = f.gep(self.element, w["source"], at)
        below = f.mul(f.mul(row, w["step_y"]), w["line"])
        lies = f.gep(self.element, source, f.add(below, w["origin"]))
        copied_image = f.mul(f.mul(w["rows_in"], w["width_in"]), w["channels"])
        far_step = f.select(self.is_copied, copied_image, w["source_image"])
        with f.when(self.is_copied, "copy"), f.counted_loop(i64(0), images, hint="image") as each:
            copy = band(self.module, self.element, Summing)
            from_ = f.gep(self.element, source, f.mul(each.index, w["source_image"]))
            to = f.gep(self.element, w["band"], f.mul(each.index, far_step))
            f.call(copy, "void", [f.argument("plan"), f.argument("state"), from_, row, to])
        start = f.select(self.is_copied, w["band"], lies)
        rows = f.minimum(w["rows"], f.sub(w["count_y"], row))
        position = f.mul(f.add(f.mul(image, w["count_y"]), row), w["count_x"])
        with (
            f.counted_loop(i64(0), rows, w["chunk_y"], "chunk") as y,
            f.counted_loop(i64(0), w["count_x"], w["chunk_x"], "chunk") as x,
        ):
            sizes = (
                images,
                f.minimum(w["chunk_y"], f.sub(rows, y.index)),
                f.minimum(w["chunk_x"], f.sub(w["count_x"], x.index)),
            )
            shift = dot(f, (f.mul(y.index, w["step_y"]), w["line"]), (f.mul(x.index, w["step_x"]), w["cell"]))
            here = f.add(f.add(position, f.mul(y.index, w["count_x"])), x.index)
            chunk = self._other(here, sizes)
            begun = f.bit_or(f.bit_or(unit, y.index), x.index)
            more = f.icmp("ne", begun, i64(0))
            self._pieces(f.gep(self.element, start, shift), far_step, chunk, sizes, more)

    def _other(self, position: Value, sizes: tuple[Value, Value, Value]) -> Value:
        """The rows of the other factor of a chunk: copied, or where they lie."""
        f, w = self.f, self.words
        at = dot(f, (self.group, w["other_group"]), (position, w["other_row"]))
        source = f.gep(self.element, w["other"], f.add(at, self.column))
        copies = f.icmp("ne", w["copies"], i64(0))
        vector = vector_type(self.lanes, self.element)
        images, rows, columns = sizes
        with f.when(copies, "pack"), f.counted_loop(i64(0), self.width, self.lanes, "vector") as column:
            mask = f.tail_mask(f.sub(self.panel_columns, column.index), self.lanes)
            with (
                f.counted_loop(i64(0), images, hint="image") as image,
                f.counted_loop(i64(0), rows, hint="row") as row,
                f.counted_loop(i64(0), columns, hint="position") as x,
            ):
                line = f.add(f.mul(image.index, w["count_y"]), row.index)
                there = f.add(f.mul(line, w["count_x"]), x.index)
                from_ = f.gep(self.element, source, f.add(f.mul(there, w["other_row"]), column.index))
                value = f.masked_load(vector, from_, mask, zero(vector))
                packed_line = f.add(f.mul(image.index, rows), row.index)
                number = f.add(f.mul(packed_line, columns), x.index)
                to = f.gep(self.element, w["chunk"], f.add(f.mul(number, self.width), column.index))
                f.store(value, to)
        return f.select(copies, w["chunk"], source)

    def _pieces(
        self, start: Value, far_step: Value, chunk: Value, sizes: tuple[Value, Value, Value], accumulate: Value
    ) -> None:
        """All rows of the result that are this part's, for one chunk of positions."""
        f, w = self.f, self.words
        images, rows, columns = sizes
        move, down = f.mul(w["step_x"], w["cell"]), f.mul(w["step_y"], w["line"])
        with f.counted_loop(f.argument("first"), f.argument("last"), hint="piece") as piece:
            line, first, count = self._piece(piece.index)
            block, tap = self._block_and_tap(line)
            whole = f.udiv(tap, w["per_line"])
            rest = f.sub(tap, f.mul(whole, w["per_line"]))
            at = dot(f, (whole, w["line_step"]), (rest, w["tap_step"]), (block, w["block_step"]))
            a = f.gep(self.element, start, f.add(at, first))
            to = f.gep(self.element, self.sums, f.mul(self._row(line, first), w["sums_row"]))
            operands = [a, move, columns, down, rows, far_step, images, chunk, to, w["sums_row"], self.last]
            f.call_pointer(self.lines, "void", [*operands, accumulate, count])

    def _block_and_tap(self, line: Value) -> tuple[Value, Value]:
        f, w = self.f, self.words
        block = f.udiv(line, w["taps"])
        return block, f.sub(line, f.mul(block, w["taps"]))

    def _row(self, line: Value, first: Value) -> Value:
        """The row of the result that an element of a line is: elements of windows, then channels."""
        f, w = self.f, self.words
        block, tap = self._block_and_tap(line)
        return f.add(f.mul(f.add(f.mul(tap, w["blocks"]), block), w["inner"]), first)

    def _piece(self, number: Value) -> tuple[Value, Value, Value]:
        """Its line, its first row in that, and how many rows it has."""
        f, w = self.f, self.words
        line = f.udiv(number, w["pieces"])
        first = f.mul(f.sub(number, f.mul(line, w["pieces"])), w["piece"])
        count = f.maximum(f.minimum(w["piece"], f.sub(w["inner"], first)), i64(0))
        return line, first, count

    def _finish(self) -> None:
        f, w = self.f, self.words
        with f.when(f.icmp("ne", w["epilogue"], NULL), "epilogue"):
            origin = f.select(self.is_tile, self.column, i64(0))
            column0 = f.sub(self.column, origin)
            group_sums = f.gep(self.element, w["sums"], f.mul(self.group, w["sums_group"]))
            where = {
                "sums": f.select(self.is_tile, w["sums"], group_sums),
                "row": i64(0),
                "column": origin,
            }
            for name, value in where.items():
                f.store(value, f.gep("i64", w["record"], i64(RECORD.index(name))))
            f.store(self.group, f.gep("i64", w["record"], i64(len(RECORD))))
            with f.counted_loop(f.argument("first"), f.argument("last"), hint="piece") as piece:
                line, first, count = self._piece(piece.index)
                row = self._row(line, first)
                bounds = [row, f.add(row, count), column0, f.add(column0, self.panel_columns)]
                f.call_pointer(w["epilogue"], "void", [w["record"], *bounds])
