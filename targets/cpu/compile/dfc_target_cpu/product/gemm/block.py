"""One block of the matrix product: its panels of B, and for each of them its tiles of A; each pair is a micro-kernel.

Assumes rows and columns of C that are not empty and a depth of at least 1. Factors lie packed as `pack` and
`pack_left` leave them, or where they are.
"""

from collections.abc import Callable
from functools import partial

from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i64
from dfc_target_cpu.product.gemm.kernel import KERNEL_PARAMETERS, UNROLLED, gemm_kernel, lines_kernel, packed_kernel
from dfc_target_cpu.product.gemm.shape import GemmShape
from dfc_target_cpu.product.gemm.tiles import Panels, RowTiles

_BLOCK_PARAMETERS = (
    *KERNEL_PARAMETERS[:8],
    *(Parameter("i64", x) for x in ("rows", "columns", "most")),
    *(Parameter("i1", x) for x in ("a_packed", "b_packed", "accumulate")),
    Parameter("ptr", "next"),
    *(Parameter("i64", x) for x in ("next_stride", "next_lines", "next_length")),
)
"""`next`: so many lines of so many elements each, which are packed after this block. They are brought into the cache
while this one is multiplied; if there are no lines, the following panel of a packed B is."""


def gemm_block(module: ModuleText, shape: GemmShape) -> str:
    """`void (_BLOCK_PARAMETERS)`; `most`: vectors of the widest panel."""
    name = f"gemm_block_{shape.element}"
    return module.define(name, lambda: _Block(module, name, shape).build())


class _Block:
    def __init__(self, module: ModuleText, name: str, shape: GemmShape) -> None:
        self.module, self.shape = module, shape
        self.f = module.function(name, "void", _BLOCK_PARAMETERS, attributes="nounwind noinline")

    def build(self) -> FunctionText:
        f, arg, shape = self.f, self.f.argument, self.shape
        panels = Panels(f, shape, arg("columns"), arg("most"))
        tiles = RowTiles(f, shape, arg("rows"))
        self.wide, self.panels = i64(shape.vectors * shape.lanes), panels
        self.share = f.maximum(f.udiv(arg("k"), i64(UNROLLED)), i64(1))
        self.shares = f.maximum(f.udiv(f.add(arg("next_lines"), f.sub(self.share, i64(1))), self.share), i64(1))
        with f.counted_loop(i64(0), panels.count, hint="panel") as panel:
            start, vectors = panels.panel(panel.index)
            column, width = f.mul(start, i64(shape.lanes)), f.mul(vectors, i64(shape.lanes))
            offset = f.select(arg("b_packed"), f.mul(column, arg("k")), column)
            b = f.gep(shape.element, arg("b"), offset)
            b_rs = f.select(arg("b_packed"), width, arg("b_rs"))
            beyond = f.sub(f.add(column, width), arg("columns"))
            last = f.sub(i64(shape.lanes), f.maximum(beyond, i64(0)))
            c = f.gep(shape.element, arg("c"), column)
            reached = [panel.carry(i64(0)), panel.carry(i64(0))]
            with f.counted_loop(i64(0), tiles.count, hint="tile") as tile:
                stretch, piece = (tile.carry(one) for one in reached)
                row, height = tiles.tile(tile.index)
                a, a_rs, a_cs = self._left(row, height)
                at = f.gep(shape.element, c, f.mul(row, arg("c_rs")))
                operands = [a, a_rs, a_cs, b, b_rs, at, arg("c_rs"), arg("k"), last, arg("accumulate")]
                quarter = partial(self._quarter_of_panel, panel.index, tile.index, a)
                following = self._share_of_next(stretch, piece, quarter, a)
                self._dispatch(height, vectors, operands, following)
                behind = f.add(piece, i64(1))
                is_last = f.icmp("sge", behind, self.shares)
                tile.next(stretch, f.select(is_last, f.add(stretch, i64(1)), stretch))
                tile.next(piece, f.select(is_last, i64(0), behind))
            panel.next(reached[0], tile.result(stretch))
            panel.next(reached[1], tile.result(piece))
        f.ret()
        return f

    def _left(self, row: Value, height: Value) -> tuple[Value, Value, Value]:
        """Where a tile of A lies, and its strides."""
        f, arg = self.f, self.f.argument
        packed = arg("a_packed")
        a = f.gep(self.shape.element, arg("a"), f.mul(row, f.select(packed, arg("k"), arg("a_rs"))))
        return a, f.select(packed, i64(1), arg("a_rs")), f.select(packed, height, arg("a_cs"))

    def _share_of_next(self, stretch: Value, piece: Value, panel: Callable[[], Value], unused: Value) -> list[Value]:
        """What one kernel brings into the cache: a stretch of some lines, then the same one of others, and so on; or a
        piece of the following panel. Both are counted from tile to tile: a division takes as long as eighty
        multiply-adds of vectors."""
        f, arg = self.f, self.f.argument

        def address() -> Value:
            start, line = f.mul(stretch, self.wide), f.mul(piece, self.share)
            offset = f.add(start, f.mul(line, arg("next_stride")))
            is_needed = f.icmp("slt", start, arg("next_length"))
            return f.select(is_needed, f.gep(self.shape.element, arg("next"), offset), unused)

        has_lines = f.icmp("sgt", arg("next_length"), i64(0))
        chosen = f.choose(has_lines, address, panel, "next")
        stride = f.select(has_lines, arg("next_stride"), self.wide)
        return [chosen, f.select(f.icmp("eq", chosen, unused), i64(0), stride)]

    def _quarter_of_panel(self, panel: Value, tile: Value, unused: Value) -> Value:
        """The first tiles of a panel each bring a piece of the one behind it, or after the last one of the first: the
        block lies in a far cache, and its first reader would wait for it."""
        f, arg, shape = self.f, self.f.argument, self.shape
        behind = f.add(panel, i64(1))
        start, _ = self.panels.panel(f.select(f.icmp("slt", behind, self.panels.count), behind, i64(0)))
        first = f.mul(f.mul(start, i64(shape.lanes)), arg("k"))
        piece = f.mul(f.mul(self.share, tile), self.wide)
        is_early = f.bit_and(f.icmp("slt", tile, i64(UNROLLED)), f.icmp("sgt", self.panels.count, i64(1)))
        return f.select(is_early, f.gep(shape.element, arg("b"), f.add(first, piece)), unused)

    def _dispatch(self, height: Value, vectors: Value, operands: list[Value], following: list[Value]) -> None:
        f = self.f
        done, impossible = f.label("done"), f.label("impossible")
        lines = f.select(f.icmp("eq", f.argument("a_cs"), i64(1)), i64(512), i64(0))
        base = f.select(f.argument("b_packed"), f.select(f.argument("a_packed"), i64(256), lines), i64(0))
        cases = [(numbers, kernel, more, f.label("tile")) for numbers, kernel, more in self._kernels(following)]
        choice = f.add(f.add(f.shl(vectors, i64(4)), height), base)
        f.switch(choice, impossible, [(number, label) for numbers, _, _, label in cases for number in numbers])
        for _, kernel, more, label in cases:
            f.begin(label)
            f.call(kernel, "void", [*operands, *more])
            f.branch(done)
        f.begin(impossible)
        f.unreachable()
        f.begin(done)

    def _kernels(self, following: list[Value]) -> list[tuple[list[int], str, list[Value]]]:
        """Every micro-kernel, the choices that lead to it (16 * vectors + rows, and 256 more if both factors are
        packed), and what it gets besides operands."""
        kernels: list[tuple[list[int], str, list[Value]]] = []
        own = self.shape.packed_tiles()
        for rows, vectors in self.shape.tiles():
            number = 16 * vectors + rows
            has_own = (rows, vectors) in own
            plain = [number] if has_own else [number, number + 256, number + 512]
            kernels.append((plain, gemm_kernel(self.module, self.shape, rows, vectors), []))
            if has_own:
                kernels.append(([number + 256], packed_kernel(self.module, self.shape, rows, vectors), following))
                kernels.append(([number + 512], lines_kernel(self.module, self.shape, rows, vectors), following))
        return kernels
