"""Copies of B in the order the micro-kernels read it, and of sums that were made in another order.

Assumes a workspace as large as `GemmShape.workspace_bytes`. A panel of v vectors that starts at vector p of the block
lies at element `p * lanes * kc`, its rows `v * lanes` elements apart. Lanes beyond the columns hold anything: kernels
read them, but never store what follows from them.
"""

from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i64, vector_type, zero
from dfc_target_cpu.product.gemm.shape import GemmShape
from dfc_target_cpu.product.gemm.tiles import Panels

PACK_PARAMETERS = (
    Parameter("ptr", "panels", "noalias"),
    Parameter("ptr", "b", "noalias readonly"),
    Parameter("i64", "b_rs"),
    Parameter("i64", "b_cs"),
    Parameter("i64", "k"),
    Parameter("i64", "columns"),
    Parameter("i64", "most"),
)
"""`most`: vectors of the widest panel."""
COPY_PARAMETERS = (
    Parameter("ptr", "source", "noalias readonly"),
    Parameter("i64", "source_rs"),
    Parameter("ptr", "target", "noalias"),
    Parameter("i64", "target_rs"),
    Parameter("i64", "rows"),
    Parameter("i64", "columns"),
)
"""Strides in elements; rows and columns of the target."""

SQUARE = 8
"""Side of the squares that are transposed in registers: larger ones take long to compile. So many rows are copied
before the next panel."""
_TURNED_ROWS = 64
"""Rows of a panel that are transposed before the next ones: they stay in a cache until all their columns are there."""


def pack_rows(module: ModuleText, shape: GemmShape) -> str:
    """For B with contiguous rows: row after row of the block, cut over the panels."""
    return module.define(f"gemm_pack_rows_{shape.element}", lambda: _pack_rows(module, shape))


def pack_any(module: ModuleText, shape: GemmShape) -> str:
    """For B with any strides, element by element."""
    return module.define(f"gemm_pack_any_{shape.element}", lambda: _pack_any(module, shape))


def pack_columns(module: ModuleText, shape: GemmShape) -> str:
    """For B with contiguous columns: square by square, transposed in registers. Other modules may call it, too."""
    return module.define(f"gemm_pack_columns_{shape.element}", lambda: _pack_columns(module, shape))


def _pack_rows(module: ModuleText, shape: GemmShape) -> FunctionText:
    """Some rows of a panel, then the same rows of the next one: memory is read along rows."""
    name = f"gemm_pack_rows_{shape.element}"
    f = module.function(name, "void", PACK_PARAMETERS, linkage="hidden", attributes="nounwind noinline")
    target, b, b_rs, _, k, columns, most = f.arguments
    panels, lanes = Panels(f, shape, columns, most), i64(shape.lanes)
    with f.counted_loop(i64(0), k, SQUARE) as block, f.counted_loop(i64(0), panels.count) as outer:
        rows = f.minimum(i64(SQUARE), f.sub(k, block.index))
        start, width = panels.panel(outer.index)
        column, stride = f.mul(start, lanes), f.mul(width, lanes)
        write = f.gep(shape.element, target, f.add(f.mul(column, k), f.mul(block.index, stride)))
        read = f.gep(shape.element, b, f.add(column, f.mul(block.index, b_rs)))
        mask = f.tail_mask(f.sub(columns, f.sub(f.add(column, stride), lanes)), shape.lanes)
        cases = [(vectors, f.label("width")) for vectors in range(1, shape.wide + 1)]
        impossible, done = f.label("impossible"), f.label("done")
        f.switch(width, impossible, cases)
        for vectors, label in cases:
            f.begin(label)
            _copy_rows(f, shape, (read, b_rs), write, rows, vectors, mask)
            f.branch(done)
        f.begin(impossible)
        f.unreachable()
        f.begin(done)
    f.ret()
    return f


def _copy_rows(
    f: FunctionText,
    shape: GemmShape,
    source: tuple[Value, Value],
    target: Value,
    rows: Value,
    vectors: int,
    mask: Value,
) -> None:
    """`rows` rows of a panel of so many vectors; `source`: where the first one is, and the step to the next."""
    width = vectors * shape.lanes
    with f.counted_loop(i64(0), rows) as row:
        read = f.gep(shape.element, source[0], f.mul(row.index, source[1]))
        write = f.gep(shape.element, target, f.mul(row.index, i64(width)))
        for offset in map(i64, range(0, width, shape.lanes)):
            at = f.gep(shape.element, read, offset)
            is_last = offset == i64(width - shape.lanes)
            whole = f.masked_load(shape.vector, at, mask, zero(shape.vector)) if is_last else f.load(shape.vector, at)
            f.store(whole, f.gep(shape.element, write, offset))


def _pack_any(module: ModuleText, shape: GemmShape) -> FunctionText:
    f = module.function(f"gemm_pack_any_{shape.element}", "void", PACK_PARAMETERS, attributes="nounwind noinline")
    target, b, b_rs, b_cs, k, columns, most = f.arguments
    panels = Panels(f, shape, columns, most)
    with f.counted_loop(i64(0), panels.count) as outer:
        start, width = panels.panel(outer.index)
        column = f.mul(start, i64(shape.lanes))
        panel = f.gep(shape.element, target, f.mul(column, k))
        stride = f.mul(width, i64(shape.lanes))
        with f.counted_loop(i64(0), k) as row, f.counted_loop(i64(0), f.minimum(stride, f.sub(columns, column))) as x:
            at = f.add(f.mul(row.index, b_rs), f.mul(f.add(column, x.index), b_cs))
            value = f.load(shape.element, f.gep(shape.element, b, at))
            f.store(value, f.gep(shape.element, panel, f.add(x.index, f.mul(row.index, stride))))
    f.ret()
    return f


def _pack_columns(module: ModuleText, shape: GemmShape) -> FunctionText:
    """The rows of the last square beyond k spill into the next panel, which is written later, or behind the block."""
    name = f"gemm_pack_columns_{shape.element}"
    f = module.function(name, "void", PACK_PARAMETERS, linkage="hidden", attributes="nounwind noinline")
    target, b, _, b_cs, k, columns, most = f.arguments
    panels, lanes, side = Panels(f, shape, columns, most), shape.lanes, min(shape.lanes, SQUARE)
    whole, last = f.bit_and(k, i64(-side)), f.sub(columns, i64(1))
    with f.counted_loop(i64(0), panels.count) as outer:
        start, width = panels.panel(outer.index)
        column, stride = f.mul(start, i64(lanes)), f.mul(width, i64(lanes))
        panel = f.gep(shape.element, target, f.mul(column, k))
        with (
            f.counted_loop(i64(0), k, _TURNED_ROWS) as block,
            f.counted_loop(i64(0), stride, side) as offset,
        ):
            first, write = f.add(column, offset.index), f.gep(shape.element, panel, offset.index)
            # columns beyond the last repeat it
            numbers = [f.minimum(f.add(first, i64(lane)), last) for lane in range(side)]
            lines = [f.gep(shape.element, b, f.mul(number, b_cs)) for number in numbers]
            end = f.add(block.index, i64(_TURNED_ROWS))
            with f.counted_loop(block.index, f.minimum(end, whole), side) as rows:
                _turn_square(f, shape, lines, rows.index, (write, stride), None)
            with f.when(f.bit_and(f.icmp("sge", end, k), f.icmp("slt", whole, k)), "rest"):
                _turn_square(f, shape, lines, whole, (write, stride), f.tail_mask(f.sub(k, whole), side))
    f.ret()
    return f


def _turn_square(
    f: FunctionText,
    shape: GemmShape,
    lines: list[Value],
    row: Value,
    target: tuple[Value, Value],
    mask: Value | None,
) -> None:
    """Some elements of each line from one row on, as rows of a panel that are so far apart."""
    vector = vector_type(len(lines), shape.element)
    addresses = [f.gep(shape.element, line, row) for line in lines]
    square = [f.masked_load(vector, a, mask, zero(vector)) if mask else f.load(vector, a) for a in addresses]
    write = f.gep(shape.element, target[0], f.mul(row, target[1]))
    for value in transpose(f, square):
        f.store(value, write)
        write = f.gep(shape.element, write, target[1])


def transpose(f: FunctionText, square: list[Value]) -> list[Value]:
    """Rows of a square of registers become its columns, by exchanging blocks of halving size."""
    lanes = len(square)
    rows, step = list(square), lanes // 2
    while step:
        upper = [i if not i & step else lanes + i - step for i in range(lanes)]
        lower = [i + step if not i & step else lanes + i for i in range(lanes)]
        for i in range(lanes):
            if not i & step:
                a, b = rows[i], rows[i + step]
                rows[i], rows[i + step] = f.shuffle(a, b, upper), f.shuffle(a, b, lower)
        step //= 2
    return rows


def copy_transposed(module: ModuleText, shape: GemmShape) -> str:
    """For sums that were made as rows and are columns of C, `void (COPY_PARAMETERS)`: square by square, in registers.
    Assumes that rows of both lie together."""
    name = f"gemm_copy_transposed_{shape.element}"
    return module.define(name, lambda: _copy_transposed(module, shape, name))


def _copy_transposed(module: ModuleText, shape: GemmShape, name: str) -> FunctionText:
    f = module.function(name, "void", COPY_PARAMETERS, attributes="nounwind noinline")
    side = min(shape.lanes, SQUARE)
    rows, columns = f.argument("rows"), f.argument("columns")
    whole_rows, whole_columns = f.bit_and(rows, i64(-side)), f.bit_and(columns, i64(-side))
    with f.counted_loop(i64(0), whole_rows, side, "rows") as row:
        with f.counted_loop(i64(0), whole_columns, side, "columns") as column:
            _square(f, shape, row.index, column.index)
        _elements(f, shape, (row.index, f.add(row.index, i64(side))), (whole_columns, columns))
    _elements(f, shape, (whole_rows, rows), (i64(0), columns))
    f.ret()
    return f


def _address(f: FunctionText, shape: GemmShape, which: str, row: Value, column: Value) -> Value:
    offset = f.add(f.mul(row, f.argument(f"{which}_rs")), column)
    return f.gep(shape.element, f.argument(which), offset)


def _square(f: FunctionText, shape: GemmShape, row: Value, column: Value) -> None:
    side = min(shape.lanes, SQUARE)
    kind = vector_type(side, shape.element)
    lines = [_address(f, shape, "source", f.add(column, i64(i)), row) for i in range(side)]
    for i, one in enumerate(transpose(f, [f.load(kind, line) for line in lines])):
        f.store(one, _address(f, shape, "target", f.add(row, i64(i)), column))


def _elements(f: FunctionText, shape: GemmShape, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> None:
    """What is left beside whole squares."""
    with f.counted_loop(*rows, hint="row") as row, f.counted_loop(*columns, hint="column") as column:
        element = f.load(shape.element, _address(f, shape, "source", column.index, row.index))
        f.store(element, _address(f, shape, "target", row.index, column.index))
