"""The band of row blocks at run time: how high blocks are, which columns one needs, whether its rows pass their checks.

Assumes a `RowBand`. Guarantees that the columns of a row are a function of sizes alone, never of how threads share out
rows: so are the signs of sums that are zero.
"""

from __future__ import annotations

from functools import reduce

from dfc.kernels.bands.band import RowBand
from dfc.kernels.bands.comparisons import MOST
from dfc_target_cpu.entries.dims import DimCode
from dfc_target_cpu.llvm.text import FunctionText, Value
from dfc_target_cpu.llvm.values import i64

MOST_ROWS = 128
"""Rows of a block: the more there are, the more columns are computed that most of them do not need."""
_FEWEST_ROWS = 32
_BLOCKS = 8
"""Blocks of all rows, if these are many enough."""
_COLUMN_UNIT = 32
"""The columns of a block are a multiple of so many: whole vectors."""
_ROW_UNIT = 8


class BandCode:
    """Code in the function that goes through blocks."""

    def __init__(self, f: FunctionText, dims: DimCode, band: RowBand) -> None:
        self.f, self.dims, self.band = f, dims, band
        self.stop = f.alloca("i64", align=8)

    def height(self, most: Value, count: Value) -> Value:
        """Rows of a block, of which `most` have room."""
        f = self.f
        even = f.bit_and(f.udiv(count, i64(_BLOCKS)), i64(-_ROW_UNIT))
        return f.minimum(f.minimum(f.maximum(even, i64(_FEWEST_ROWS)), i64(MOST_ROWS)), most)

    def mirrored(self, block: Value, blocks: Value) -> Value:
        """A block by its number in the order first, last, second, ..: so that pairs have equally many columns."""
        f = self.f
        half = f.lshr(block, i64(1))
        is_odd = f.icmp("ne", f.bit_and(block, i64(1)), i64(0))
        return f.select(is_odd, f.sub(f.sub(blocks, i64(1)), half), half)

    def columns(self) -> Value:
        return self.dims.value(self.band.columns)

    def begin(self, row0: Value, rows: Value, count: Value) -> None:
        """Decides on the columns of a block."""
        f, columns, first = self.f, self.columns(), self.dims.value(self.band.first)
        needed = f.maximum(f.add(f.sub(f.add(row0, rows), i64(1)), first), i64(1))
        stop = f.minimum(f.bit_and(f.add(needed, i64(_COLUMN_UNIT - 1)), i64(-_COLUMN_UNIT)), columns)
        sizes = [count, columns, first, *(self.dims.value(offset) for offset in self.band.offsets)]
        is_small = [f.icmp("ult", f.add(size, i64(MOST)), i64(2 * MOST)) for size in sizes]
        f.store(f.select(reduce(f.bit_and, is_small), stop, columns), self.stop)

    def hold(self, checks: Value, rows: Value) -> Value:
        """Whether all rows of a block pass a check, or none has to since the block has all columns."""
        f = self.f
        with f.counted_loop(i64(0), rows, hint="check") as loop:
            holds = loop.carry(Value("i8", "1"))
            loop.next(holds, f.bit_and(holds, f.load("i8", f.gep("i8", checks, loop.index))))
        passed = f.icmp("ne", loop.result(holds), Value("i8", "0"))
        return f.bit_or(passed, f.icmp("eq", f.load("i64", self.stop), self.columns()))
