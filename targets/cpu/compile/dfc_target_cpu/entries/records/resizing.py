"""Images in another size, in generated code: `dfc_runtime.records.images.resizing` says what it is called with.

Weights are computed first, a table for each direction. Along rows two pixels of four bytes are a step, whose eight
products are added to eight sums; along columns sixteen bytes of a row are. Guarantees sums of whole numbers, which no
order changes, rounded and limited to a byte. Takes no memory, and reads no byte outside of the image.
"""

from collections.abc import Callable
from typing import TypeAlias

from dfc_runtime.records.images.memory import PIXEL
from dfc_runtime.records.images.resizing import PRECISION, ResizeAxis, ResizeCall
from dfc_target_cpu.entries.context_code import field_address
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value, constant
from dfc_target_cpu.llvm.values import i64

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


def _weights_function(module: ModuleText, copies: int) -> str:
    """`void (ptr axis)`: fills in where the pixels of each result begin, and their weights, so many times each."""
    return module.define(f"resize_weights.{copies}", lambda: _Weights(module, copies).build())


class _Axis:
    """The fields of one direction."""

    def __init__(self, f: FunctionText, address: Value) -> None:
        self.address = address

        def field(name: str, kind: str) -> Value:
            return f.load(kind, field_address(f, ResizeAxis, address, name))

        self.count, self.size, self.taps, self.unit = (field(name, "i64") for name in ("count", "size", "taps", "unit"))
        self.scale, self.support = (field(name, "double") for name in ("scale", "support"))
        self.starts, self.weights = (field(name, "ptr") for name in ("starts", "weights"))


class _Weights:
    """The function that computes weights: each operation is one of Pillow's, in its order."""

    def __init__(self, module: ModuleText, copies: int) -> None:
        formals = (Parameter("ptr", "axis"),)
        self.f = f = module.function("resize_weights", "void", formals, attributes="nounwind noinline")
        self.axis, self.copies = _Axis(f, f.arguments[0]), copies
        self.per_pixel = f.fdiv(_real(1), self.axis.support)

    def build(self) -> FunctionText:
        f, axis = self.f, self.axis
        last = f.sub(axis.count, axis.taps)
        with f.counted_loop(i64(0), axis.size, hint="result") as result:
            centre = f.fmul(f.fadd(f.cast("sitofp", result.index, "double"), _real(0.5)), axis.scale)
            begin = f.maximum(self._whole(f.fsub(centre, axis.support)), i64(0))
            count = f.sub(f.minimum(self._whole(f.fadd(centre, axis.support)), axis.count), begin)
            with f.counted_loop(i64(0), count, hint="pixel") as pixel:
                total = pixel.carry(_real(0))
                pixel.next(total, f.fadd(total, self._triangle(f.add(begin, pixel.index), centre)))
            total = pixel.result(total)
            start = f.minimum(begin, last)
            f.store(f.mul(start, axis.unit), f.gep("i64", axis.starts, result.index))
            row = f.gep("i32", axis.weights, f.mul(result.index, f.mul(axis.taps, i64(self.copies))))
            with f.counted_loop(i64(0), axis.taps, hint="tap") as tap:
                at = f.add(start, tap.index)
                exact = f.fdiv(self._triangle(at, centre), total)
                weight = f.cast("fptosi", f.fadd(_real(0.5), f.fmul(exact, _real(1 << PRECISION))), "i32")
                inside = f.icmp("ult", f.sub(at, begin), count)  # below the beginning it is a large number
                weight = f.select(inside, weight, constant("i32", 0))
                f.store(f.splat(weight, self.copies), f.gep("i32", row, f.mul(tap.index, i64(self.copies))), align=4)
        f.ret()
        return f

    def _whole(self, position: Value) -> Value:
        """Pillow's rounding: half a pixel more, and what is behind the point left out."""
        return self.f.cast("fptosi", self.f.fadd(position, _real(0.5)), "i64")

    def _triangle(self, pixel: Value, centre: Value) -> Value:
        f = self.f
        distance = f.fadd(f.fsub(f.cast("sitofp", pixel, "double"), centre), _real(0.5))
        distance = f.intrinsic("fabs", f.fmul(distance, self.per_pixel))
        return f.select(f.fcmp("olt", distance, _real(1)), f.fsub(_real(1), distance), _real(0))


class _Resize:
    """The function that resizes."""

    def __init__(self, module: ModuleText) -> None:
        formals = (Parameter("ptr", "call"),)
        self.f = f = module.function("resize_image", "void", formals, attributes="nounwind noinline")
        call = f.arguments[0]
        self.source, self.between, self.target = (
            f.load("ptr", field_address(f, ResizeCall, call, name)) for name in ("source", "between", "target")
        )
        for name, copies in (("columns", PIXEL), ("rows", 1)):
            f.call(_weights_function(module, copies), "void", [field_address(f, ResizeCall, call, name)])
        self.columns, self.rows = (_Axis(f, field_address(f, ResizeCall, call, name)) for name in ("columns", "rows"))
        self.pitch = f.mul(self.columns.size, i64(PIXEL))

    def build(self) -> FunctionText:
        self._along_rows()
        self._along_columns()
        self.f.ret()
        return self.f

    def _along_rows(self) -> None:
        f, rows = self.f, self.rows.count
        blocks = f.lshr(rows, i64(2))
        with f.counted_loop(i64(0), blocks, hint="block") as block:
            self._rows_from(f.shl(block.index, i64(2)), ROWS)
        with f.counted_loop(f.shl(blocks, i64(2)), rows, hint="row") as row:
            self._rows_from(row.index, 1)

    def _rows_from(self, row: Value, count: int) -> None:
        """Some rows at once, with the same weights."""
        f, axis = self.f, self.columns
        stride = f.mul(axis.count, i64(PIXEL))
        sources = [f.gep("i8", self.source, f.mul(f.add(row, i64(at)), stride)) for at in range(count)]
        targets = [f.gep("i8", self.between, f.mul(f.add(row, i64(at)), self.pitch)) for at in range(count)]
        pairs = f.lshr(axis.taps, i64(1))
        weight_bytes = f.mul(axis.taps, i64(4 * PIXEL))
        with f.counted_loop(i64(0), axis.size, hint="column") as column:
            start = f.load("i64", f.gep("i64", axis.starts, column.index))
            weights = f.gep("i8", axis.weights, f.mul(column.index, weight_bytes))

            def step(tap: Value) -> tuple[list[Value], Value]:
                at = f.add(start, f.shl(tap, i64(3)))
                pixels = [f.load(f"<{2 * PIXEL} x i8>", f.gep("i8", source, at), align=1) for source in sources]
                return pixels, f.load(f"<{2 * PIXEL} x i32>", f.gep("i8", weights, f.shl(tap, i64(5))), align=4)

            for total, target in zip(self._sums(pairs, 2 * PIXEL, count, step), targets, strict=True):
                low, high = (f.shuffle(total, total, range(at, at + PIXEL)) for at in (0, PIXEL))
                f.store(self._rounded(f.add(low, high)), f.gep("i8", target, f.shl(column.index, i64(2))), align=1)

    def _along_columns(self) -> None:
        f, axis, width = self.f, self.rows, self.columns.size
        groups = f.lshr(self.pitch, i64(4))
        with f.counted_loop(i64(0), axis.size, hint="line") as line:
            first = f.gep("i8", self.between, f.load("i64", f.gep("i64", axis.starts, line.index)))
            weights = f.gep("i32", axis.weights, f.mul(line.index, axis.taps))
            target = f.gep("i8", self.target, f.mul(line.index, f.mul(width, i64(COLOURS))))
            with f.counted_loop(i64(0), groups, hint="group") as group:
                result = self._column_sum(f.gep("i8", first, f.shl(group.index, i64(4))), weights, LANES)
                colours = [lane for lane in range(LANES) if lane % PIXEL < COLOURS]
                at = f.gep("i8", target, f.mul(group.index, i64(len(colours))))
                f.store(f.shuffle(result, result, colours), at, align=1)
            with f.counted_loop(f.shl(groups, i64(2)), width, hint="pixel") as pixel:
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

        (total,) = self._sums(self.rows.taps, lanes, 1, step)
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


def _real(number: float) -> Value:
    return constant("double", number)
