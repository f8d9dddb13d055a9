"""Blocks of two-byte factors widened to f32 for the matrix product.

Guarantees a row-major copy of the block, converted exactly.
"""

from dfc.ir.dtypes import DType
from dfc_target_cpu.elementwise.loops import vector_loop
from dfc_target_cpu.elementwise.types import memory_type, register_type
from dfc_target_cpu.entries.frames import Lowering
from dfc_target_cpu.llvm.text import FunctionText, Parameter, Value
from dfc_target_cpu.llvm.values import byte_size, i64, vector_type, zero

_PARAMETERS = (
    Parameter("ptr", "target"),
    Parameter("i64", "stride"),
    Parameter("ptr", "source"),
    *(Parameter("i64", name) for name in ("row_step", "column_step", "rows", "columns")),
)


def widen_block(lowering: Lowering, dtype: DType) -> str:
    """`void (target, stride, source, row_step, column_step, rows, columns)`; f32 factors are copied."""
    return lowering.module.define(f"widen_{dtype}", lambda: _Widen(lowering, dtype).build())


class _Widen:
    """Rows that lie together as vectors, others element by element."""

    def __init__(self, lowering: Lowering, dtype: DType) -> None:
        self.lowering, self.dtype = lowering, dtype
        self.raw, self.element = memory_type(dtype), register_type(dtype)
        self.f = lowering.module.function(f"widen_{dtype}", "void", _PARAMETERS, attributes="nounwind noinline")

    def build(self) -> FunctionText:
        f = self.f
        target, stride, source, row_step, column_step, rows, columns = f.arguments
        together, apart, done = (f.label(x) for x in ("together", "apart", "done"))
        f.branch_if(f.icmp("eq", column_step, i64(1)), together, apart)
        for label in (together, apart):
            f.begin(label)
            with f.counted_loop(i64(0), rows, hint="row") as row:
                to = f.gep(self.element, target, f.mul(row.index, stride))
                start = f.gep(self.raw, source, f.mul(row.index, row_step))
                if label == together:
                    self._vectors(to, start, columns)
                else:
                    self._elements(to, start, column_step, columns)
            f.branch(done)
        f.begin(done)
        f.ret()
        return f

    def _vectors(self, target: Value, source: Value, columns: Value) -> None:
        f, lanes = self.f, self.lowering.machine.lanes(8 * byte_size(self.element))
        kind = vector_type(lanes, self.raw)

        def emit(column: Value, mask: Value | None, _: Value) -> None:
            pointer, to = f.gep(self.raw, source, column), f.gep(self.element, target, column)
            raw = f.load(kind, pointer) if mask is None else f.masked_load(kind, pointer, mask, zero(kind))
            value = self.lowering.functions.widen(f, raw, self.dtype)
            if mask is None:
                f.store(value, to)
            else:
                f.masked_store(value, to, mask)

        vector_loop(f, i64(0), columns, lanes, 1, emit)

    def _elements(self, target: Value, source: Value, step: Value, columns: Value) -> None:
        f = self.f
        with f.counted_loop(i64(0), columns, hint="column") as column:
            raw = f.load(self.raw, f.gep(self.raw, source, f.mul(column.index, step)))
            f.store(self.lowering.functions.widen(f, raw, self.dtype), f.gep(self.element, target, column.index))
