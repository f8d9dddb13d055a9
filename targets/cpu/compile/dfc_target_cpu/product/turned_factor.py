"""The second factor of a product of row blocks, turned once for all blocks of a batch point: row after row of memory
what lies column by column (keys, with which every block of queries is multiplied).

    b[n, k] in memory -> blocks of columns, each in panels [k][vectors of a tile], as `gemm_turned` reads them

Assumes memory of `TURNED_BYTES` and more than one block of rows. Guarantees the same factors, and so the same sums.
"""

from collections.abc import Generator
from contextlib import contextmanager

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.contractions import Product
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Value
from dfc_target_cpu.llvm.values import byte_size, i64
from dfc_target_cpu.machine import Machine
from dfc_target_cpu.product.gemm.library import declare_pack_columns
from dfc_target_cpu.product.gemm.shape import gemm_shape

TURNED_BYTES = 5 << 18
"""Memory of a thread for a turned factor: 64 x 4,096 of f32, and what the last block of columns leaves unused."""
_BLOCK_BYTES = 1920
"""A row of a block: a whole number of panels."""
_MOST_DEPTH = 256
_FEWEST_ROWS = 9
"""Products of fewer rows may be made along the depth, where factors are read as they lie."""


@dataclass(frozen=True, slots=True)
class TurnedBlock:
    """A block: its first column, where it lies, how many columns it has, and how many of them are needed."""

    column: Value
    address: Value
    lines: Value
    columns: Value


class TurnedFactor:
    """Code for the factor b of a product, an n x k matrix with rows `step` elements apart."""

    def __init__(self, f: FunctionText, module: ModuleText, machine: Machine, p: Product) -> None:
        self.f, self.module, self.element = f, module, p.element
        self.shape = gemm_shape(machine, p.element)
        self.columns = _BLOCK_BYTES // byte_size(p.element)

    @staticmethod
    def suits(p: Product) -> bool:
        """Whether a factor lies that way round."""
        coefficients = p.b.access.coefficients
        return p.in_place and coefficients[p.kernel.k].constant == 1 and coefficients[p.kernel.n].constant != 1

    def pays(self, whole_rows: Value, rows: Value, n: Value, k: Value) -> Value:
        """Whether there is more than one block, and room."""
        f = self.f
        blocks = f.udiv(f.add(n, i64(self.columns - 1)), i64(self.columns))
        taken = f.mul(f.add(f.mul(blocks, k), i64(self.shape.lanes)), i64(_BLOCK_BYTES))
        several = f.bit_and(f.icmp("sgt", whole_rows, rows), f.icmp("sge", whole_rows, i64(_FEWEST_ROWS)))
        fits = f.bit_and(f.icmp("sle", taken, i64(TURNED_BYTES)), f.icmp("sle", k, i64(_MOST_DEPTH)))
        return f.bit_and(f.bit_and(several, fits), f.icmp("sge", n, i64(self.columns)))

    def turn(self, memory: Value, b: Value, step: Value, n: Value, k: Value) -> None:
        """Copies the factor. Rows of the last square beyond k go into the next block, which is written later."""
        f, most = self.f, i64(self.shape.vectors)
        pack = declare_pack_columns(self.module, self.element)
        with f.counted_loop(i64(0), n, self.columns, "turn") as loop:
            start = f.gep(self.element, b, f.mul(loop.index, step))
            columns = f.minimum(f.sub(n, loop.index), i64(self.columns))
            target = f.gep(self.element, memory, f.mul(loop.index, k))
            f.call(pack, "void", [target, start, i64(1), step, k, columns, most])

    @contextmanager
    def blocks(self, memory: Value, n: Value, k: Value, stop: Value) -> Generator[TurnedBlock]:
        """A loop over the blocks that have columns below `stop`."""
        f = self.f
        with f.counted_loop(i64(0), stop, self.columns, "columns") as loop:
            lines, columns = (f.minimum(f.sub(one, loop.index), i64(self.columns)) for one in (n, stop))
            yield TurnedBlock(loop.index, f.gep(self.element, memory, f.mul(loop.index, k)), lines, columns)
