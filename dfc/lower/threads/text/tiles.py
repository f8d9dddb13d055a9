"""Tiles of a product as kernel text: loads of a factor into registers, from there to shared memory, and the sums.

Assumes a block of `Tiling.threads` threads. Guarantees accesses within the factors' bounds: rows and columns behind the
last are read from the last (their sums are never stored), and so is depth behind the end (it is never added).
"""

from __future__ import annotations

from collections.abc import Callable

from dfc.ir.dims import Dim, is_multiple
from dfc.kernels.printer import slot
from dfc.lower.threads.text.functions import cast
from dfc.lower.threads.text.lines import Lines, Sizes, total
from dfc.lower.threads.text.points import Point, linear
from dfc.lower.threads.text.types import computing_type, is_half, memory_type, widened, zero_in_memory
from dfc.lower.threads.text.windows import MapReader
from dfc.lower.threads.tiles import Factor, Tiled

_WORD = 16


def below(value: str, extent: Dim, step: int, sizes: Sizes) -> str:
    """A position, or where it lies behind the end, that of the last `step` elements."""
    return f"min({value}, {sizes.text(extent - step)})"


class FactorLoads:
    """Moves one factor, block of depth by block of depth."""

    def __init__(self, product: Tiled, factor: Factor, name: str, lines: Lines, sizes: Sizes) -> None:
        self.product, self.factor, self.name, self.lines, self.sizes = product, factor, name, lines, sizes
        tiling = product.tiling
        self.vectors = factor.tile * tiling.k // factor.vector
        self.passes = -(-self.vectors // tiling.threads)
        self.exact = self.vectors % tiling.threads == 0
        self.kind = computing_type(product.kernel.accumulator)
        self.memory = f"tile_{name}"
        self.windows = None if factor.map.is_strided else MapReader(product, factor, name, lines, sizes)

    def declare(self) -> list[str]:
        """Shared memory for two blocks of depth: one is filled while the other is read."""
        return [f"{self.memory} = shared_{self.kind}({2 * self.block})"]

    @property
    def block(self) -> int:
        """Elements of one block in shared memory."""
        return self.product.tiling.k * self.factor.stride

    def begin(self) -> None:
        """Where each pass of a thread lies in a block: the same for all blocks."""
        factor, lines = self.factor, self.lines
        inner = (self.product.tiling.k if factor.along_k else factor.tile) // factor.vector
        for number in range(self.passes):
            element = lines.let(f"t + {number * self.product.tiling.threads}" if number else "t", "q")
            low = lines.let(f"{element} & {inner - 1}", "q")
            high = lines.let(f"{element} >> {inner.bit_length() - 1}", "q")
            low = lines.let(f"{low} * {factor.vector}", "q") if factor.vector > 1 else low
            depth, row = (low, high) if factor.along_k else (high, low)
            lines.add(f"{self._of('depth', number)} = {depth}")
            lines.add(f"{self._of('row', number)} = {row}")
            lines.add(f"{self._of('to', number)} = {self.in_block(depth, row)}")

    def in_block(self, depth: str, row: str) -> str:
        """Where an element lies in a block in shared memory."""
        return total([(str(self.factor.stride), depth), ("1", row)])

    def _of(self, what: str, number: int) -> str:
        return f"{self.name}_{what}{number}"

    def _register(self, number: int, lane: int) -> str:
        return f"{self.name}_{number}_{lane}"

    def start(self, first_row: str, point: Point) -> None:
        """The tile's rows begin at `first_row`: where each pass starts in memory, at depth 0."""
        factor, lines, sizes = self.factor, self.lines, self.sizes
        coefficients = factor.access.coefficients
        batch = list(enumerate(coefficients))[: self.product.kernel.m]
        base = lines.let(linear(sizes, point, 0, batch, factor.access.offset), "base") if self.windows is None else ""
        extent = self.product.extents[factor.row]
        for number in range(self.passes):
            row = f"{first_row} + {self._of('row', number)}"
            step = 1 if factor.along_k else factor.vector
            if not is_multiple(extent, factor.tile):
                row = below(row, extent, step, sizes)
            row = lines.let(row, "row")
            if self.windows is not None:
                self.windows.start(number, row, point)
            else:
                stride = sizes.text(coefficients[factor.row])
                lines.add(f"{self._of('at', number)} = {total([('1', base), (stride, row)])}")
            for lane in range(self.registers):
                lines.add(f"{self._register(number, lane)} = {self.register_type}(0)")

    def fetch(self, depth: str, end: str, *, exact: bool) -> None:
        """The block of depth that begins at `depth`, into registers."""
        factor, lines = self.factor, self.lines
        step = factor.vector if factor.along_k else 1
        for number in range(self.passes):
            with lines.guarded(self._on(number)):
                position = f"{depth} + {self._of('depth', number)}"
                if not exact:
                    position = f"min({position}, {end} - {step})"
                pointer_text, condition = self._element_of(number, lines.let(position, "k"))
                names = [self._register(number, lane) for lane in range(self.registers)]
                if condition and factor.vector == 1:
                    lines.add(f"{names[0]} = {self._load_if(pointer_text, condition)}")
                    continue
                for name in names if condition else ():
                    lines.add(f"{name} = {self.register_type}(0)")
                with lines.guarded(condition):
                    lines.add(f"{', '.join(names)} = {self._load(pointer_text)}")

    def _element_of(self, number: int, depth: str) -> tuple[str, str]:
        """Where a pass reads at a position of depth, and when; elsewhere the factor is zero."""
        if self.windows is not None:
            return self.windows.at(number, depth)
        stride = self.sizes.text(self.factor.access.coefficients[self.product.kernel.k])
        return total([("1", self._of("at", number)), (stride, depth)]), ""

    @property
    def registers(self) -> int:
        """Variables that hold what a thread loads in one pass."""
        return self.factor.vector

    @property
    def register_type(self) -> str:
        return memory_type(self.factor.dtype)

    def _load(self, source_text: str) -> str:
        operand, vector = slot(self.factor.access.operand), self.factor.vector
        if vector == 1:
            return f"{operand}[{source_text}]"
        return f"load{vector}_{memory_type(self.factor.dtype)}({operand}, {source_text})"

    def _load_if(self, source_text: str, condition: str) -> str:
        dtype = self.factor.dtype
        kind, operand = memory_type(dtype), slot(self.factor.access.operand)
        return f"{kind}_load_if({operand}, {source_text}, {condition}, {zero_in_memory(dtype)})"

    def _on(self, number: int) -> str:
        """Whether a thread has something to load in a pass: each has in all, or some have not in the last."""
        if self.exact or number < self.passes - 1:
            return ""
        return f"t < {self.vectors - number * self.product.tiling.threads}"

    def put(self, buffer: str) -> None:
        """Registers to shared memory, as what the sums are made of."""
        lines = self.lines
        for number in range(self.passes):
            with lines.guarded(self._on(number)):
                values = [self._converted(self._register(number, lane)) for lane in range(self.registers)]
                target = lines.let(f"{buffer} * {self.block} + {self._of('to', number)}", "to")
                self._store(values, target)

    def _converted(self, raw: str) -> str:
        dtype, target = self.factor.dtype, self.product.kernel.accumulator
        value = widened(raw, dtype)
        return value if is_half(dtype) and target.name == "f32" else cast(value, dtype, target)

    def _store(self, values: list[str], target: str) -> None:
        factor, lines = self.factor, self.lines
        if factor.along_k:
            for lane, value in enumerate(values):
                lines.add(f"{self.memory}[{total([('1', target), (str(lane * factor.stride), '1')])}] = {value}")
            return
        count = min(factor.vector, _WORD // self.product.kernel.accumulator.size)
        for first in range(0, len(values), count):
            where = total([("1", target), (str(first), "1")])
            if count == 1:
                lines.add(f"{self.memory}[{where}] = {values[first]}")
            else:
                group = ", ".join(values[first : first + count])
                lines.add(f"store{count}_{self.kind}({self.memory}, {where}, {group})")


class Sums:
    """The sums of one thread: groups of neighbouring rows and columns, so that 16 bytes are read at once."""

    def __init__(self, product: Tiled, lines: Lines) -> None:
        self.product, self.tiling, self.lines = product, product.tiling, lines
        self.accumulator = accumulator = product.kernel.accumulator
        tiling = product.tiling
        self.kind = computing_type(accumulator)
        lanes = _WORD // accumulator.size
        self.rows_together = min(lanes, tiling.thread_m)
        self.columns_together = min(lanes, tiling.thread_n)

    def begin(self) -> None:
        """Which rows and columns a thread has: groups lie `tile / groups` apart."""
        across = self.tiling.across
        self.lines.add(f"my_row = (t >> {across.bit_length() - 1}) * {self.rows_together}")
        self.lines.add(f"my_column = (t & {across - 1}) * {self.columns_together}")

    def row(self, number: int) -> int:
        """The tile's row of a thread's row, counted from `my_row`."""
        return _distributed(number, self.rows_together, self.tiling.m, self.tiling.thread_m)

    def column(self, number: int) -> int:
        return _distributed(number, self.columns_together, self.tiling.n, self.tiling.thread_n)

    def name(self, row: int, column: int) -> str:
        return f"sum_{row}_{column}"

    def names(self) -> list[str]:
        return [self.name(i, j) for i in range(self.tiling.thread_m) for j in range(self.tiling.thread_n)]

    def clear(self) -> None:
        zero = f"{self.kind}({'0.0' if self.accumulator.is_float else '0'})"
        for name in self.names():
            self.lines.add(f"{name} = {zero}")

    def add(self, a: FactorLoads, b: FactorLoads, buffer: str, depth: str) -> None:
        """The products of one block of depth, in ascending order."""
        lines = self.lines
        from_a = lines.let(f"{buffer} * {a.block} + my_row", "from_a")
        from_b = lines.let(f"{buffer} * {b.block} + my_column", "from_b")
        with lines.counted(depth, "step") as step:
            from_a = lines.let(f"{from_a} + {step} * {a.factor.stride}", "at")
            from_b = lines.let(f"{from_b} + {step} * {b.factor.stride}", "at")
            rows = self._read(a, from_a, "x", self.tiling.thread_m, self.rows_together, self.row)
            columns = self._read(b, from_b, "y", self.tiling.thread_n, self.columns_together, self.column)
            for i, x in enumerate(rows):
                for j, y in enumerate(columns):
                    lines.add(f"{self.name(i, j)} = {self._sum(self.name(i, j), x, y)}")

    def _read(
        self, source: FactorLoads, start: str, stem: str, count: int, together: int, offset_of: Callable[[int], int]
    ) -> list[str]:
        names = [f"{stem}{number}" for number in range(count)]
        for first in range(0, count, together):
            where = total([("1", start), (str(offset_of(first)), "1")])
            group = ", ".join(names[first : first + together])
            one = f"{source.memory}[{where}]"
            self.lines.add(
                f"{group} = " + (f"load{together}_{self.kind}({source.memory}, {where})" if together > 1 else one)
            )
        return names

    def _sum(self, so_far: str, x: str, y: str) -> str:
        if self.accumulator.is_float:
            return f"{self.kind}_fma({x}, {y}, {so_far})"
        return f"{self.kind}_add({so_far}, {self.kind}_mul({x}, {y}))"


def _distributed(number: int, together: int, tile: int, count: int) -> int:
    groups = count // together
    return number // together * (tile // groups) + number % together
