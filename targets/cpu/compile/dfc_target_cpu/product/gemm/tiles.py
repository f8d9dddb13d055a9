"""How a block of the matrix product is cut: its columns into panels of vectors, its rows into tiles.

Guarantees that packing and multiplying cut alike: both ask here.
"""

from dfc_target_cpu.llvm.text import FunctionText, Value
from dfc_target_cpu.llvm.values import i64
from dfc_target_cpu.product.gemm.shape import GemmShape


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


class RowTiles:
    """How rows are cut into tiles: even heights as equal as they can be, higher ones first; an odd row comes last,
    alone."""

    def __init__(self, f: FunctionText, shape: GemmShape, rows: Value) -> None:
        self.f, self.rows = f, rows
        pairs, highest = f.lshr(rows, i64(1)), shape.rows // 2
        even_tiles = f.udiv(f.add(pairs, i64(highest - 1)), i64(highest))
        safe = f.maximum(even_tiles, i64(1))
        self.base, self.extra = f.udiv(pairs, safe), f.urem(pairs, safe)
        self.count = f.add(even_tiles, f.bit_and(rows, i64(1)))

    def tile(self, number: Value) -> tuple[Value, Value]:
        """First row and number of rows."""
        f = self.f
        row = f.shl(f.add(f.mul(self.base, number), f.minimum(number, self.extra)), i64(1))
        higher = f.cast("zext", f.icmp("slt", number, self.extra), "i64")
        even_height = f.shl(f.add(self.base, higher), i64(1))
        return row, f.minimum(f.maximum(even_height, i64(1)), f.sub(self.rows, row))
