"""Sums over windows of 3 x 3 elements by Winograd's algorithm: a block of tiles times some panels of the filter.

    tiles of the image -> transformed; for each panel: a matrix product for each product of a tile -> transformed back

Assumes a plan of `dfc.kernels.winograd.tiling`, a state and the transformed filter. Guarantees that sums depend neither
on the height of blocks nor on how panels are shared out, and an epilogue that is called on rectangles that cover the
item: rows of positions of neighbouring tiles, each once its sums are there.
"""

from dfc.kernels.winograd.tiling import Winograd
from dfc.kernels.winograd.transforms import transforms
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import FALSE, NULL, byte_size, i64
from dfc_target_cpu.product.epilogue import RECORD
from dfc_target_cpu.windows.tables import PLAN_PARAMETERS, PlanCode, dot
from dfc_target_cpu.windows.tile_transforms import tile_transform

_ITEM = (*PLAN_PARAMETERS, *(Parameter("i64", name) for name in ("item", "tiles", "shares")))
_WORDS = (
    "source", "packed", "band", "sums", "epilogue", "record", "narrow", "wide", "batch", "sums_row", "sums_group",
    "is_tile", "held", "panel_count", "vectors", "wider", "columns", "source_group", "packed_group", "channels",
    "height", "width", "source_image", "source_line", "source_cell", "low_y", "low_x", "count_y", "count_x", "tiles_y",
    "tiles_x", "cell", "far", "filter_pad", "product_far", "products_at", "patch_at", "between_at", "sums_at",
    "sums_line",
)  # fmt: skip


def winograd_name(element: str, tile: int) -> str:
    return f"winograd_{element}_{tile}"


def winograd_item(module: ModuleText, element: str, lanes: int, tile: int) -> str:
    """`void (plan, state, item, tiles, shares)`: items are (group, block of so many tiles, share of the panels)."""
    name = winograd_name(element, tile)
    return module.define(name, lambda: _Item(module, name, element, lanes, tile).build())


class _Item:
    def __init__(self, module: ModuleText, name: str, element: str, lanes: int, tile: int) -> None:
        self.element, self.lanes, self.tile = element, lanes, tile
        self.f = module.function(name, "void", _ITEM, linkage="hidden", attributes="nounwind noinline")
        self.words = PlanCode(self.f, Winograd)
        self.words.load(*_WORDS)
        matrices = transforms(tile)
        self.span = matrices.span
        self.forth = tile_transform(module, "image", element, lanes, matrices.image)
        self.back = tile_transform(module, "result", element, lanes, matrices.result)

    def build(self) -> FunctionText:
        f, w, arg = self.f, self.words, self.f.argument
        self.between = f.gep(self.element, w["band"], w["between_at"])
        self.is_tile = f.icmp("ne", w["is_tile"], i64(0))
        self.per_image = f.mul(w["tiles_y"], w["tiles_x"])
        total = f.mul(w["batch"], self.per_image)
        blocks = f.udiv(f.add(total, f.sub(arg("tiles"), i64(1))), arg("tiles"))
        unit = f.udiv(arg("item"), arg("shares"))
        share = f.sub(arg("item"), f.mul(unit, arg("shares")))
        self.group = f.udiv(unit, blocks)
        self.first = f.mul(f.sub(unit, f.mul(self.group, blocks)), arg("tiles"))
        self.count = f.minimum(arg("tiles"), f.sub(total, self.first))
        with f.when(f.icmp("ne", unit, w["held"]), "forth"):
            self._forth()
            f.store(unit, w.address("held"))
        begin = f.udiv(f.mul(share, w["panel_count"]), arg("shares"))
        end = f.udiv(f.mul(f.add(share, i64(1)), w["panel_count"]), arg("shares"))
        with f.counted_loop(begin, end, hint="panel") as panel:
            self._panel(panel.index)
        f.ret()
        return f

    def _location(self, number: Value) -> tuple[Value, Value, Value]:
        """Image, row and column of tile `number` of the block."""
        f, w = self.f, self.words
        tile = f.add(self.first, number)
        image = f.udiv(tile, self.per_image)
        rest = f.sub(tile, f.mul(image, self.per_image))
        row = f.udiv(rest, w["tiles_x"])
        return image, row, f.sub(rest, f.mul(row, w["tiles_x"]))

    # --- the image

    def _forth(self) -> None:
        """Tiles that lie in the image are read where they are, others with zeros around."""
        f, w, element, span = self.f, self.words, self.element, i64(self.span)
        vectors = f.udiv(f.add(w["channels"], i64(self.lanes - 1)), i64(self.lanes))
        last = f.sub(w["channels"], f.mul(f.sub(vectors, i64(1)), i64(self.lanes)))
        patch = f.gep(element, w["band"], w["patch_at"])
        group = f.gep(element, w["source"], f.mul(self.group, w["source_group"]))
        with f.counted_loop(i64(0), self.count, hint="tile") as loop:
            image, row, column = self._location(loop.index)
            y = f.sub(f.mul(row, i64(self.tile)), w["low_y"])
            x = f.sub(f.mul(column, i64(self.tile)), w["low_x"])
            start = f.gep(element, group, f.mul(image, w["source_image"]))
            at = dot(f, (y, w["source_line"]), (x, w["source_cell"]))
            low = f.icmp("slt", f.minimum(y, x), i64(0))
            high_y = f.icmp("sgt", f.add(y, span), w["height"])
            high_x = f.icmp("sgt", f.add(x, span), w["width"])
            is_outside = f.bit_or(low, f.bit_or(high_y, high_x))
            with f.when(is_outside, "patch"):
                self._patch(start, y, x, patch)
            lies = f.gep(element, start, f.select(is_outside, i64(0), at))
            source = f.select(is_outside, patch, lies)
            line = f.select(is_outside, f.mul(w["channels"], span), w["source_line"])
            cell = f.select(is_outside, w["channels"], w["source_cell"])
            target = f.gep(element, w["band"], f.mul(loop.index, w["cell"]))
            strides = [target, f.mul(w["far"], span), w["far"], self.between]
            f.call(self.forth, "void", [source, line, cell, *strides, span, span, span, vectors, last])

    def _patch(self, image: Value, y: Value, x: Value, patch: Value) -> None:
        """The elements of a tile, those outside of the image as zeros."""
        f, w, element = self.f, self.words, self.element
        size = f.mul(w["channels"], i64(byte_size(element)))
        with (
            f.counted_loop(i64(0), i64(self.span), hint="row") as row,
            f.counted_loop(i64(0), i64(self.span), hint="cell") as cell,
        ):
            number = f.add(f.mul(row.index, i64(self.span)), cell.index)
            to = f.gep(element, patch, f.mul(number, w["channels"]))
            down, across = f.add(y, row.index), f.add(x, cell.index)
            is_inside = f.bit_and(f.icmp("ult", down, w["height"]), f.icmp("ult", across, w["width"]))
            inside, outside, done = f.label("inside"), f.label("outside"), f.label("done")
            f.branch_if(is_inside, inside, outside)
            f.begin(inside)
            from_ = f.gep(element, image, dot(f, (down, w["source_line"]), (across, w["source_cell"])))
            f.copy_memory(to, from_, size, byte_size(element))
            f.branch(done)
            f.begin(outside)
            f.fill_zero(to, size, byte_size(element))
            f.branch(done)
            f.begin(done)

    # --- a panel

    def _panel(self, panel: Value) -> None:
        f, w, element = self.f, self.words, self.element
        first, vectors, lines = w.panel(panel)
        self.column, width = f.mul(first, i64(self.lanes)), f.mul(vectors, i64(self.lanes))
        products = f.gep(element, w["band"], w["products_at"])
        start = dot(f, (self.column, w["channels"]), (panel, w["filter_pad"]))
        at = f.add(f.mul(self.group, w["packed_group"]), f.mul(start, i64(self.span**2)))
        packed = f.gep(element, w["packed"], at)
        filter_far = f.add(f.mul(w["channels"], width), w["filter_pad"])
        with f.counted_loop(i64(0), i64(self.span**2), hint="product") as loop:
            a = f.gep(element, w["band"], f.mul(loop.index, w["far"]))
            b = f.gep(element, packed, f.mul(loop.index, filter_far))
            c = f.gep(element, products, f.mul(loop.index, w["product_far"]))
            depth = [w["channels"], i64(0), i64(1), i64(0), i64(1)]
            f.call_pointer(lines, "void", [a, w["cell"], *depth, b, c, width, i64(self.lanes), FALSE, self.count])
        columns = f.minimum(width, f.sub(w["columns"], self.column))
        last = f.sub(i64(self.lanes), f.sub(width, columns))
        self._back(products, width, columns, (vectors, last))

    def _back(self, products: Value, width: Value, columns: Value, shape: tuple[Value, Value]) -> None:
        """Tile by tile; the epilogue after the last of neighbours."""
        f, w, element = self.f, self.words, self.element
        with f.counted_loop(i64(0), self.count, hint="tile") as loop:
            image, row, column = self._location(loop.index)
            y, x = f.mul(row, i64(self.tile)), f.mul(column, i64(self.tile))
            rows = f.minimum(i64(self.tile), f.sub(w["count_y"], y))
            cells = f.minimum(i64(self.tile), f.sub(w["count_x"], x))
            begin = f.mul(f.maximum(f.sub(column, loop.index), i64(0)), i64(self.tile))
            line0 = f.mul(f.add(f.mul(image, w["count_y"]), y), w["count_x"])
            apart = f.gep(element, w["band"], f.add(w["sums_at"], f.mul(f.sub(x, begin), width)))
            at = dot(f, (self.group, w["sums_group"]), (f.add(line0, x), w["sums_row"]))
            together = f.gep(element, w["sums"], f.select(self.is_tile, i64(0), f.add(at, self.column)))
            target = f.select(self.is_tile, apart, together)
            target_row = f.select(self.is_tile, w["sums_line"], f.mul(w["count_x"], w["sums_row"]))
            target_column = f.select(self.is_tile, width, w["sums_row"])
            source = f.gep(element, products, f.mul(loop.index, width))
            strides = [f.mul(w["product_far"], i64(self.span)), w["product_far"], target, target_row, target_column]
            counts = [self.between, i64(self.span), rows, cells, *shape]
            f.call(self.back, "void", [source, *strides, *counts])
            ends = f.bit_or(
                f.icmp("eq", f.add(column, i64(1)), w["tiles_x"]), f.icmp("eq", f.add(loop.index, i64(1)), self.count)
            )
            with f.when(f.bit_and(ends, f.icmp("ne", w["epilogue"], NULL)), "finish"):
                self._finish(f.add(line0, begin), rows, f.sub(f.add(x, cells), begin), (width, columns))

    def _finish(self, position: Value, rows: Value, cells: Value, shape: tuple[Value, Value]) -> None:
        """The epilogue on rows of `cells` positions from this one on."""
        f, w = self.f, self.words
        width, columns = shape
        group_sums = f.gep(self.element, w["sums"], f.mul(self.group, w["sums_group"]))
        f.store(f.select(self.is_tile, self.column, i64(0)), f.gep("i64", w["record"], i64(RECORD.index("column"))))
        f.store(self.group, f.gep("i64", w["record"], i64(len(RECORD))))
        column0 = f.select(self.is_tile, i64(0), self.column)
        with f.counted_loop(i64(0), rows, hint="row") as row:
            first = f.add(position, f.mul(row.index, w["count_x"]))
            apart = f.gep(self.element, w["band"], f.add(w["sums_at"], f.mul(row.index, w["sums_line"])))
            where = {
                "sums": f.select(self.is_tile, apart, group_sums),
                "stride": f.select(self.is_tile, width, w["sums_row"]),
                "row": f.select(self.is_tile, first, i64(0)),
            }
            for name, value in where.items():
                f.store(value, f.gep("i64", w["record"], i64(RECORD.index(name))))
            row0 = f.select(self.is_tile, i64(0), first)
            bounds = [row0, f.add(row0, cells), column0, f.add(column0, columns)]
            f.call_pointer(w["epilogue"], "void", [w["record"], *bounds])
