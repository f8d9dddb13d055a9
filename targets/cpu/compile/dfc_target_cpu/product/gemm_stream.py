"""Products of one row by contiguous rows of B: B goes by once, row after row, as it lies in memory.

    for each stretch of columns, a stretch of C stays in the nearest cache:
      for some steps of k at a time:   C[stretch] += A[steps] * B[steps, stretch]

Such a product does next to nothing with what it reads, so it takes as long as reading B. Micro-kernels would read B in
narrow columns, each row of it in another page. Assumes contiguous rows of B. Guarantees chains of multiply-adds over
ascending k, as micro-kernels do.
"""

from dfc_target_cpu.elementwise.loops import vector_loop
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import FALSE, TRUE, i64, zero
from dfc_target_cpu.product.gemm_shape import GemmShape

STREAM_PARAMETERS = (
    Parameter("ptr", "a", "noalias readonly"),
    Parameter("i64", "a_cs"),
    Parameter("ptr", "b", "noalias readonly"),
    Parameter("i64", "b_rs"),
    Parameter("ptr", "c", "noalias"),
    Parameter("i64", "k"),
    Parameter("i64", "columns"),
    Parameter("i1", "accumulate"),
)
_STRETCH_BYTES = 8192
_STEPS = 8
"""Rows of B that are read side by side: each is a stream that the processor reads ahead."""
_UNROLLED = 2


def stream_row(module: ModuleText, shape: GemmShape) -> str:
    """`void (STREAM_PARAMETERS)`: the whole product."""
    name = f"gemm_stream_{shape.element}"
    return module.define(name, lambda: _stream(module, shape, name))


def _stream(module: ModuleText, shape: GemmShape, name: str) -> FunctionText:
    f = module.function(name, "void", STREAM_PARAMETERS, attributes="nounwind noinline")
    a, a_cs, b, b_rs, c, k, columns, accumulate = f.arguments
    stretch, element = _STRETCH_BYTES // shape.element_bytes, shape.element
    with f.counted_loop(i64(0), columns, stretch, "jc") as jc:
        width = f.minimum(i64(stretch), f.sub(columns, jc.index))
        line, target = f.gep(element, b, jc.index), f.gep(element, c, jc.index)
        stretch_name = f"{name}_stretch"
        part = module.define(stretch_name, lambda: _Stretch(module, shape, stretch_name).build())
        f.call(part, "void", [a, a_cs, line, b_rs, target, k, width, accumulate])
    f.ret()
    return f


class _Stretch:
    """Several steps of k at a time, whose elements of A stay in registers; the rest one by one."""

    def __init__(self, module: ModuleText, shape: GemmShape, name: str) -> None:
        self.f = module.function(name, "void", STREAM_PARAMETERS, attributes="nounwind noinline")
        self.shape = shape

    def build(self) -> FunctionText:
        """The first steps start from zero where nothing is to be added to."""
        f, k = self.f, self.f.argument("k")
        clears = f.bit_xor(f.argument("accumulate"), TRUE)
        is_deep = f.icmp("sge", k, i64(_STEPS))
        several, single = f.select(is_deep, clears, FALSE), f.select(is_deep, FALSE, clears)
        with f.when(several, "start"):
            self._steps(i64(0), _STEPS, starts=True)
        with f.when(single, "start"):
            self._steps(i64(0), 1, starts=True)
        begin = f.select(several, i64(_STEPS), f.select(single, i64(1), i64(0)))
        whole = f.add(begin, f.bit_and(f.sub(k, begin), i64(-_STEPS)))
        for start, stop, steps in ((begin, whole, _STEPS), (whole, k, 1)):
            with f.counted_loop(start, stop, steps, "k") as loop:
                self._steps(loop.index, steps, starts=False)
        f.ret()
        return f

    def _steps(self, k: Value, steps: int, *, starts: bool) -> None:
        f, arg, shape = self.f, self.f.argument, self.shape
        numbers = [f.add(k, i64(step)) for step in range(steps)]
        addresses = [f.gep(shape.element, arg("a"), f.mul(number, arg("a_cs"))) for number in numbers]
        factors = [f.splat(f.load(shape.element, x), shape.lanes) for x in addresses]
        lines = [f.gep(shape.element, arg("b"), f.mul(number, arg("b_rs"))) for number in numbers]

        def emit(column: Value, mask: Value | None, _: Value) -> None:
            address = f.gep(shape.element, arg("c"), column)
            total = zero(shape.vector) if starts else self._load(address, mask)
            for factor, line in zip(factors, lines, strict=True):
                total = f.multiply_add(factor, self._load(f.gep(shape.element, line, column), mask), total)
            if mask is None:
                f.store(total, address)
            else:
                f.masked_store(total, address, mask)

        vector_loop(f, i64(0), arg("columns"), shape.lanes, _UNROLLED, emit)

    def _load(self, address: Value, mask: Value | None) -> Value:
        f, vector = self.f, self.shape.vector
        return f.load(vector, address) if mask is None else f.masked_load(vector, address, mask, zero(vector))
