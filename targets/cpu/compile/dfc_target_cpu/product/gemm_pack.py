"""Copies of B in the order the micro-kernels read it.

Assumes a workspace as large as `GemmShape.workspace_bytes`. A panel of v vectors that starts at vector p of the block
lies at element `p * lanes * kc`, its rows `v * lanes` elements apart. Lanes beyond the columns hold anything: kernels
read them, but never store what follows from them.
"""

from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i64, lane_count, vector_type, zero
from dfc_target_cpu.product.gemm_shape import GemmShape

PACK_PARAMETERS = (
    Parameter("ptr", "panels", "noalias"),
    Parameter("ptr", "b", "noalias readonly"),
    Parameter("i64", "b_rs"),
    Parameter("i64", "b_cs"),
    Parameter("i64", "k"),
    Parameter("i64", "columns"),
    Parameter("i64", "most"),
)
"""`most`: vectors of the widest panel."""

SQUARE = 8
"""Side of the squares that are transposed in registers: larger ones take long to compile."""


class Panels:
    """How a row of vectors is cut into panels of nearly equal width: at most `most` vectors, wider ones first."""

    def __init__(self, f: FunctionText, shape: GemmShape, columns: Value, most: Value) -> None:
        self.f, self.shape = f, shape
        vectors = f.udiv(f.add(columns, i64(shape.lanes - 1)), i64(shape.lanes))
        self.count = f.udiv(f.sub(f.add(vectors, most), i64(1)), most)
        self.base = f.udiv(vectors, self.count)
        self.extra = f.urem(vectors, self.count)

    def panel(self, number: Value) -> tuple[Value, Value]:
        """First vector and number of vectors."""
        f = self.f
        start = f.add(f.mul(self.base, number), f.minimum(number, self.extra))
        wider = f.cast("zext", f.icmp("slt", number, self.extra), "i64")
        return start, f.add(self.base, wider)


def pack_rows(module: ModuleText, shape: GemmShape) -> str:
    """For B with contiguous rows: row after row of the block, cut over the panels."""
    return module.define(f"gemm_pack_rows_{shape.element}", lambda: _pack_rows(module, shape))


def pack_any(module: ModuleText, shape: GemmShape) -> str:
    """For B with any strides, element by element."""
    return module.define(f"gemm_pack_any_{shape.element}", lambda: _pack_any(module, shape))


def pack_columns(module: ModuleText, shape: GemmShape) -> str:
    """For B with contiguous columns: square by square, transposed in registers."""
    return module.define(f"gemm_pack_columns_{shape.element}", lambda: _pack_columns(module, shape))


def _pack_rows(module: ModuleText, shape: GemmShape) -> FunctionText:
    f = module.function(f"gemm_pack_rows_{shape.element}", "void", PACK_PARAMETERS, attributes="nounwind noinline")
    target, b, b_rs, _, k, columns, most = f.arguments
    panels = Panels(f, shape, columns, most)
    with f.counted_loop(i64(0), panels.count) as outer:
        start, width = panels.panel(outer.index)
        column = f.mul(start, i64(shape.lanes))
        panel = f.gep(shape.element, target, f.mul(column, k))
        source, stride = f.gep(shape.element, b, column), f.mul(width, i64(shape.lanes))
        with f.counted_loop(i64(0), width) as vector:
            offset = f.mul(vector.index, i64(shape.lanes))
            mask = f.tail_mask(f.sub(columns, f.add(column, offset)), shape.lanes)
            with f.counted_loop(i64(0), k) as row:
                read = f.gep(shape.element, source, f.add(offset, f.mul(row.index, b_rs)))
                loaded = f.masked_load(shape.vector, read, mask, zero(shape.vector))
                write = f.gep(shape.element, panel, f.add(offset, f.mul(row.index, stride)))
                f.store(loaded, write)
    f.ret()
    return f


def _pack_any(module: ModuleText, shape: GemmShape) -> FunctionText:
    f = module.function(f"gemm_pack_any_{shape.element}", "void", PACK_PARAMETERS, attributes="nounwind noinline")
    target, b, b_rs, b_cs, k, columns, most = f.arguments
    panels = Panels(f, shape, columns, most)
    with f.counted_loop(i64(0), panels.count) as outer:
        start, width = panels.panel(outer.index)
        column = f.mul(start, i64(shape.lanes))
        panel = f.gep(shape.element, target, f.mul(column, k))
        stride = f.mul(width, i64(shape.lanes))
        with f.counted_loop(i64(0), k) as row, f.counted_loop(i64(0), f.minimum(stride, f.sub(columns, column))) as x:
            at = f.add(f.mul(row.index, b_rs), f.mul(f.add(column, x.index), b_cs))
            value = f.load(shape.element, f.gep(shape.element, b, at))
            f.store(value, f.gep(shape.element, panel, f.add(x.index, f.mul(row.index, stride))))
    f.ret()
    return f


def _pack_columns(module: ModuleText, shape: GemmShape) -> FunctionText:
    """The rows of the last square beyond k spill into the next panel, which is written later, or behind the block."""
    name = f"gemm_pack_columns_{shape.element}"
    f = module.function(name, "void", PACK_PARAMETERS, attributes="nounwind noinline")
    target, b, _, b_cs, k, columns, most = f.arguments
    panels, lanes, side = Panels(f, shape, columns, most), shape.lanes, min(shape.lanes, SQUARE)
    with f.counted_loop(i64(0), panels.count) as outer:
        start, width = panels.panel(outer.index)
        column = f.mul(start, i64(lanes))
        panel = f.gep(shape.element, target, f.mul(column, k))
        stride = f.mul(width, i64(lanes))
        with f.counted_loop(i64(0), k, side) as rows, f.counted_loop(i64(0), stride, side) as offset:
            mask = f.tail_mask(f.sub(k, rows.index), side)
            first = f.add(column, offset.index)
            square = _load_square(f, shape, f.gep(shape.element, b, rows.index), b_cs, first, columns, mask)
            write = f.gep(shape.element, panel, f.add(offset.index, f.mul(rows.index, stride)))
            for value in transpose(f, square):
                f.store(value, write)
                write = f.gep(shape.element, write, stride)
    f.ret()
    return f


def _load_square(
    f: FunctionText, shape: GemmShape, b: Value, b_cs: Value, first: Value, columns: Value, mask: Value
) -> list[Value]:
    """One vector along k from each column of a square; columns beyond the last repeat it."""
    last, vector = f.sub(columns, i64(1)), vector_type(lane_count(mask.type), shape.element)
    square: list[Value] = []
    for lane in range(lane_count(mask.type)):
        column = f.minimum(f.add(first, i64(lane)), last)
        address = f.gep(shape.element, b, f.mul(column, b_cs))
        square.append(f.masked_load(vector, address, mask, zero(vector)))
    return square


def transpose(f: FunctionText, square: list[Value]) -> list[Value]:
    """Rows of a square of registers become its columns, by exchanging blocks of halving size."""
    lanes = len(square)
    rows, step = list(square), lanes // 2
    while step:
        upper = [i if not i & step else lanes + i - step for i in range(lanes)]
        lower = [i + step if not i & step else lanes + i for i in range(lanes)]
        for i in range(lanes):
            if not i & step:
                a, b = rows[i], rows[i + step]
                rows[i], rows[i + step] = f.shuffle(a, b, upper), f.shuffle(a, b, lower)
        step //= 2
    return rows
