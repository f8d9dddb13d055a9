"""Products with few columns: tiles as wide as these, so that the first factor, which is large, is read once, in place.

    p[96, 1024] @ v[1024, 64]     rows of scores by values: tiles of 6 x 64 over 128 rows of v, then the next 128

Assumes contiguous rows of both factors and of C, columns that are a multiple of `narrow_columns`, and 32 vector
registers. Guarantees one chain of multiply-adds over ascending k for each element of C, as `gemm` does.
"""

from dataclasses import replace

from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter
from dfc_target_cpu.llvm.values import NULL, i64
from dfc_target_cpu.product.gemm.kernel import gemm_kernel
from dfc_target_cpu.product.gemm.shape import GemmShape
from dfc_target_cpu.product.gemm.tiles import RowTiles

NARROW_PARAMETERS = (
    Parameter("ptr", "frame"),
    Parameter("ptr", "epilogue"),
    Parameter("ptr", "a"),
    Parameter("i64", "a_rs"),
    Parameter("ptr", "b"),
    Parameter("i64", "b_rs"),
    Parameter("ptr", "c"),
    Parameter("i64", "c_rs"),
    Parameter("i64", "m"),
    Parameter("i64", "n"),
    Parameter("i64", "k"),
)
"""As those of `gemm`; k is at least 1."""
_ROWS, _VECTORS = 6, 4
"""A tile: 24 sums, and six elements of A for four vectors of B."""
_NEAR_BYTES = 1 << 15
"""Rows of B that stay in the nearest cache while all rows of A are multiplied with them."""


def has_narrow(shape: GemmShape) -> bool:
    """Whether there are registers for the tile, and masks for its kernels."""
    return shape.has_masks


def narrow_columns(shape: GemmShape) -> int:
    """Columns of a tile."""
    return _VECTORS * shape.lanes


def narrow(module: ModuleText, shape: GemmShape) -> str:
    """`void (NARROW_PARAMETERS)`"""
    name = f"gemm_narrow_{shape.element}"
    return module.define(name, lambda: _narrow(module, shape, name))


def _narrow(module: ModuleText, shape: GemmShape, name: str) -> FunctionText:
    f = module.function(name, "void", NARROW_PARAMETERS, linkage="hidden")
    arg, columns = f.argument, narrow_columns(shape)
    tall = replace(shape, rows=_ROWS)
    tiles = RowTiles(f, tall, arg("m"))
    step = i64(_NEAR_BYTES // (columns * shape.element_bytes))
    with f.counted_loop(i64(0), arg("n"), columns, "panel") as panel, f.counted_loop(i64(0), arg("k"), step, "k") as k:
        depth, more = f.minimum(step, f.sub(arg("k"), k.index)), f.icmp("sgt", k.index, i64(0))
        b = f.gep(shape.element, arg("b"), f.add(f.mul(k.index, arg("b_rs")), panel.index))
        with f.counted_loop(i64(0), tiles.count, hint="tile") as tile:
            row, height = tiles.tile(tile.index)
            a = f.gep(shape.element, arg("a"), f.add(f.mul(row, arg("a_rs")), k.index))
            c = f.gep(shape.element, arg("c"), f.add(f.mul(row, arg("c_rs")), panel.index))
            operands = [a, arg("a_rs"), i64(1), b, arg("b_rs"), c, arg("c_rs"), depth, i64(shape.lanes), more]
            done, impossible = f.label("done"), f.label("impossible")
            cases = [(rows, f.label("rows")) for rows in tall.heights]
            f.switch(height, impossible, cases)
            for rows, label in cases:
                f.begin(label)
                f.call(gemm_kernel(module, shape, rows, _VECTORS), "void", operands)
                f.branch(done)
            f.begin(impossible)
            f.unreachable()
            f.begin(done)
    with f.when(f.icmp("ne", arg("epilogue"), NULL), "epilogue"):
        bounds = [i64(0), arg("m"), i64(0), arg("n")]
        f.call_pointer(arg("epilogue"), "void", [arg("frame"), *bounds])
    f.ret()
    return f
