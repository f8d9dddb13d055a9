"""Copies of A in the order the micro-kernels read it.

Assumes a workspace as large as `GemmShape.workspace_bytes`. A tile of h rows that starts at row r of the block lies at
element `r * k`, its columns h elements apart. What is written beyond a tile is written again by the next one, or lies
behind the block.
"""

from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i64, vector_type, zero
from dfc_target_cpu.product.gemm.pack import SQUARE, transpose
from dfc_target_cpu.product.gemm.shape import GemmShape
from dfc_target_cpu.product.gemm.tiles import RowTiles

PACK_LEFT_PARAMETERS = (
    Parameter("ptr", "tiles", "noalias"),
    Parameter("ptr", "a", "noalias readonly"),
    Parameter("i64", "stride"),
    Parameter("i64", "k"),
    Parameter("i64", "rows"),
)
"""`stride`: elements between columns for `pack_left_columns`, between rows for `pack_left_rows`."""

_DEPTH = 8
"""Columns that are copied before the next tile: a line of the cache holds rows of several tiles."""


def pack_left_columns(module: ModuleText, shape: GemmShape) -> str:
    """For A whose columns lie together: some rows of each column go to each tile."""
    name = f"gemm_pack_left_columns_{shape.element}"
    return module.define(name, lambda: _pack_columns(module, shape, name))


def pack_left_rows(module: ModuleText, shape: GemmShape) -> str:
    """For A whose rows lie together: square by square, transposed in registers."""
    name = f"gemm_pack_left_rows_{shape.element}"
    return module.define(name, lambda: _pack_rows(module, shape, name))


def _pack_columns(module: ModuleText, shape: GemmShape, name: str) -> FunctionText:
    f = module.function(name, "void", PACK_LEFT_PARAMETERS, attributes="nounwind noinline")
    target, a, stride, k, rows = f.arguments
    tiles = RowTiles(f, shape, rows)
    with f.counted_loop(i64(0), k, _DEPTH) as block, f.counted_loop(i64(0), tiles.count) as number:
        depth = f.minimum(i64(_DEPTH), f.sub(k, block.index))
        row, height = tiles.tile(number.index)
        source = f.gep(shape.element, a, f.add(row, f.mul(block.index, stride)))
        write = f.gep(shape.element, target, f.add(f.mul(row, k), f.mul(block.index, height)))
        cases = [(rows, f.label("height")) for rows in shape.heights]
        impossible, done = f.label("impossible"), f.label("done")
        f.switch(height, impossible, cases)
        for count, label in cases:
            f.begin(label)
            with f.counted_loop(i64(0), depth) as column:
                column_of_a = f.gep(shape.element, source, f.mul(column.index, stride))
                loaded = f.load(vector_type(count, shape.element), column_of_a)
                f.store(loaded, f.gep(shape.element, write, f.mul(column.index, i64(count))))
            f.branch(done)
        f.begin(impossible)
        f.unreachable()
        f.begin(done)
    f.ret()
    return f


def _pack_rows(module: ModuleText, shape: GemmShape, name: str) -> FunctionText:
    """Squares of a tile that has more rows than one are stored column by column, as each of them spills into the next
    column."""
    f = module.function(name, "void", PACK_LEFT_PARAMETERS, attributes="nounwind noinline")
    target, a, stride, k, rows = f.arguments
    tiles, side = RowTiles(f, shape, rows), min(shape.lanes, SQUARE)
    vector, last = vector_type(side, shape.element), f.sub(rows, i64(1))
    with f.counted_loop(i64(0), tiles.count) as number:
        row, height = tiles.tile(number.index)
        tile = f.gep(shape.element, target, f.mul(row, k))
        lines = [
            f.gep(shape.element, a, f.mul(f.minimum(f.add(row, i64(i)), last), stride))
            for i in range(-(-shape.rows // side) * side)
        ]
        with f.counted_loop(i64(0), k, side) as column:
            mask = f.tail_mask(f.sub(k, column.index), side)
            loaded = [
                f.masked_load(vector, f.gep(shape.element, line, column.index), mask, zero(vector)) for line in lines
            ]
            squares = [transpose(f, loaded[i : i + side]) for i in range(0, len(lines), side)]
            _store_columns(f, shape, squares, f.gep(shape.element, tile, f.mul(column.index, height)), height)
    f.ret()
    return f


def _store_columns(f: FunctionText, shape: GemmShape, squares: list[list[Value]], write: Value, height: Value) -> None:
    side = len(squares[0])
    for column in range(side):
        for number, square in enumerate(squares):
            f.store(square[column], f.gep(shape.element, write, i64(number * side)))
        write = f.gep(shape.element, write, height)
