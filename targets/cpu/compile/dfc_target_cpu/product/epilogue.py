"""The epilogue of a contraction: a function over finished rectangles of a product.

Rectangles reach it through a tile record of 8-byte words: context, frame, address of the sums, their row stride, number
of the first row and column, then the batch indices.
"""

from dfc.kernels.contractions import Product
from dfc_target_cpu.elementwise.accesses import Point
from dfc_target_cpu.elementwise.body import BodyCode
from dfc_target_cpu.elementwise.loop_schedule import lanes_along
from dfc_target_cpu.elementwise.loops import vector_loop
from dfc_target_cpu.entries.frames import FrameFunction, Lowering
from dfc_target_cpu.llvm.text import Parameter, Value
from dfc_target_cpu.llvm.values import i64, vector_type

RECORD = ("context", "frame", "sums", "stride", "row", "column")
TILE = (Parameter("ptr", "tile"),)
RECTANGLE = tuple(Parameter("i64", name) for name in ("row0", "row1", "column0", "column1"))


class Epilogue(FrameFunction):
    """`void epilogue_<n>(tile, row0, row1, column0, column1)`: the body at each finished point of a rectangle."""

    def __init__(self, lowering: Lowering, p: Product, number: int) -> None:
        self.p = p
        super().__init__(lowering, p.kernel, f"epilogue_{number}", RECTANGLE, head=TILE)

    def find_frame(self) -> tuple[Value, Value]:
        return self._word("context"), self._word("frame")

    def _word(self, name: str, kind: str = "ptr") -> Value:
        return self.f.load(kind, self.f.gep("i64", self.f.arguments[0], i64(RECORD.index(name))))

    def build(self) -> str:
        p, f = self.p, self.f
        sums, stride = self._word("sums"), self._word("stride", "i64")
        row_origin, column_origin = self._word("row", "i64"), self._word("column", "i64")
        words = [f.gep("i64", f.arguments[0], i64(len(RECORD) + axis)) for axis in range(p.kernel.m)]
        batch = [f.load("i64", word) for word in words]
        row0, row1, column0, column1 = f.arguments[1:]
        site = self.site()
        order = (*range(p.kernel.m), p.kernel.m, p.kernel.n)
        body = BodyCode(
            site,
            p.kernel.epilogue,
            p.epilogue,
            order,
            p.kernel.n,
            outer_levels=len(order),
            outer_varies=True,
            written=frozenset(),
        )
        lanes = lanes_along(p.kernel.epilogue, p.epilogue, p.kernel.n, self.lowering.machine)
        point = Point(p.kernel.n, lanes, indices=dict(enumerate(batch)))
        for level in range(p.kernel.m + 1):
            body.emit(level, point)
        with f.counted_loop(row0, row1, hint="row") as loop:
            line = f.gep(p.element, sums, f.mul(loop.index, stride))
            in_row = point.inner(p.kernel.m, f.add(row_origin, loop.index))
            body.emit(p.kernel.m + 1, in_row)

            def emit(column: Value, mask: Value | None, _: Value) -> None:
                self._at(
                    body, in_row.inner(p.kernel.n, f.add(column_origin, column), mask), f.gep(p.element, line, column)
                )

            vector_loop(f, column0, column1, lanes, 1, emit)
        return self.finish()

    def _at(self, body: BodyCode, point: Point, address: Value) -> None:
        """One vector of finished sums."""
        f, kind = self.f, vector_type(point.lanes, self.p.element)
        nothing = body.all_lanes(point, Value(self.p.element, "0.0"))
        point.accumulated = (
            f.load(kind, address) if point.mask is None else f.masked_load(kind, address, point.mask, nothing)
        )
        body.emit(self.p.kernel.n + 1, point)
        for store, access in zip(self.p.kernel.stores, self.p.epilogue.stores, strict=True):
            body.store(point, access, body.stored(store.value, point), store.combine)
