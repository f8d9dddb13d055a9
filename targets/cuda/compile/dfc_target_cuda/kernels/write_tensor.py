"""Tiles of a product multiplied by tensor cores: factors in shared memory as they lie in memory, sums of whole warps.

Assumes factors of one type: f16, bf16, or f32 rounded to 11 bits (tf32), and tiles of whole warps. Guarantees sums in
f32 in ascending order of small matrices of depth 16 (8 of tf32). Depth behind the end is zero in shared memory.

A factor whose neighbours in memory are neighbours in k has its rows in shared memory, another one its columns; the
instruction that loads small matrices turns those. Rows are 16 bytes longer than needed, an odd number of 16 bytes, so
that eight rows lie in different banks.
"""

from __future__ import annotations

from dfc.kernels.printer import slot
from dfc.lower.threads.text.lines import Lines, Sizes, total
from dfc.lower.threads.text.tiles import FactorLoads, Sums
from dfc.lower.threads.text.types import memory_type
from dfc.lower.threads.tiles import WARP, Factor, Tiled


class TensorLoads(FactorLoads):
    """Moves one factor without conversion."""

    def __init__(self, product: Tiled, factor: Factor, name: str, lines: Lines, sizes: Sizes) -> None:
        super().__init__(product, factor, name, lines, sizes)
        self.kind = memory_type(self.factor.dtype)
        self.pad = 16 // self.factor.dtype.size if self.factor.along_k or self.factor.dtype.size == 2 else 8
        self.length = (product.tiling.k if self.factor.along_k else self.factor.tile) + self.pad

    @property
    def block(self) -> int:
        return self.length * (self.factor.tile if self.factor.along_k else self.product.tiling.k)

    def in_block(self, depth: str, row: str) -> str:
        """Rows of neighbours in memory."""
        outer, inner = (row, depth) if self.factor.along_k else (depth, row)
        return total([(str(self.length), outer), ("1", inner)])

    def position(self, depth: int, row: int) -> int:
        """Where an element lies, counted from another one."""
        return self.length * row + depth if self.factor.along_k else self.length * depth + row

    @property
    def in_words(self) -> bool:
        """Whether eight halves travel as four words."""
        return self.factor.vector == 8

    @property
    def registers(self) -> int:
        return 4 if self.in_words else self.factor.vector

    @property
    def register_type(self) -> str:
        return "u32" if self.in_words else self.kind

    def fetch(self, depth: str, end: str, *, exact: bool) -> None:
        super().fetch(depth, end, exact=exact)
        if exact:
            return
        for number in range(self.passes):
            with self.lines.guarded(self._on(number)):
                behind = self.lines.let(f"{depth} + {self._of('depth', number)} >= {end}", "behind")
                for register in (self._register(number, lane) for lane in range(self.registers)):
                    kind = self.register_type
                    self.lines.add(f"{register} = {kind}_select({behind}, {kind}(0), {register})")

    def _store(self, values: list[str], target: str) -> None:
        if self.in_words:
            self.lines.add(f"store8_u16_words({self.memory}, {target}, {', '.join(values)})")
        elif len(values) == 1:
            self.lines.add(f"{self.memory}[{target}] = {values[0]}")
        else:
            self.lines.add(f"store{len(values)}_{self.kind}({self.memory}, {target}, {', '.join(values)})")

    def _load(self, source_text: str) -> str:
        if not self.in_words:
            return super()._load(source_text)
        return f"load8_u16_words({slot(self.factor.access.operand)}, {source_text})"

    def _converted(self, raw: str) -> str:
        return raw


class TensorSums(Sums):
    """The sums of one lane: rows 8 apart, and pairs of columns 8 apart, of its warp's part of the tile."""

    def __init__(self, product: Tiled, lines: Lines) -> None:
        super().__init__(product, lines)
        self.rows_together, self.columns_together = 1, 2
        self.warp_rows, self.warp_columns = 8 * self.tiling.thread_m, 4 * self.tiling.thread_n
        self.depth = 8 if product.tensor == "tf32" else 16

    def begin(self) -> None:
        lines, across = self.lines, self.tiling.n // self.warp_columns
        lines.add(f"lane = t & {WARP - 1}")
        lines.add(f"warp = t >> {WARP.bit_length() - 1}")
        lines.add(f"warp_row = (warp >> {across.bit_length() - 1}) * {self.warp_rows}")
        lines.add(f"warp_column = (warp & {across - 1}) * {self.warp_columns}")
        lines.add("my_row = warp_row + (lane >> 2)")
        lines.add("my_column = warp_column + (lane & 3) * 2")

    def row(self, number: int) -> int:
        return 8 * number

    def column(self, number: int) -> int:
        return number // 2 * 8 + number % 2

    def add(self, a: FactorLoads, b: FactorLoads, buffer: str, depth: str) -> None:
        """The products of one block of depth; `depth` of it are not zero."""
        assert isinstance(a, TensorLoads) and isinstance(b, TensorLoads)
        load = self._words if self.product.tensor == "tf32" else self._matrices
        starts = [self._start(a, buffer, "warp_row", first=True), self._start(b, buffer, "warp_column", first=False)]
        for step in range(0, self.tiling.k, self.depth):
            rows = [load(a, starts[0], step, offset, "x") for offset in range(0, self.warp_rows, 16)]
            columns: list[list[str]] = []
            for offset in range(0, self.warp_columns, 16):
                words = load(b, starts[1], step, offset, "y")
                columns += [words[:2], words[2:]]
            for i, x in enumerate(rows):
                for j, y in enumerate(columns):
                    self._multiply(i, j, x, y)

    def _multiply(self, i: int, j: int, x: list[str], y: list[str]) -> None:
        names = [self.name(2 * i + half, 2 * j + one) for half in range(2) for one in range(2)]
        operands = ", ".join([*x, *y, *names])
        self.lines.add(f"{', '.join(names)} = matrix_multiply_{self.product.tensor}({operands})")

    def _start(self, source: TensorLoads, buffer: str, warp: str, *, first: bool) -> str:
        """Where a lane's row of small matrices begins, or for words its own element.

        Of the first factor matrices follow each other by rows, then by depth; of the second by depth, then by columns.
        """
        lines = self.lines
        if self.product.tensor == "tf32":
            row, depth = "lane >> 2", "lane & 3"
        else:
            across, along = ("(lane >> 3) & 1", "lane >> 4") if first else ("lane >> 4", "(lane >> 3) & 1")
            within_row, within_depth = ("(lane & 7)", "") if source.factor.along_k else ("", "(lane & 7)")
            row = f"(({across}) << 3)" + (f" + {within_row}" if within_row else "")
            depth = f"(({along}) << 3)" + (f" + {within_depth}" if within_depth else "")
        row, depth = lines.let(f"{warp} + ({row})", "row"), lines.let(depth, "depth")
        return lines.let(f"{buffer} * {source.block} + {source.in_block(depth, row)}", "from_")

    def _matrices(self, source: TensorLoads, start: str, step: int, offset: int, stem: str) -> list[str]:
        """Four small matrices: 16 rows (or columns) by 16 of depth."""
        names = [self.lines.name(stem) for _ in range(4)]
        load = "matrix_load" if source.factor.along_k else "matrix_load_turned"
        where = total([("1", start), (str(source.position(step, offset)), "1")])
        self.lines.add(f"{', '.join(names)} = {load}({source.memory}, {where})")
        return names

    def _words(self, source: TensorLoads, start: str, step: int, offset: int, stem: str) -> list[str]:
        """Single numbers rounded to 11 bits: of the first factor by rows, then depth; of the second by depth first."""
        first = source.name == "a"
        names: list[str] = []
        for number in range(4):
            row, depth = (number % 2, number // 2) if first else (number // 2, number % 2)
            where = total([("1", start), (str(source.position(step + 4 * depth, offset + 8 * row)), "1")])
            names.append(self.lines.let(f"tf32_bits({source.memory}[{where}])", stem))
        return names
