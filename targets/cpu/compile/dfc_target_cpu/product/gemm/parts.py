"""How a product is shared out: each part makes a rectangle of C, and packs or reads what of A and B belongs to it.

    two or three parts   rows or columns: what is not shared out is packed by each, and should be the smaller factor
    more parts           a grid of them, whose rectangles need least of A and B beside their multiply-adds

Assumes 0 <= part < parts. Guarantees rectangles that cover C once, whatever their number; products of few rows keep all
their rows together.
"""

from dfc_target_cpu.llvm.text import FunctionText, Value
from dfc_target_cpu.llvm.values import FALSE, TRUE, i64
from dfc_target_cpu.product.gemm.shape import GemmShape

Rectangle = tuple[Value, Value, Value, Value]
"""First row and the one behind the last, first column and the one behind the last."""

_LARGE = 1 << 18
"""Elements of B that are too many for each of two parts to pack by itself."""
_ROW_UNIT = 2
_GRID_PARTS = 4
"""From so many parts on they form a grid."""
_SIDES = (1, 2, 4, 8)
"""Rows or columns that a grid may have; the other number follows from the parts."""
_FETCHED_A, _FETCHED_B = 6, 12
"""Multiply-adds in whose time one element of a factor is packed, or brought from a far cache."""


class ProductPart:
    """The rectangle of this part, in a function with the parameters of `gemm`."""

    def __init__(self, f: FunctionText, shape: GemmShape) -> None:
        self.f, self.shape = f, shape
        self.m, self.n, self.k, self.part, self.parts = (f.argument(name) for name in ("m", "n", "k", "part", "parts"))

    def rectangle(self) -> Rectangle:
        f = self.f
        is_grid = f.icmp("sge", self.parts, i64(_GRID_PARTS))
        down = f.choose(is_grid, self._rows_of_grid, self._rows_or_columns, "grid")
        across = f.udiv(self.parts, down)
        row = f.udiv(self.part, across)
        column = f.sub(self.part, f.mul(row, across))
        return (*self._share(self.m, _ROW_UNIT, row, down), *self._share(self.n, self.shape.lanes, column, across))

    def _rows_or_columns(self) -> Value:
        """Rows are shared out when there are enough of them for full tiles, else columns."""
        f, shape = self.f, self.shape
        wide = f.icmp("slt", self.n, f.mul(self.parts, i64(2 * shape.vectors * shape.lanes)))
        large = f.icmp("sgt", f.mul(self.k, self.n), i64(_LARGE))
        taller = f.icmp("sge", self.m, f.mul(self.n, i64(2)))
        suits = f.bit_or(f.bit_or(wide, taller), f.bit_xor(large, TRUE))
        return f.select(f.select(self._is_tall(self.parts), suits, FALSE), self.parts, i64(1))

    def _is_tall(self, down: Value) -> Value:
        """Whether so many parts below each other have full tiles."""
        return self.f.icmp("sge", self.m, self.f.mul(down, i64(2 * self.shape.rows)))

    def _rows_of_grid(self) -> Value:
        """How many parts lie below each other: of the numbers that divide the parts, the one that costs least."""
        f = self.f
        best, least = i64(1), self._cost(i64(1))
        for side in _SIDES:
            divides = f.icmp("eq", f.bit_and(self.parts, i64(side - 1)), i64(0))
            for down in (i64(side), f.maximum(f.udiv(self.parts, i64(side)), i64(1))):
                cost = self._cost(down)
                is_better = f.bit_and(f.icmp("slt", cost, least), f.bit_and(divides, self._is_tall(down)))
                best, least = f.select(is_better, down, best), f.select(is_better, cost, least)
        return best

    def _cost(self, down: Value) -> Value:
        """What the largest rectangle takes for one step of k, in multiply-adds."""
        f = self.f
        across = f.maximum(f.udiv(self.parts, down), i64(1))
        rows = self._most(self.m, _ROW_UNIT, down)
        columns = self._most(self.n, self.shape.lanes, across)
        fetched = f.add(f.mul(rows, i64(_FETCHED_A)), f.mul(columns, i64(_FETCHED_B)))
        return f.add(f.mul(rows, columns), fetched)

    def _most(self, extent: Value, unit: int, count: Value) -> Value:
        f = self.f
        units = f.udiv(f.add(extent, i64(unit - 1)), i64(unit))
        return f.mul(f.udiv(f.sub(f.add(units, count), i64(1)), count), i64(unit))

    def _share(self, extent: Value, unit: int, number: Value, count: Value) -> tuple[Value, Value]:
        """One of `count` shares of an extent, in whole units."""
        f = self.f
        units = f.udiv(f.add(extent, i64(unit - 1)), i64(unit))
        borders = [f.udiv(f.mul(units, x), count) for x in (number, f.add(number, i64(1)))]
        first, last = (f.minimum(f.mul(border, i64(unit)), extent) for border in borders)
        return first, last
