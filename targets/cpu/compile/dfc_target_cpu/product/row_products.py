"""A product as a step of row blocks: some of its rows at one batch point, or the rows of its depth.

    product_<n>(context, frame of the step, workspace, row0, rows, is_first, is_last, turned, is_new, batch..)

The extent of an axis along the columns of a band is what a block needs of them (`dfc.kernels.bands`); what is beyond is
not read, and in memory it is 0. Assumes calls for blocks of rows in their order. Guarantees the sums of the product as
a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim
from dfc.kernels.access import NONE
from dfc.kernels.contractions import Product, as_product
from dfc.kernels.form import ContractKernel, RowStep
from dfc_target_cpu.elementwise.loops import vector_loop
from dfc_target_cpu.entries.frames import Lowering
from dfc_target_cpu.llvm.text import Parameter, Value
from dfc_target_cpu.llvm.values import NULL, TRUE, byte_size, i64, vector_type, zero
from dfc_target_cpu.product.contraction import TILE_COLUMNS, Matrix, ProductPart, Tile
from dfc_target_cpu.product.gemm.library import declare_narrow, declare_turned
from dfc_target_cpu.product.gemm.narrow import has_narrow, narrow_columns
from dfc_target_cpu.product.gemm.shape import gemm_shape
from dfc_target_cpu.product.turned_factor import TurnedFactor

MOST_NARROW = 256
"""Columns of a product up to which the other factor is read once for each tile of them."""
FEWEST_ROWS = 12
_WAYS = ("plain", "turned", "done")


@dataclass(frozen=True, slots=True)
class Columns:
    """The axis of a step along the columns of a band, and how many there are in all."""

    axis: int
    count: Dim


ROWS = (
    Parameter("ptr", "workspace"),
    Parameter("i64", "row0"),
    Parameter("i64", "rows"),
    Parameter("i1", "is_first"),
    Parameter("i1", "is_last"),
    Parameter("ptr", "turned"),
    Parameter("i1", "is_new"),
)
"""`turned`: memory for the second factor, which is another one than at the last call if `is_new`."""


class RowsOfProduct(ProductPart):
    """Some rows of a product at one batch point; or the rows of its depth, added to what was there before them."""

    def __init__(
        self, lowering: Lowering, p: Product, number: int, epilogue: str, step: RowStep, band: Columns | None
    ) -> None:
        batch = tuple(Parameter("i64", f"batch{axis}") for axis in range(p.kernel.m))
        super().__init__(lowering, p, number, epilogue, (*ROWS, *batch))
        self.step, self.band = step, band

    def build(self) -> str:
        self.enter()
        f, p = self.f, self.p
        self.workspace = f.argument("workspace")
        indices = list(f.arguments[2 + len(ROWS) :])
        if self.step.sums_over_rows:
            self._add_rows(indices)
        elif p.in_place and p.direct != NONE:
            self._make_rows(indices)
        else:
            self._make_tiles(indices)
        return self.finish()

    def _make_rows(self, indices: Sequence[Value]) -> None:
        p, row0, rows = self.p, self.f.argument("row0"), self.f.argument("rows")
        m, n, k = p.kernel.m, p.kernel.n, p.kernel.k
        a = self._moved(self._matrix(p.a.access, indices, m, k), p.element, row0, 1)
        b = self._matrix(p.b.access, indices, k, n)
        c = self._moved(self._matrix(p.epilogue.stores[p.direct], indices, m, n), p.element, row0, 1)
        if self.epilogue:
            self._write_record(c[0], c[1], (row0, i64(0)), indices)
        if not is_turned(self.step):
            self._by_rows(a, b, c, (rows, self.extents[n], self.extents[k]))
            return
        f, columns, depth = self.f, self.extents[n], self.extents[k]
        factor = TurnedFactor(f, self.lowering.module, self.lowering.machine, p)
        lines = self._whole_extent(n)
        pays, plain, turned, done = factor.pays(self.extents[m], rows, lines, depth), *map(f.label, _WAYS)
        f.branch_if(pays, turned, plain)
        f.begin(plain)
        self._call(a, b, c, (rows, columns, depth), (i64(0), i64(1)))
        f.branch(done)
        f.begin(turned)
        memory = f.argument("turned")
        with f.when(f.argument("is_new"), "new"):
            factor.turn(memory, b[0], b[2], lines, depth)
        name = declare_turned(self.lowering.module, p.element)
        with factor.blocks(memory, lines, depth, columns) as block:
            sums = self._moved(c, p.element, block.column, 2)
            if self.epilogue:
                self._write_record(sums[0], sums[1], (row0, block.column), indices)
            operands = [*a, block.address, block.lines, *sums[:2], rows, block.columns, depth]
            is_first = f.icmp("eq", block.column, i64(0))
            epilogue = NULL if p.is_plain else self._epilogue()
            f.call(name, "void", [self.record, epilogue, *operands, is_first, self.workspace])
        f.branch(done)
        f.begin(done)

    def _by_rows(self, a: Matrix, b: Matrix, c: Matrix, sizes: tuple[Value, Value, Value]) -> None:
        """A product with factors where they lie: in wide tiles if the columns fill such."""
        f, (rows, columns, depth), share = self.f, sizes, (i64(0), i64(1))
        shape = gemm_shape(self.lowering.machine, self.p.element)
        if not has_narrow(shape):
            self._call(a, b, c, sizes, share)
            return
        rest = f.bit_and(columns, i64(narrow_columns(shape) - 1))
        lines = f.bit_and(f.icmp("eq", a[2], i64(1)), f.icmp("eq", b[2], i64(1)))
        fits = f.bit_and(f.icmp("eq", rest, i64(0)), f.icmp("sle", columns, i64(MOST_NARROW)))
        some = f.bit_and(f.icmp("sgt", depth, i64(0)), f.icmp("sge", rows, i64(FEWEST_ROWS)))
        wide, other, done = f.label("wide"), f.label("other"), f.label("done")
        f.branch_if(f.bit_and(f.bit_and(lines, fits), some), wide, other)
        f.begin(wide)
        epilogue = NULL if self.p.is_plain else self._epilogue()
        name = declare_narrow(self.lowering.module, self.p.element)
        f.call(name, "void", [self.record, epilogue, *a[:2], *b[:2], *c[:2], rows, columns, depth])
        f.branch(done)
        f.begin(other)
        self._call(a, b, c, sizes, share)
        f.branch(done)
        f.begin(done)

    def _whole_extent(self, axis: int) -> Value:
        """How long an axis is without a band."""
        is_banded = self.band is not None and self.band.axis == axis
        return self.value(self.band.count) if self.band is not None and is_banded else self.extents[axis]

    def _add_rows(self, indices: Sequence[Value]) -> None:
        f, p, row0, rows = self.f, self.p, self.f.argument("row0"), self.f.argument("rows")
        m, n, k = p.kernel.m, p.kernel.n, p.kernel.k
        a = self._moved(self._matrix(p.a.access, indices, m, k), p.element, row0, 2)
        b = self._moved(self._matrix(p.b.access, indices, k, n), p.element, row0, 1)
        c = self._matrix(p.epilogue.stores[p.direct], indices, m, n)
        if self.epilogue:
            self._write_record(c[0], c[1], (i64(0), i64(0)), indices)
        share, sizes = (i64(0), i64(1)), (self.extents[m], self.extents[n], rows)
        if self.band is None:
            done = f.select(f.argument("is_last"), self._epilogue(), NULL)
            more = f.bit_xor(f.argument("is_first"), TRUE)
            self._call(a, b, c, sizes, share, accumulate=more, epilogue=done)
            return
        whole = self._whole_extent(m), self._whole_extent(n)
        with f.when(f.argument("is_first"), "first"):
            self._clear(c, *whole)
        self._call(a, b, c, sizes, share, accumulate=TRUE, epilogue=NULL)
        if self.epilogue:
            with f.when(f.argument("is_last"), "last"):
                self._call(a, b, c, (*whole, i64(0)), share, accumulate=TRUE)

    def _clear(self, c: Matrix, rows: Value, columns: Value) -> None:
        """Zeros, from which the sums of all columns start: blocks of rows add to those that they need."""
        f, element = self.f, self.p.element
        lanes = self.lowering.machine.lanes(8 * byte_size(element))
        nothing = zero(vector_type(lanes, element))
        with f.counted_loop(i64(0), rows, hint="clear") as row:
            line = f.gep(element, c[0], f.mul(row.index, c[1]))

            def emit(index: Value, mask: Value | None, _: Value) -> None:
                target = f.gep(element, line, index)
                if mask is None:
                    f.store(nothing, target)
                else:
                    f.masked_store(nothing, target, mask)

            vector_loop(f, i64(0), columns, lanes, 1, emit)

    def _make_tiles(self, indices: Sequence[Value]) -> None:
        f, row0, n = self.f, self.f.argument("row0"), self.extents[self.p.kernel.n]
        end = f.add(row0, f.argument("rows"))
        with (
            f.counted_loop(row0, end, self.rows, "rows") as down,
            f.counted_loop(i64(0), n, TILE_COLUMNS, "columns") as across,
        ):
            rows, columns = f.sub(end, down.index), f.sub(n, across.index)
            heights = f.minimum(rows, i64(self.rows)), f.minimum(columns, i64(TILE_COLUMNS))
            tile = Tile(down.index, across.index, *heights)
            sums = self._sums(tile, indices)
            self._write_record(sums[0], sums[1], (tile.row, tile.column), indices)
            self._tile(tile, sums, indices)


def is_turned(step: RowStep) -> bool:
    """Whether a step is a product that can have its second factor turned."""
    if not isinstance(step.kernel, ContractKernel) or step.sums_over_rows:
        return False
    matched = as_product(step.kernel)
    return matched is not None and matched.direct != NONE and TurnedFactor.suits(matched)
