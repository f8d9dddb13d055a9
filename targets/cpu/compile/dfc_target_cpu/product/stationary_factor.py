"""Products whose sums need a tile of the workspace, with the second factor stationary: it is packed once for all rows
of a part, and block after block of rows goes by.

    x[3136, 1024] := relu(x + norm(a[3136, 256] @ b[256, 1024]))       x is read where it is written

    b, packed:   256 x 1024 elements      once for each part
    sums:         64 x 1024 elements      the same tile for each block of rows, read by the epilogue while it is near

Assumes that both factors are matrices in memory and that each row or each column of the second one is contiguous.
Guarantees what `gemm` does: one chain of multiply-adds over ascending k for each sum.
"""

from dfc.kernels.access import NONE
from dfc.kernels.contractions import Product
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Value
from dfc_target_cpu.llvm.values import TRUE, i64
from dfc_target_cpu.machine import Machine
from dfc_target_cpu.product.gemm.library import declare_pack_columns, declare_pack_rows, declare_turned
from dfc_target_cpu.product.gemm.shape import gemm_shape

DEPTH, COLUMNS = 512, 1024
"""Of the second factor as much is packed."""
STRIDE = COLUMNS + 16
"""Elements between rows of the sums: rows that are 4 KB apart would share a set of the cache."""
_FEWEST_COLUMNS = 384
"""Of fewer, packing rows of the first factor takes too long beside multiplying them."""


class StationaryFactor:
    """Code for products of a kernel. The memory of sums is `room` elements of each part."""

    def __init__(self, f: FunctionText, module: ModuleText, machine: Machine, p: Product, room: int) -> None:
        self.f, self.module, self.p = f, module, p
        self.shape = gemm_shape(machine, p.element)
        self.height = self.shape.mc
        self._sums = self.height * STRIDE
        spill = self.shape.lanes * self.shape.wide * self.shape.lanes
        assert self._sums + DEPTH * (COLUMNS + self.shape.vectors * self.shape.lanes) + spill <= room

    @staticmethod
    def suits(p: Product) -> bool:
        """Whether sums need a tile, and factors lie so that they can be packed fast."""
        coefficients = p.b.access.coefficients
        return (
            p.in_place and p.direct == NONE and 1 in (coefficients[axis].constant for axis in (p.kernel.k, p.kernel.n))
        )

    def pays(self, rows: Value, n: Value, k: Value) -> Value:
        """Whether a part has several blocks of so many rows, and the depth is that of one block."""
        f = self.f
        deep = f.bit_and(f.icmp("sge", k, i64(1)), f.icmp("sle", k, i64(DEPTH)))
        wide = f.bit_and(f.icmp("sge", n, i64(_FEWEST_COLUMNS)), f.icmp("sge", rows, i64(2 * self.height)))
        return f.bit_and(deep, wide)

    def steps(self, rows: Value, n: Value) -> tuple[Value, Value]:
        """Rows and columns of a block: as equal as they can be. Whole panels may be more columns than there is room
        for, as 22 of 48 are in place of 1024."""
        columns = self._even(n, COLUMNS, self.shape.vectors * self.shape.lanes)
        return self._even(rows, self.height, 2), self.f.minimum(columns, i64(COLUMNS))

    def _even(self, extent: Value, most: int, unit: int) -> Value:
        f = self.f
        blocks = f.udiv(f.add(extent, i64(most - 1)), i64(most))
        units = f.udiv(f.add(extent, i64(unit - 1)), i64(unit))
        return f.mul(f.udiv(f.sub(f.add(units, blocks), i64(1)), blocks), i64(unit))

    def pack(self, memory: Value, b: tuple[Value, Value, Value], k: Value, columns: Value) -> None:
        """Packs so many columns of the second factor."""
        is_rows = self.p.b.access.coefficients[self.p.kernel.n].constant == 1
        pack = (declare_pack_rows if is_rows else declare_pack_columns)(self.module, self.p.element)
        self.f.call(pack, "void", [self._panels(memory), *b, k, columns, i64(self.shape.vectors)])

    def multiply(
        self, memory: Value, frames: list[Value], a: tuple[Value, Value, Value], sizes: list[Value], workspace: Value
    ) -> None:
        """A block of rows, by the columns that are packed; `frames`: the record and the function of the epilogue."""
        multiply, (rows, columns, k) = declare_turned(self.module, self.p.element), sizes
        factors = [*a, self._panels(memory), columns, memory, i64(STRIDE)]
        self.f.call(multiply, "void", [*frames, *factors, rows, columns, k, TRUE, workspace])

    def _panels(self, memory: Value) -> Value:
        return self.f.gep(self.p.element, memory, i64(self._sums))
