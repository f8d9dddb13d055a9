"""Products with few rows of A against contiguous columns of B: inner products along k, several at a time.

Assumes A contiguous along k too, so that neither operand is packed (packing would cost more than the product).
Guarantees that an element of C is summed over lanes and then by a fixed tree of halves, a function of K alone; with
`accumulate` C is added last.
"""

from dfc_target_cpu.llvm.text import FunctionText, Loop, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import NULL, constant, i64, lane_count, poison, vector_type, zero
from dfc_target_cpu.product.gemm.shape import GemmShape

DOT_PARAMETERS = (
    Parameter("ptr", "a", "noalias readonly"),
    Parameter("i64", "a_rs"),
    Parameter("ptr", "b", "noalias readonly"),
    Parameter("i64", "b_cs"),
    Parameter("ptr", "c", "noalias"),
    Parameter("i64", "c_rs"),
    Parameter("i64", "k"),
    Parameter("i64", "columns"),
    Parameter("i1", "accumulate"),
)


def dot_heights(shape: GemmShape) -> list[int]:
    """Numbers of rows that are made at once: powers of two that add up to any number up to `few_rows`."""
    return [rows for rows in (4, 2, 1) if rows <= shape.few_rows]


def dot_rows(module: ModuleText, shape: GemmShape, rows: int) -> str:
    """`void (DOT_PARAMETERS)`: all columns for so many rows."""
    return module.define(f"gemm_dots_{shape.element}_{rows}", lambda: _dot_rows(module, shape, rows))


def _dot_rows(module: ModuleText, shape: GemmShape, rows: int) -> FunctionText:
    name, width = f"gemm_dot_{shape.element}_{rows}", 8 if rows == 1 else 4
    kernel = module.define(name, lambda: _kernel(module, name, shape, rows, width))
    f = module.function(f"gemm_dots_{shape.element}_{rows}", "void", DOT_PARAMETERS, attributes="nounwind noinline")
    a, a_rs, b, b_cs, c, c_rs, k, columns, accumulate = f.arguments
    with f.counted_loop(i64(0), columns, width, "columns") as loop:
        first = f.gep(shape.element, b, f.mul(loop.index, b_cs))
        target = f.gep(shape.element, c, loop.index)
        f.call(kernel, "void", [a, a_rs, first, b_cs, target, c_rs, k, f.sub(columns, loop.index), accumulate])
    f.ret()
    return f


def _kernel(module: ModuleText, name: str, shape: GemmShape, rows: int, width: int) -> FunctionText:
    """`rows` x `width` inner products; columns beyond `columns` repeat the last one and are not stored."""
    f = module.function(name, "void", DOT_PARAMETERS, attributes="nounwind noinline")
    last = f.sub(f.argument("columns"), i64(1))
    columns = [
        f.gep(shape.element, f.argument("b"), f.mul(f.minimum(i64(j), last), f.argument("b_cs"))) for j in range(width)
    ]
    lines = [f.gep(shape.element, f.argument("a"), f.mul(f.argument("a_rs"), i64(i))) for i in range(rows)]
    whole = f.bit_and(f.argument("k"), i64(-shape.lanes))
    with f.counted_loop(i64(0), whole, shape.lanes, "k") as loop:
        sums = [[loop.carry(zero(shape.vector)) for _ in columns] for _ in lines]
        _multiply(f, shape, loop, lines, columns, sums)
    full = _tail(f, shape, whole, lines, columns, sums)
    scalars = _lane_sums(f, shape, full)
    for i in range(rows):
        line = f.gep(shape.element, f.argument("c"), f.mul(f.argument("c_rs"), i64(i)))
        _store_row(f, shape, line, f.gep(shape.element, scalars, i64(i * width)), width)
    f.ret()
    return f


Grid = list[list[Value]]


def _multiply(
    f: FunctionText, shape: GemmShape, loop: Loop, lines: list[Value], columns: list[Value], sums: Grid
) -> None:
    left = [f.load(shape.vector, f.gep(shape.element, line, loop.index)) for line in lines]
    for j, column in enumerate(columns):
        right = f.load(shape.vector, f.gep(shape.element, column, loop.index))
        for i, value in enumerate(left):
            loop.next(sums[i][j], f.multiply_add(value, right, sums[i][j]))


def _tail(
    f: FunctionText, shape: GemmShape, start: Value, lines: list[Value], columns: list[Value], sums: Grid
) -> Grid:
    """The last, partly filled step; skipped when it is empty, since its addresses may lie outside."""
    rest = f.sub(f.argument("k"), start)
    before, some, after = f.current, f.label("tail"), f.label("sum")
    f.branch_if(f.icmp("sgt", rest, i64(0)), some, after)
    f.begin(some)
    mask = f.tail_mask(rest, shape.lanes)

    def load(base: Value) -> Value:
        return f.masked_load(shape.vector, f.gep(shape.element, base, start), mask, zero(shape.vector))

    left, right = [load(line) for line in lines], [load(column) for column in columns]
    new = [
        [f.multiply_add(a, b, s) for b, s in zip(right, row, strict=True)] for a, row in zip(left, sums, strict=True)
    ]
    end = f.current
    f.branch(after)
    f.begin(after)
    result: Grid = []
    for old_row, new_row in zip(sums, new, strict=True):
        phis = [f.phi(shape.vector) for _ in old_row]
        for phi, old, changed in zip(phis, old_row, new_row, strict=True):
            phi.add(old, before)
            phi.add(changed, end)
        result.append([phi.value for phi in phis])
    return result


def sum_of_lanes(f: FunctionText, vector: Value) -> Value:
    """The upper half is added to the lower one until one lane is left."""
    lanes = lane_count(vector.type)
    while lanes > 1:
        lanes //= 2
        upper = f.shuffle(vector, poison(vector.type), range(lanes, 2 * lanes))
        vector = f.fadd(f.shuffle(vector, poison(vector.type), range(lanes)), upper)
    return vector


def _lane_sums(f: FunctionText, shape: GemmShape, sums: Grid) -> Value:
    """An array of the sums, row after row. A loop, not unrolled code: it compiles in a fraction of the time."""
    flat = [vector for row in sums for vector in row]
    vectors, scalars = f.alloca(shape.vector, len(flat)), f.alloca(shape.element, len(flat))
    for i, vector in enumerate(flat):
        f.store(vector, f.gep(shape.vector, vectors, i64(i)))
    with f.counted_loop(i64(0), i64(len(flat))) as loop:
        total = sum_of_lanes(f, f.load(shape.vector, f.gep(shape.vector, vectors, loop.index)))
        f.store(total, f.gep(shape.element, scalars, loop.index))
    return scalars


def _store_row(f: FunctionText, shape: GemmShape, address: Value, sums: Value, width: int) -> None:
    row = vector_type(width, shape.element)
    mask = f.tail_mask(f.argument("columns"), width)
    is_stored = f.bit_and(mask, f.splat(f.argument("accumulate"), width))
    old = f.masked_load(row, address, is_stored, constant(row, -0.0))
    f.masked_store(f.fadd(f.load(row, sums), old), address, mask)


def swapped_epilogue(module: ModuleText) -> str:
    """An epilogue for the transposed product: its frame is (frame, epilogue) of the wanted one."""
    return module.define("gemm_swapped_epilogue", lambda: _swapped_epilogue(module))


def _swapped_epilogue(module: ModuleText) -> FunctionText:
    formals = (Parameter("ptr", "pair"), *(Parameter("i64", x) for x in ("r0", "r1", "c0", "c1")))
    f = module.function("gemm_swapped_epilogue", "void", formals)
    pair, r0, r1, c0, c1 = f.arguments
    frame, epilogue = f.load("ptr", pair), f.load("ptr", f.gep("ptr", pair, i64(1)))
    with f.when(f.icmp("ne", epilogue, NULL)):
        f.call_pointer(epilogue, "void", [frame, c0, c1, r0, r1])
    f.ret()
    return f
