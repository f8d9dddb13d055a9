"""Images in another size, in generated code: `dfc_runtime.records.images.resizing` says what it is called with.

Along rows two pixels of four bytes are a step, whose eight products are added to eight sums; along columns sixteen
bytes of a row are. Guarantees sums of whole numbers, which no order changes, rounded and limited to a byte. Takes no
memory, and reads no byte outside of the pixels that have weights.
"""

from collections.abc import Callable
from typing import TypeAlias

from dfc_driver_cpu.context import llvm_type_of
from dfc_runtime.records.images.resizing import CALL_FIELDS, PIXEL, PRECISION, ResizeCall
from dfc_target_cpu.entries.context_code import field_address
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import constant, i64

LANES = 16
"""Bytes of a row that are a step along columns."""
COLOURS = PIXEL - 1
ROWS = 4
"""Rows that are resized at once, a power of two: their weights are read once."""
Step: TypeAlias = Callable[[Value], tuple[list[Value], Value]]
"""Bytes of each sum and the weights of all, by the number of the step."""


def resize_function(module: ModuleText) -> str:
    """`void (ptr call)`."""
    return module.define("resize_image", lambda: _Resize(module).build())


class _Resize:
    """The function on its way."""

    def __init__(self, module: ModuleText) -> None:
        self.f = f = module.function(
            "resize_image", "void", (Parameter("ptr", "call"),), attributes="nounwind noinline"
        )
        self.call = {
            name: f.load(llvm_type_of(ResizeCall, name), field_address(f, ResizeCall, f.arguments[0], name))
            for name in CALL_FIELDS
        }
        self.pitch = f.mul(self.call["width"], i64(PIXEL))

    def build(self) -> FunctionText:
        self._along_rows()
        self._along_columns()
        self.f.ret()
        return self.f

    def _along_rows(self) -> None:
        f, rows = self.f, self.call["rows"]
        blocks = f.lshr(rows, i64(2))
        with f.counted_loop(i64(0), blocks, hint="block") as block:
            self._rows_from(f.shl(block.index, i64(2)), ROWS)
        with f.counted_loop(f.shl(blocks, i64(2)), rows, hint="row") as row:
            self._rows_from(row.index, 1)

    def _rows_from(self, row: Value, count: int) -> None:
        """Some rows at once, with the same weights."""
        f, call = self.f, self.call
        sources = [f.gep("i8", call["source"], f.mul(f.add(row, i64(at)), call["stride"])) for at in range(count)]
        targets = [f.gep("i8", call["between"], f.mul(f.add(row, i64(at)), self.pitch)) for at in range(count)]
        pairs = f.lshr(call["column_taps"], i64(1))
        weight_bytes = f.mul(call["column_taps"], i64(4 * PIXEL))
        with f.counted_loop(i64(0), call["width"], hint="column") as column:
            start = f.load("i64", f.gep("i64", call["column_starts"], column.index))
            weights = f.gep("i8", call["column_weights"], f.mul(column.index, weight_bytes))

            def step(tap: Value) -> tuple[list[Value], Value]:
                at = f.add(start, f.shl(tap, i64(3)))
                pixels = [f.load(f"<{2 * PIXEL} x i8>", f.gep("i8", source, at), align=1) for source in sources]
                return pixels, f.load(f"<{2 * PIXEL} x i32>", f.gep("i8", weights, f.shl(tap, i64(5))), align=4)

            for total, target in zip(self._sums(pairs, 2 * PIXEL, count, step), targets, strict=True):
                low, high = (f.shuffle(total, total, range(at, at + PIXEL)) for at in (0, PIXEL))
                f.store(self._rounded(f.add(low, high)), f.gep("i8", target, f.shl(column.index, i64(2))), align=1)

    def _along_columns(self) -> None:
        f, call = self.f, self.call
        groups = f.lshr(self.pitch, i64(4))
        pixels = f.shl(groups, i64(2))
        with f.counted_loop(i64(0), call["height"], hint="line") as line:
            first = f.gep("i8", call["between"], f.load("i64", f.gep("i64", call["row_starts"], line.index)))
            weights = f.gep("i32", call["row_weights"], f.mul(line.index, call["row_taps"]))
            target = f.gep("i8", call["target"], f.mul(line.index, f.mul(call["width"], i64(COLOURS))))
            with f.counted_loop(i64(0), groups, hint="group") as group:
                result = self._column_sum(f.gep("i8", first, f.shl(group.index, i64(4))), weights, LANES)
                colours = [lane for lane in range(LANES) if lane % PIXEL < COLOURS]
                at = f.gep("i8", target, f.mul(group.index, i64(len(colours))))
                f.store(f.shuffle(result, result, colours), at, align=1)
            with f.counted_loop(pixels, call["width"], hint="pixel") as pixel:
                result = self._column_sum(f.gep("i8", first, f.shl(pixel.index, i64(2))), weights, PIXEL)
                for colour in range(COLOURS):
                    at = f.gep("i8", target, f.add(f.mul(pixel.index, i64(COLOURS)), i64(colour)))
                    f.store(f.extract(result, colour), at)

    def _column_sum(self, first: Value, weights: Value, lanes: int) -> Value:
        """So many bytes of a row of the result."""
        f = self.f

        def step(tap: Value) -> tuple[list[Value], Value]:
            bytes_ = f.load(f"<{lanes} x i8>", f.gep("i8", first, f.mul(tap, self.pitch)), align=1)
            return [bytes_], f.splat(f.load("i32", f.gep("i32", weights, tap)), lanes)

        (total,) = self._sums(self.call["row_taps"], lanes, 1, step)
        return self._rounded(total)

    def _sums(self, taps: Value, lanes: int, count: int, step: Step) -> list[Value]:
        """Sums of so many products of bytes and weights, `count` of them side by side."""
        f, kind = self.f, f"<{lanes} x i32>"
        with f.counted_loop(i64(0), taps, hint="tap") as loop:
            totals = [loop.carry(constant(kind, 0)) for _ in range(count)]
            pixels, weights = step(loop.index)
            for total, bytes_ in zip(totals, pixels, strict=True):
                loop.next(total, f.add(total, f.mul(f.cast("zext", bytes_, kind), weights)))
        return [loop.result(total) for total in totals]

    def _rounded(self, total: Value) -> Value:
        """Bytes of sums."""
        f, kind = self.f, total.type
        whole = f.lshr(f.add(total, constant(kind, 1 << (PRECISION - 1))), constant(kind, PRECISION))
        return f.cast("trunc", f.minimum(whole, constant(kind, 255), signed=False), kind.replace("i32", "i8"))
