"""The matrix product C (+)= A B for any strides, cut into parts, blocks, panels and tiles.

Assumes contiguous rows of C, which overlaps neither A nor B, and a workspace of `GemmShape.workspace_bytes` for each
part. Guarantees: each element of C is one chain of multiply-adds over ascending k, starting from zero (or from C), so
the bits do not depend on the parts (products of few rows by contiguous columns are inner products along k instead);
M, N, K of any size, also 0; the epilogue is called on disjoint rectangles that cover the part, each right after its
last multiply-add, on the thread that made it.
"""

from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import FALSE, NULL, TRUE, i64, zero
from dfc_target_cpu.product.gemm.block import gemm_block
from dfc_target_cpu.product.gemm.dot import dot_heights, dot_rows, swapped_epilogue
from dfc_target_cpu.product.gemm.pack import copy_transposed, pack_any, pack_columns, pack_rows
from dfc_target_cpu.product.gemm.pack_left import pack_left_columns, pack_left_rows
from dfc_target_cpu.product.gemm.parts import ProductPart
from dfc_target_cpu.product.gemm.shape import GemmShape
from dfc_target_cpu.product.gemm.stream import stream_row

GEMM_PARAMETERS = (
    Parameter("ptr", "frame"),
    Parameter("ptr", "epilogue"),
    Parameter("ptr", "a"),
    Parameter("i64", "a_rs"),
    Parameter("i64", "a_cs"),
    Parameter("ptr", "b"),
    Parameter("i64", "b_rs"),
    Parameter("i64", "b_cs"),
    Parameter("ptr", "c"),
    Parameter("i64", "c_rs"),
    Parameter("i64", "m"),
    Parameter("i64", "n"),
    Parameter("i64", "k"),
    Parameter("i1", "accumulate"),
    Parameter("i64", "part"),
    Parameter("i64", "parts"),
    Parameter("ptr", "workspace"),
    Parameter("i64", "whole_m"),
)
"""Strides in elements. `epilogue`: null or `void (ptr frame, i64 row0, i64 row1, i64 column0, i64 column1)`. `whole_m`:
rows of the product of which this call may make but a tile; it decides on the form of the sums, so that tiles of any
height agree in their bits."""

_STREAM_DEPTH = 32
_FAR_BYTES = 512 << 10
_NEAR_ROWS = 128
"""Rows of a panel of C that stay in the nearest cache."""
_NEAR_LEFT = 1 << 16
"""Elements of packed rows of A that stay in the second cache while panels of B go by."""
_NEAR_BLOCK = 1 << 16
"""Elements of a block of B that stays in the second cache."""
_STRETCH, _TALL, _DEEP = 512, 4, 256
"""Rows of a tall A that are columns of a product at a time; how many times those of B they are at least, and the depth
from which on copying the result is little beside the product."""
_MANY = 1 << 32
"""Said of rows that are none of few, whose sums might be made otherwise."""
_WIDE = 48
"""Columns from which on packing of A is little beside the product."""


def gemm(module: ModuleText, shape: GemmShape) -> str:
    """The product for one element type: `void (GEMM_PARAMETERS)`, entered by every thread with its `part`."""
    name = f"gemm_{shape.element}"
    return module.define(name, lambda: _entry(module, name, shape))


def _entry(module: ModuleText, name: str, shape: GemmShape) -> FunctionText:
    """A single column is made as a single row: the transposed product has vectors to work on."""
    core_name = f"gemm_core_{shape.element}"
    core = module.define(core_name, lambda: _Driver(module, core_name, shape).build())
    f = module.function(name, "void", GEMM_PARAMETERS, linkage="hidden")
    arg = f.argument
    column = f.bit_and(f.icmp("eq", arg("n"), i64(1)), f.icmp("eq", arg("c_rs"), i64(1)))
    swap, plain = f.label("swap"), f.label("plain")
    pair = f.alloca("ptr", 2)
    f.branch_if(column, swap, plain)
    f.begin(plain)
    f.call(core, "void", f.arguments)
    f.ret()
    f.begin(swap)
    f.store(arg("frame"), pair)
    f.store(arg("epilogue"), f.gep("ptr", pair, i64(1)))
    epilogue = Value("ptr", f"@{swapped_epilogue(module)}")
    left = [arg("b"), arg("b_cs"), arg("b_rs"), arg("a"), arg("a_cs"), arg("a_rs")]
    rest = [arg("n"), arg("m"), *f.arguments[12:17], i64(1)]
    f.call(core, "void", [pair, epilogue, *left, arg("c"), i64(1), *rest])
    f.ret()
    return f


class _Driver:
    """The outermost function: the part's rectangle, its blocks, packing."""

    def __init__(self, module: ModuleText, name: str, shape: GemmShape) -> None:
        self.module, self.name, self.shape = module, name, shape
        self.f = module.function(name, "void", GEMM_PARAMETERS, attributes="nounwind noinline")

    def build(self) -> FunctionText:
        f, arg = self.f, self.f.argument
        contiguous = f.bit_or(f.icmp("eq", arg("b_cs"), i64(1)), f.icmp("eq", arg("n"), i64(1)))
        row0, row1, column0, column1 = ProductPart(f, self.shape).rectangle()
        rows, columns = f.sub(row1, row0), f.sub(column1, column0)
        something, done = f.label("something"), f.label("done")
        f.branch_if(f.icmp("sgt", f.mul(rows, columns), i64(0)), something, done)
        f.begin(something)
        sums, empty = f.label("sums"), f.label("empty")
        f.branch_if(f.icmp("sgt", arg("k"), i64(0)), sums, empty)
        f.begin(empty)
        self._empty_sums(row0, row1, column0, column1)
        f.branch(done)
        f.begin(sums)
        if self.shape.few_rows:
            self._few_rows((row0, row1), (column0, column1), contiguous, done)
        if self.shape.is_measured:
            as_rows, as_they_are = f.label("as.rows"), f.label("as.they.are")
            f.branch_if(self._is_tall_and_turned(rows, columns), as_rows, as_they_are)
            f.begin(as_rows)
            self._transposed(row0, row1, column0, columns)
            f.branch(done)
            f.begin(as_they_are)
        left, right = self._packs(rows, columns, contiguous)
        at_once, in_blocks = f.label("at.once"), f.label("in.blocks")
        f.branch_if(self._is_packed_at_once(rows, columns, right), at_once, in_blocks)
        f.begin(at_once)
        self._panels(row0, row1, column0, column1)
        f.branch(done)
        f.begin(in_blocks)
        self._blocks((row0, row1), (column0, column1), left, right)
        f.branch(done)
        f.begin(done)
        f.ret()
        return f

    def _few_rows(self, row: tuple[Value, Value], column: tuple[Value, Value], contiguous: Value, done: str) -> None:
        """Products that are faster in a form of their own."""
        f, columns = self.f, self.f.sub(column[1], column[0])
        dots, tiles, streams, tiled = (f.label(x) for x in ("dots", "tiles", "streams", "tiled"))
        f.branch_if(self._along_k(contiguous), dots, tiles)
        f.begin(dots)
        self._dots(*row, *column)
        f.branch(done)
        f.begin(tiles)
        f.branch_if(self._is_streamed(f.sub(row[1], row[0]), columns), streams, tiled)
        f.begin(streams)
        self._stream(row[0], column[0], columns)
        f.branch(done)
        f.begin(tiled)

    def _along_k(self, contiguous: Value) -> Value:
        """Whether the product is one of few rows with columns of B: decided by the whole shape, not by the part."""
        f, arg = self.f, self.f.argument
        few = f.icmp("sle", arg("whole_m"), i64(self.shape.few_rows))
        lines = f.bit_and(f.icmp("eq", arg("a_cs"), i64(1)), f.icmp("eq", arg("b_rs"), i64(1)))
        return f.select(contiguous, FALSE, f.bit_and(few, lines))

    def _dots(self, row0: Value, row1: Value, column0: Value, column1: Value) -> None:
        """All rows (few rows are never shared out, see `ProductPart`), by the binary digits of their number."""
        f, arg, element = self.f, self.f.argument, self.shape.element
        b, columns = f.gep(element, arg("b"), f.mul(column0, arg("b_cs"))), f.sub(column1, column0)
        count = f.sub(row1, row0)
        for height in dot_heights(self.shape):
            with f.when(f.icmp("ne", f.bit_and(count, i64(height)), i64(0)), "rows"):
                row = f.add(row0, f.bit_and(count, i64(-2 * height)))
                a = f.gep(element, arg("a"), f.mul(row, arg("a_rs")))
                c = f.gep(element, arg("c"), f.add(f.mul(row, arg("c_rs")), column0))
                operands = [a, arg("a_rs"), b, arg("b_cs"), c, arg("c_rs"), arg("k"), columns, arg("accumulate")]
                f.call(dot_rows(self.module, self.shape, height), "void", operands)
        self._finish(TRUE, row0, f.sub(row1, row0), column0, columns)

    def _is_streamed(self, rows: Value, columns: Value) -> Value:
        """Whether B goes by once, row after row, for a single row."""
        f, arg = self.f, self.f.argument
        lies = f.bit_and(f.icmp("eq", rows, i64(1)), f.icmp("eq", arg("b_cs"), i64(1)))
        return f.bit_and(lies, f.icmp("sge", columns, i64(self.shape.lanes)))

    def _stream(self, row: Value, column0: Value, columns: Value) -> None:
        f, arg, element = self.f, self.f.argument, self.shape.element
        a, b = f.gep(element, arg("a"), f.mul(row, arg("a_rs"))), f.gep(element, arg("b"), column0)
        c = f.gep(element, arg("c"), f.add(f.mul(row, arg("c_rs")), column0))
        operands = [a, arg("a_cs"), b, arg("b_rs"), c, arg("k"), columns, arg("accumulate")]
        f.call(stream_row(self.module, self.shape), "void", operands)
        self._finish(TRUE, row, i64(1), column0, columns)

    def _is_tall_and_turned(self, rows: Value, columns: Value) -> Value:
        """Whether the rows of A, which are many more than the columns of B, lie together."""
        f, arg, shape = self.f, self.f.argument, self.shape
        turned = f.bit_and(f.icmp("eq", arg("a_rs"), i64(1)), f.icmp("eq", arg("b_cs"), i64(1)))
        few = f.bit_and(f.icmp("sge", columns, i64(2 * shape.rows)), f.icmp("sle", columns, i64(_NEAR_ROWS)))
        is_tall = f.icmp("sge", rows, f.mul(columns, i64(_TALL)))
        is_deep = f.icmp("sge", arg("k"), i64(_DEEP))
        fits = f.bit_and(f.bit_and(turned, few), f.bit_and(is_tall, is_deep))
        return f.select(arg("accumulate"), FALSE, fits)

    def _transposed(self, row0: Value, row1: Value, column0: Value, columns: Value) -> None:
        """Columns of the result as rows, a stretch of them at a time: A is packed by vectors, not by the few rows of a
        tile, and memory is read in long stretches. The sums lie behind what that product packs of A."""
        f, arg, shape, stride = self.f, self.f.argument, self.shape, _STRETCH + 2 * self.shape.lanes
        assert (shape.kc + _NEAR_ROWS) * stride * shape.element_bytes <= shape.right_bytes
        start = f.gep("i8", arg("workspace"), i64(shape.all_left_bytes))
        sums = f.gep(shape.element, start, i64(shape.kc * stride))
        b = f.gep(shape.element, arg("b"), column0)
        with f.counted_loop(row0, row1, _STRETCH, "stretch") as loop:
            length = f.minimum(i64(_STRETCH), f.sub(row1, loop.index))
            factors = [b, i64(1), arg("b_rs"), f.gep(shape.element, arg("a"), loop.index), arg("a_cs"), i64(1)]
            sizes = [columns, length, arg("k")]
            alone = [FALSE, i64(0), i64(1), arg("workspace"), i64(_MANY)]
            f.call(self.name, "void", [NULL, NULL, *factors, sums, i64(stride), *sizes, *alone])
            target = f.gep(shape.element, arg("c"), f.add(f.mul(loop.index, arg("c_rs")), column0))
            copied = [sums, i64(stride), target, arg("c_rs"), length, columns]
            f.call(copy_transposed(self.module, shape), "void", copied)
            self._finish(TRUE, loop.index, length, column0, columns)

    def _packs(self, rows: Value, columns: Value, contiguous: Value) -> tuple[Value, Value]:
        """Whether A and B are packed. B read in place suits small problems; far-apart rows cost too many pages and
        cache conflicts otherwise. So do columns of A, where a row reads another line at each step."""
        f, arg, shape = self.f, self.f.argument, self.shape
        many = f.icmp("sge", columns, i64(shape.packed_columns))
        right = f.bit_and(f.bit_or(many, self._far()), f.icmp("sge", rows, i64(4 * shape.rows)))
        right = f.bit_or(right, f.icmp("sge", rows, i64(shape.packed_rows)))
        right = f.select(contiguous, right, TRUE)
        wide = f.icmp("sge", columns, i64(_WIDE))
        tall = f.icmp("sgt", rows, i64(shape.few_rows))
        turned = f.bit_and(f.icmp("eq", arg("a_rs"), i64(1)), f.icmp("ne", arg("a_cs"), i64(1)))
        left = f.bit_or(turned, f.bit_and(f.bit_and(f.icmp("eq", arg("a_cs"), i64(1)), many), right))
        return f.bit_and(f.bit_and(wide, tall), left), right

    def _even_step(self, extent: Value, most: Value, unit: int) -> Value:
        """The step that cuts an extent into the fewest blocks of at most `most`, nearly equal, in whole units."""
        f = self.f
        blocks = f.udiv(f.add(extent, f.sub(most, i64(1))), most)
        units = f.udiv(f.add(extent, i64(unit - 1)), i64(unit))
        return f.mul(f.udiv(f.sub(f.add(units, blocks), i64(1)), blocks), i64(unit))

    def _empty_sums(self, row0: Value, row1: Value, column0: Value, column1: Value) -> None:
        """K = 0: zeros, or C as it is."""
        f, arg, element = self.f, self.f.argument, self.shape.element
        with f.when(f.bit_xor(arg("accumulate"), TRUE), "clear"), f.counted_loop(row0, row1) as row:
            start = f.gep(element, arg("c"), f.mul(row.index, arg("c_rs")))
            with f.counted_loop(column0, column1) as column:
                f.store(zero(element), f.gep(element, start, column.index))
        self._finish(TRUE, row0, f.sub(row1, row0), column0, f.sub(column1, column0))

    def _is_packed_at_once(self, rows: Value, columns: Value, right: Value) -> Value:
        """Whether all rows of A have room where a block of them is packed, and B is packed for few of them."""
        f, arg, shape = self.f, self.f.argument, self.shape
        fits = f.icmp("sle", f.mul(rows, arg("k")), i64(shape.left_elements))
        few = f.bit_and(f.icmp("sle", rows, i64(_NEAR_ROWS)), f.icmp("sge", rows, i64(2 * shape.rows)))
        lines = f.bit_or(f.icmp("eq", arg("a_cs"), i64(1)), f.icmp("eq", arg("a_rs"), i64(1)))
        along_k = f.icmp("eq", arg("a_cs"), i64(1))
        least = f.select(along_k, i64(shape.columns_of_copied_lines), i64(4 * shape.vectors * shape.lanes))
        wide = f.icmp("sge", columns, least)
        return f.bit_and(f.bit_and(f.bit_and(fits, few), f.bit_and(lines, wide)), right)

    def _panels(self, row0: Value, row1: Value, column0: Value, column1: Value) -> None:
        """Pieces of B that stay in a near cache until all rows are multiplied with them, as does the piece of C:
        packing costs little then, though few rows use what it copies. Rows of B that are far apart are read in long
        stretches, which a processor reads ahead. Where A is large, all pieces go by for one block of k, then for the
        next one: each of them reads A anew."""
        f, arg, shape = self.f, self.f.argument, self.shape
        rows, columns = f.sub(row1, row0), f.sub(column1, column0)
        is_far = f.bit_and(f.icmp("eq", arg("b_cs"), i64(1)), self._far())
        long_step = self._even_step(columns, i64(shape.long_columns), shape.lanes * shape.vectors)
        step_n = f.select(is_far, long_step, i64(shape.near_columns))
        step_k = self._even_step(arg("k"), f.select(is_far, i64(shape.long_depth), i64(shape.near_depth)), 4)
        pieces = f.maximum(f.udiv(i64(_NEAR_LEFT), f.mul(rows, step_k)), i64(1))
        block_k = f.mul(step_k, pieces)
        taken = f.add(f.mul(f.mul(rows, arg("k")), i64(shape.element_bytes)), i64(shape.left_spill))
        packed = f.gep("i8", arg("workspace"), f.bit_and(taken, i64(-64)))
        with f.counted_loop(i64(0), arg("k"), step_k, "pc") as pc:
            depth = f.minimum(step_k, f.sub(arg("k"), pc.index))
            a = f.gep(shape.element, arg("a"), f.add(f.mul(row0, arg("a_rs")), f.mul(pc.index, arg("a_cs"))))
            self._pack_left(f.gep(shape.element, arg("workspace"), f.mul(pc.index, rows)), a, depth, rows)
        with (
            f.counted_loop(i64(0), arg("k"), block_k, "kc") as kc,
            f.counted_loop(column0, column1, step_n, "jc") as jc,
            f.counted_loop(kc.index, f.minimum(f.add(kc.index, block_k), arg("k")), step_k, "pc") as pc,
        ):
            depth = f.minimum(step_k, f.sub(arg("k"), pc.index))
            width = f.minimum(step_n, f.sub(column1, jc.index))
            b = f.gep(shape.element, arg("b"), f.add(f.mul(pc.index, arg("b_rs")), f.mul(jc.index, arg("b_cs"))))
            self._pack(packed, b, depth, width, i64(shape.vectors))
            accumulate = f.bit_or(arg("accumulate"), f.icmp("sgt", pc.index, i64(0)))
            last = f.icmp("sge", f.add(pc.index, step_k), arg("k"))
            a = f.gep(shape.element, arg("workspace"), f.mul(pc.index, rows))
            c = f.gep(shape.element, arg("c"), f.add(f.mul(row0, arg("c_rs")), jc.index))
            operands = [a, i64(1), i64(0), packed, i64(0), c, arg("c_rs"), depth, rows, width]
            following = self._next((kc.index, block_k), (pc.index, step_k), (jc.index, step_n), column1)
            operands += [i64(shape.vectors), TRUE, TRUE, accumulate, *following]
            f.call(gemm_block(self.module, shape), "void", operands)
            self._finish(last, row0, rows, jc.index, width)

    def _blocks(self, row: tuple[Value, Value], column: tuple[Value, Value], left: Value, right: Value) -> None:
        """Blocks of k, of columns, of rows. A block of all rows is packed once for all columns."""
        f, arg, shape = self.f, self.f.argument, self.shape
        (row0, row1), (column0, column1) = row, column
        rows, columns = f.sub(row1, row0), f.sub(column1, column0)
        most = f.select(f.icmp("sle", rows, i64(shape.few_rows)), i64(shape.wide), i64(shape.vectors))
        is_one = f.icmp("sle", rows, i64(shape.mc))
        packed = f.gep("i8", arg("workspace"), i64(shape.left_bytes))
        step_m, step_k = self._even_step(rows, i64(shape.mc), 2), self._depth(rows, right)
        widest = f.select(f.icmp("sle", step_k, i64(shape.kc // 2)), i64(2 * shape.nc), i64(shape.nc))
        step_n = f.select(right, self._even_step(columns, widest, shape.lanes), columns)
        with f.counted_loop(i64(0), arg("k"), step_k, "pc") as pc, f.counted_loop(column0, column1, step_n, "jc") as jc:
            depth = f.minimum(step_k, f.sub(arg("k"), pc.index))
            width = f.minimum(step_n, f.sub(column1, jc.index))
            b = f.gep(shape.element, arg("b"), f.add(f.mul(pc.index, arg("b_rs")), f.mul(jc.index, arg("b_cs"))))
            with f.when(right, "pack"):
                self._pack(packed, b, depth, width, most)
            accumulate = f.bit_or(arg("accumulate"), f.icmp("sgt", pc.index, i64(0)))
            last = f.icmp("sge", f.add(pc.index, step_k), arg("k"))
            is_new = f.bit_or(f.bit_xor(is_one, TRUE), f.icmp("eq", jc.index, column0))
            with f.counted_loop(row0, row1, step_m, "ic") as ic:
                height = f.minimum(step_m, f.sub(row1, ic.index))
                a = f.gep(shape.element, arg("a"), f.add(f.mul(ic.index, arg("a_rs")), f.mul(pc.index, arg("a_cs"))))
                with f.when(f.bit_and(left, is_new), "pack.left"):
                    self._pack_left(arg("workspace"), a, depth, height)
                c = f.gep(shape.element, arg("c"), f.add(f.mul(ic.index, arg("c_rs")), jc.index))
                operands = [f.select(left, arg("workspace"), a), arg("a_rs"), arg("a_cs")]
                operands += [f.select(right, packed, b), arg("b_rs"), c, arg("c_rs"), depth]
                name = gemm_block(self.module, shape)
                near = f.icmp("sle", f.mul(columns, depth), i64(_NEAR_BLOCK))
                following = self._next_left((pc.index, step_k), (ic.index, step_m), (row0, row1), f.bit_and(left, near))
                f.call(name, "void", [*operands, height, width, most, left, right, accumulate, *following])
                self._finish(last, ic.index, height, jc.index, width)

    def _next(
        self, block: tuple[Value, Value], k: tuple[Value, Value], column: tuple[Value, Value], column1: Value
    ) -> list[Value]:
        """The piece of B behind this one as lines in memory: address, stride, lines, elements of each."""
        f, arg = self.f, self.f.argument
        below = f.add(*k)
        more = f.icmp("slt", below, f.minimum(f.add(*block), arg("k")))
        row_start, column_start = f.select(more, below, block[0]), f.select(more, column[0], f.add(*column))
        depth = f.minimum(k[1], f.sub(arg("k"), row_start))
        width = f.maximum(f.minimum(column[1], f.sub(column1, column_start)), i64(0))
        along = f.icmp("eq", arg("b_cs"), i64(1))
        offset = f.add(f.mul(row_start, arg("b_rs")), f.mul(column_start, arg("b_cs")))
        address, stride = f.gep(self.shape.element, arg("b"), offset), f.select(along, arg("b_rs"), arg("b_cs"))
        return [address, stride, f.select(along, depth, width), f.select(along, width, depth)]

    def _next_left(
        self, k: tuple[Value, Value], row: tuple[Value, Value], rows: tuple[Value, Value], applies: Value
    ) -> list[Value]:
        """The block of A behind this one, if its columns lie together: each is in another place in memory, and no
        processor reads such ahead."""
        f, arg = self.f, self.f.argument
        below = f.add(*row)
        more = f.icmp("slt", below, rows[1])
        start, depth0 = f.select(more, below, rows[0]), f.select(more, k[0], f.add(*k))
        lines = f.maximum(f.minimum(k[1], f.sub(arg("k"), depth0)), i64(0))
        is_apart = f.bit_and(applies, f.icmp("eq", arg("a_rs"), i64(1)))
        lines = f.select(is_apart, lines, i64(0))
        length = f.select(f.icmp("sgt", lines, i64(0)), f.minimum(row[1], f.sub(rows[1], start)), i64(0))
        offset = f.add(start, f.mul(depth0, arg("a_cs")))
        return [f.gep(self.shape.element, arg("a"), offset), arg("a_cs"), lines, length]

    def _depth(self, rows: Value, pack: Value) -> Value:
        """Few rows make one pass over B in place: shallow blocks, so that it is read in as few pages as possible."""
        f = self.f
        streaming = f.icmp("slt", rows, i64(4 * self.shape.rows))
        shallow = f.select(f.select(pack, FALSE, streaming), self._far(), FALSE)
        return f.select(shallow, i64(_STREAM_DEPTH), self._even_step(f.argument("k"), i64(self.shape.kc), 4))

    def _far(self) -> Value:
        """Whether the rows of B that belong to one block of k are spread over much memory."""
        f, arg = self.f, self.f.argument
        reach = f.mul(arg("b_rs"), f.minimum(arg("k"), i64(self.shape.kc)))
        return f.icmp("sgt", reach, i64(_FAR_BYTES // self.shape.element_bytes))

    def _pack(self, target: Value, b: Value, depth: Value, width: Value, most: Value) -> None:
        f, arg = self.f, self.f.argument
        operands = [target, b, arg("b_rs"), arg("b_cs"), depth, width, most]
        rows, not_rows, columns, neither, done = (f.label(x) for x in ("rows", "other", "columns", "any", "packed"))
        f.branch_if(f.icmp("eq", arg("b_cs"), i64(1)), rows, not_rows)
        f.begin(not_rows)
        f.branch_if(f.icmp("eq", arg("b_rs"), i64(1)), columns, neither)
        for label, build in ((rows, pack_rows), (columns, pack_columns), (neither, pack_any)):
            f.begin(label)
            f.call(build(self.module, self.shape), "void", operands)
            f.branch(done)
        f.begin(done)

    def _pack_left(self, target: Value, a: Value, depth: Value, rows: Value) -> None:
        f, arg = self.f, self.f.argument
        along_k, along_m, done = f.label("along.k"), f.label("along.m"), f.label("packed")
        f.branch_if(f.icmp("eq", arg("a_cs"), i64(1)), along_k, along_m)
        for label, build, stride in ((along_k, pack_left_rows, "a_rs"), (along_m, pack_left_columns, "a_cs")):
            f.begin(label)
            operands = [target, a, arg(stride), depth, rows]
            f.call(build(self.module, self.shape), "void", operands)
            f.branch(done)
        f.begin(done)

    def _finish(self, last: Value, row: Value, rows: Value, column: Value, width: Value) -> None:
        f, arg = self.f, self.f.argument
        has_epilogue = f.bit_and(last, f.icmp("ne", arg("epilogue"), NULL))
        with f.when(has_epilogue, "epilogue"):
            bounds = [row, f.add(row, rows), column, f.add(column, width)]
            f.call_pointer(arg("epilogue"), "void", [arg("frame"), *bounds])
