"""Products of one row by contiguous rows of B: B goes by once, row after row, as it lies in memory.

    sums that fit the registers (`row`): one row of B at a time; wider ones:

    for each stretch of columns, a stretch of C stays in the nearest cache:
      for some steps of k at a time:   C[stretch] += A[steps] * B[steps, stretch]

Such a product does next to nothing with what it reads, so it takes as long as reading B. Micro-kernels would read B in
narrow columns, each row of it in another page. Assumes contiguous rows of B. Guarantees chains of multiply-adds over
ascending k, as micro-kernels do.
"""

from dfc_target_cpu.elementwise.loops import vector_loop
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Value
from dfc_target_cpu.llvm.values import TRUE, i64, zero
from dfc_target_cpu.product.gemm.row import STREAM_PARAMETERS, row_in_registers
from dfc_target_cpu.product.gemm.shape import GemmShape

_STRETCH_BYTES = 8192
_STEPS = 8
"""Rows of B that are read side by side: each is a stream that the processor reads ahead."""
_UNROLLED = 2
_LINE_BYTES = 64
_SHORT_BYTES = 2048
"""Of rows that are too short for that: whole ones follow each other in memory, so they are asked for in this order."""
_FAR_BYTES = 512 << 10
"""Of a B that may not be in a cache of the core: asking for what is there takes time."""


def stream_row(module: ModuleText, shape: GemmShape) -> str:
    """`void (STREAM_PARAMETERS)`: the whole product."""
    name = f"gemm_stream_{shape.element}"
    return module.define(name, lambda: _stream(module, shape, name))


def _stream(module: ModuleText, shape: GemmShape, name: str) -> FunctionText:
    f = module.function(name, "void", STREAM_PARAMETERS, attributes="nounwind noinline")
    columns, wide, done = f.argument("columns"), f.label("wide"), f.label("done")
    counts = range(1, shape.row_vectors + 1)
    cases = [(count, f.label("row")) for count in counts]
    f.switch(f.udiv(f.add(columns, i64(shape.lanes - 1)), i64(shape.lanes)), wide, cases)
    for count, label in cases:
        f.begin(label)
        f.call(row_in_registers(module, shape, count), "void", f.arguments)
        f.branch(done)
    f.begin(wide)
    if shape.has_long_rows:
        _stretches(f, module, shape, name)
        f.branch(done)
    else:
        f.unreachable()
    f.begin(done)
    f.ret()
    return f


def _stretches(f: FunctionText, module: ModuleText, shape: GemmShape, name: str) -> None:
    a, a_cs, b, b_rs, c, k, columns, accumulate = f.arguments
    stretch, element = _STRETCH_BYTES // shape.element_bytes, shape.element
    short = f.icmp("sle", columns, i64(_SHORT_BYTES // shape.element_bytes))
    far = f.icmp("sge", f.mul(k, columns), i64(_FAR_BYTES // shape.element_bytes))
    prefetches = f.bit_and(f.bit_and(short, far), f.icmp("eq", b_rs, columns))
    prefetched, stretches, done = f.label("prefetched"), f.label("stretches"), f.label("stretched")
    f.branch_if(prefetches, prefetched, stretches)
    f.begin(prefetched)
    f.call(_stretch(module, shape, f"{name}_prefetched", prefetches=True), "void", f.arguments)
    f.branch(done)
    f.begin(stretches)
    with f.counted_loop(i64(0), columns, stretch, "jc") as jc:
        width = f.minimum(i64(stretch), f.sub(columns, jc.index))
        first, target = f.gep(element, b, jc.index), f.gep(element, c, jc.index)
        part = _stretch(module, shape, f"{name}_stretch", prefetches=False)
        f.call(part, "void", [a, a_cs, first, b_rs, target, k, width, accumulate])
    f.branch(done)
    f.begin(done)


def _stretch(module: ModuleText, shape: GemmShape, name: str, *, prefetches: bool) -> str:
    return module.define(name, lambda: _Stretch(module, shape, name, prefetches=prefetches).build())


class _Stretch:
    """Several steps of k at a time, whose elements of A stay in registers; the rest one by one. Where nothing is to be
    added to, C is cleared before: it stays in the nearest cache, and loops for first steps would double the code."""

    def __init__(self, module: ModuleText, shape: GemmShape, name: str, *, prefetches: bool) -> None:
        self.f = module.function(name, "void", STREAM_PARAMETERS, attributes="nounwind noinline")
        self.shape, self.prefetches = shape, prefetches

    def build(self) -> FunctionText:
        f, k = self.f, self.f.argument("k")
        with f.when(f.bit_xor(f.argument("accumulate"), TRUE), "clear"):
            vector_loop(f, i64(0), f.argument("columns"), self.shape.lanes, 1, self._clear)
        whole = f.bit_and(k, i64(-_STEPS))
        for start, stop, steps in ((i64(0), whole, _STEPS), (whole, k, 1)):
            with f.counted_loop(start, stop, steps, "k") as loop:
                self._steps(loop.index, steps)
        f.ret()
        return f

    def _clear(self, column: Value, mask: Value | None, _: Value) -> None:
        self._store(zero(self.shape.vector), self.f.gep(self.shape.element, self.f.argument("c"), column), mask)

    def _steps(self, k: Value, steps: int) -> None:
        f, arg, shape = self.f, self.f.argument, self.shape
        numbers = [f.add(k, i64(step)) for step in range(steps)]
        addresses = [f.gep(shape.element, arg("a"), f.mul(number, arg("a_cs"))) for number in numbers]
        factors = [f.splat(f.load(shape.element, x), shape.lanes) for x in addresses]
        lines = [f.gep(shape.element, arg("b"), f.mul(number, arg("b_rs"))) for number in numbers]

        following = f.gep(shape.element, lines[0], f.mul(arg("b_rs"), i64(steps)))

        def emit(column: Value, mask: Value | None, _: Value) -> None:
            if self.prefetches and steps == _STEPS and mask is None:
                self._prefetch(f.gep(shape.element, following, f.mul(column, i64(steps))))
            address = f.gep(shape.element, arg("c"), column)
            total = self._load(address, mask)
            for factor, line in zip(factors, lines, strict=True):
                total = f.multiply_add(factor, self._load(f.gep(shape.element, line, column), mask), total)
            self._store(total, address, mask)

        vector_loop(f, i64(0), arg("columns"), shape.lanes, _UNROLLED, emit)

    def _prefetch(self, start: Value) -> None:
        """For as many lines of the following rows as are read now, in the order of memory."""
        size = _STEPS * self.shape.lanes * self.shape.element_bytes
        for offset in range(0, size, _LINE_BYTES):
            self.f.prefetch(self.f.gep("i8", start, i64(offset)))

    def _store(self, value: Value, address: Value, mask: Value | None) -> None:
        if mask is None:
            self.f.store(value, address)
        else:
            self.f.masked_store(value, address, mask)

    def _load(self, address: Value, mask: Value | None) -> Value:
        f, vector = self.f, self.shape.vector
        return f.load(vector, address) if mask is None else f.masked_load(vector, address, mask, zero(vector))
