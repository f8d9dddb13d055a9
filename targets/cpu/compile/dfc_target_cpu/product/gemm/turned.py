"""Rows by a factor that already lies in panels, as `pack` leaves it: what blocks of rows multiply again and again.

    q[96, 64] @ k[64, 480]     queries, packed once for all columns, by keys, packed once for all blocks of rows

Assumes what `gemm_block` does, and a workspace of `GemmShape.workspace_bytes`. Guarantees one chain of multiply-adds
over ascending k for each element of C, as `gemm` does; the epilogue gets rectangles that cover C, left to right.
"""

from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import FALSE, NULL, i64
from dfc_target_cpu.product.gemm.block import gemm_block
from dfc_target_cpu.product.gemm.pack_left import pack_left_columns, pack_left_rows
from dfc_target_cpu.product.gemm.shape import GemmShape
from dfc_target_cpu.product.gemm.tiles import Panels

TURNED_PARAMETERS = (
    Parameter("ptr", "frame"),
    Parameter("ptr", "epilogue"),
    Parameter("ptr", "a"),
    Parameter("i64", "a_rs"),
    Parameter("i64", "a_cs"),
    Parameter("ptr", "b"),
    Parameter("i64", "lines"),
    Parameter("ptr", "c"),
    Parameter("i64", "c_rs"),
    Parameter("i64", "m"),
    Parameter("i64", "n"),
    Parameter("i64", "k"),
    Parameter("i1", "is_first"),
    Parameter("ptr", "workspace"),
)
"""As those of `gemm`; `b` has `lines` columns, of which the first n are needed. `is_first`: A is another one than at
the last call with this workspace."""
_TOGETHER = 4
"""Panels whose sums the epilogue gets at once: few, so that they are still near, but rows of some length."""


def gemm_turned(module: ModuleText, shape: GemmShape) -> str:
    """`void (TURNED_PARAMETERS)`"""
    name = f"gemm_turned_{shape.element}"
    return module.define(name, lambda: _gemm_turned(module, shape, name))


def _gemm_turned(module: ModuleText, shape: GemmShape, name: str) -> FunctionText:
    f = module.function(name, "void", TURNED_PARAMETERS, linkage="hidden")
    arg, element, lanes = f.argument, shape.element, i64(shape.lanes)
    panels = Panels(f, shape, arg("lines"), i64(shape.vectors))
    packed, a = _left(f, module, shape)
    stop = f.udiv(f.add(arg("n"), f.sub(lanes, i64(1))), lanes)
    with f.counted_loop(i64(0), panels.count, _TOGETHER, "panels") as group:
        begin, _ = panels.panel(group.index)
        last = f.minimum(f.add(group.index, i64(_TOGETHER)), panels.count)
        with f.counted_loop(group.index, last, hint="panel") as panel:
            start, vectors = panels.panel(panel.index)
            with f.when(f.icmp("slt", start, stop), "needed"):
                column, width = f.mul(start, lanes), f.mul(vectors, lanes)
                is_whole = f.icmp("sle", f.add(start, vectors), stop)
                b, c = f.gep(element, arg("b"), f.mul(column, arg("k"))), f.gep(element, arg("c"), column)
                factors = [a, arg("a_rs"), arg("a_cs"), b, width, c, arg("c_rs"), arg("k"), arg("m")]
                how = [f.minimum(width, f.sub(arg("n"), column)), i64(shape.vectors), packed, is_whole, FALSE]
                following = [f.gep(element, b, f.mul(width, arg("k"))), width, arg("k"), width]
                f.call(gemm_block(module, shape), "void", [*factors, *how, *following])
        behind, _ = panels.panel(last)
        columns = [f.minimum(f.mul(one, lanes), arg("n")) for one in (begin, behind)]
        some = f.bit_and(f.icmp("ne", arg("epilogue"), NULL), f.icmp("slt", *columns))
        with f.when(some, "epilogue"):
            f.call_pointer(arg("epilogue"), "void", [arg("frame"), i64(0), arg("m"), *columns])
    f.ret()
    return f


def _left(f: FunctionText, module: ModuleText, shape: GemmShape) -> tuple[Value, Value]:
    """Whether A is packed, and where it lies."""
    arg = f.argument
    along_k, along_m = (f.icmp("eq", arg(stride), i64(1)) for stride in ("a_cs", "a_rs"))
    fits = f.icmp("sle", f.mul(arg("m"), arg("k")), i64(shape.left_elements))
    packed = f.bit_and(f.bit_or(along_k, along_m), fits)
    block = arg("workspace")
    with f.when(f.bit_and(packed, arg("is_first")), "pack"):
        rows, columns, done = f.label("rows"), f.label("columns"), f.label("packed")
        f.branch_if(along_k, rows, columns)
        for label, build, stride in ((rows, pack_left_rows, "a_rs"), (columns, pack_left_columns, "a_cs")):
            f.begin(label)
            f.call(build(module, shape), "void", [block, arg("a"), arg(stride), arg("k"), arg("m")])
            f.branch(done)
        f.begin(done)
    return packed, f.select(packed, block, arg("a"))
