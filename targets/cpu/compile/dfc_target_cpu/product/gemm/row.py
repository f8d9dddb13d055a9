"""Products of one row whose sums fit the registers: B goes by once, whole rows as they follow each other in memory.

    for each k:   sums[0 .. vectors] += A[k] * B[k, 0 .. vectors]

Rows of B are short here, so that several of them side by side would be streams too short for a processor to read
ahead; one row after the other is one stream. Assumes contiguous rows of B, and a machine that masks loads. Guarantees
chains of multiply-adds over ascending k, as micro-kernels do.
"""

from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter
from dfc_target_cpu.llvm.values import i64, zero
from dfc_target_cpu.product.gemm.shape import GemmShape

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


def row_in_registers(module: ModuleText, shape: GemmShape, vectors: int) -> str:
    """`void (STREAM_PARAMETERS)`: the product, for so many vectors of columns, the last of which may be partial."""
    name = f"gemm_row_{shape.element}_{vectors}"
    return module.define(name, lambda: _row(module, shape, vectors, name))


def _row(module: ModuleText, shape: GemmShape, vectors: int, name: str) -> FunctionText:
    f = module.function(name, "void", STREAM_PARAMETERS, attributes="nounwind noinline")
    a, a_cs, b, b_rs, c, k, columns, accumulate = f.arguments
    last, nothing = i64((vectors - 1) * shape.lanes), zero(shape.vector)
    mask = f.tail_mask(f.sub(columns, last), shape.lanes)
    firsts = [i64(number * shape.lanes) for number in range(vectors)]
    masks = [None] * (vectors - 1) + [mask]
    adds = f.splat(accumulate, shape.lanes)
    old = [
        f.masked_load(shape.vector, f.gep(shape.element, c, first), adds if m is None else f.bit_and(adds, m), nothing)
        for first, m in zip(firsts, masks, strict=True)
    ]
    with f.counted_loop(i64(0), k, hint="k") as loop:
        sums = [loop.carry(value) for value in old]
        factor = f.splat(f.load(shape.element, f.gep(shape.element, a, f.mul(loop.index, a_cs))), shape.lanes)
        row = f.gep(shape.element, b, f.mul(loop.index, b_rs))
        for total, first, m in zip(sums, firsts, masks, strict=True):
            address = f.gep(shape.element, row, first)
            element = f.load(shape.vector, address) if m is None else f.masked_load(shape.vector, address, m, nothing)
            loop.next(total, f.multiply_add(factor, element, total))
    for total, first, m in zip(sums, firsts, masks, strict=True):
        address, value = f.gep(shape.element, c, first), loop.result(total)
        if m is None:
            f.store(value, address)
        else:
            f.masked_store(value, address, m)
    f.ret()
    return f
