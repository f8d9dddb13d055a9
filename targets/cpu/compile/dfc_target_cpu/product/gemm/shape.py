"""Sizes of the matrix product's tiles and blocks, from the machine description.

Assumes registers for `rows x vectors` accumulators, one row of B and one broadcast element. Guarantees sizes that
depend on machine and element type only.
"""

from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc_target_cpu.llvm.values import bit_width, vector_type
from dfc_target_cpu.machine import Machine

ANY_WIDTH = 1 << 40
"""Columns of products whose sizes are not known."""
FEW_ROWS = 4
"""Rows up to which a product may be made in a form of its own."""


@dataclass(frozen=True, slots=True)
class GemmShape:
    """Register tiles and cache blocks, in elements.

    Tiles have an even number of rows up to `rows`, or one row; up to `vectors` vectors, or `wide` where all rows of the
    product are at most `few_rows`. A block of A has `mc` rows and a depth of `kc`, one of B `nc` columns, or twice as
    many of half the depth. A piece of B of `near_columns` and `near_depth` stays in the nearest cache, one of
    `long_columns` and `long_depth` in the second one. Both
    factors are packed from `packed_columns` on, whatever suits them, and B from `packed_rows` on. No product of the
    program has more than `widest` columns. If none has few rows, `few_rows` is 0.
    """

    element: str
    lanes: int
    rows: int
    vectors: int
    few_rows: int
    wide: int
    kc: int
    mc: int
    nc: int
    near_depth: int
    near_columns: int
    long_depth: int
    long_columns: int
    packed_columns: int
    packed_rows: int
    widest: int = ANY_WIDTH

    @property
    def vector(self) -> str:
        return vector_type(self.lanes, self.element)

    @property
    def has_masks(self) -> bool:
        """Whether the machine has registers for masks."""
        return self.lanes * self.element_bytes == 64

    @property
    def row_vectors(self) -> int:
        """The most vectors of a row that are summed in registers: those of the widest product, or the next power of
        two, so that few programs differ; none where the machine does not mask loads."""
        vectors = -(-self.widest // self.lanes)
        return min({64: 16, 32: 12}.get(self.lanes * self.element_bytes, 0), 1 << (vectors - 1).bit_length())

    @property
    def has_long_rows(self) -> bool:
        """Whether some row may have more vectors than that."""
        return self.widest > self.row_vectors * self.lanes

    @property
    def element_bytes(self) -> int:
        return bit_width(self.element) // 8

    @property
    def heights(self) -> list[int]:
        """Every number of rows a tile may have."""
        return [1, *range(2, self.rows + 1, 2)]

    def tiles(self) -> list[tuple[int, int]]:
        """Every (rows, vectors) a micro-kernel exists for."""
        return [
            (rows, vectors)
            for rows in self.heights
            for vectors in range(1, (self.wide if rows <= self.few_rows else self.vectors) + 1)
        ]

    def packed_tiles(self) -> list[tuple[int, int]]:
        """Those of them that have a micro-kernel of their own for packed factors: nearly all of a large product."""
        return [(r, v) for r in (self.rows, self.rows - 2) for v in (self.vectors, self.vectors - 1)]

    def without_few_rows(self) -> "GemmShape":
        """That of a program in which no product has few rows, though the last rows of one may be few."""
        return replace(self, few_rows=0, wide=self.vectors)

    @property
    def is_measured(self) -> bool:
        """Whether it is known what packing both factors is worth."""
        return self.packed_columns < _NEVER

    @property
    def columns_of_copied_lines(self) -> int:
        """Columns from which on few rows of A that lie along k are packed: below, tiles read them where they are."""
        return self.packed_columns if self.is_measured else 4 * self.vectors * self.lanes

    @property
    def left_elements(self) -> int:
        """Room for packed rows of A: a block, or all of few rows."""
        return max(self.mc * self.kc, (1 << 20) // self.element_bytes)

    @property
    def left_spill(self) -> int:
        """Bytes behind packed rows of A: what their last square spills, and up to a line of the cache."""
        return 4 * self.rows * self.rows * self.element_bytes + 63

    @property
    def left_bytes(self) -> int:
        """Bytes of the workspace before a packed block of B, where one of A is packed: what is used lies together."""
        return _down(self.mc * self.kc * self.element_bytes + self.left_spill, 64)

    @property
    def all_left_bytes(self) -> int:
        """Likewise where all of few rows are, at most."""
        return _down(self.left_elements * self.element_bytes + self.left_spill, 64)

    @property
    def right_bytes(self) -> int:
        """Room for a packed block of B, and what the last transposed rows spill behind it."""
        return _up((self.kc * self.nc + self.lanes * self.wide * self.lanes) * self.element_bytes, 64)

    @property
    def workspace_bytes(self) -> int:
        """Scratch memory of one part: packed blocks of both factors."""
        return self.all_left_bytes + self.right_bytes


_WIDE, _TALL = 384, 256
"""Columns from which on packing A takes less than it saves, and rows from which on packing B does, with many registers:
sums of few rows pass over B so seldom that it is read in place."""
_LONG_BYTES = 1 << 10
"""A stretch of memory that is read ahead."""
_NEVER = 1 << 40
"""More of them than there are."""
_PAGES = 64
"""Pages whose addresses a core has at hand: each row of a block of C may lie in another one."""


def gemm_shape(machine: Machine, element: str) -> GemmShape:
    """The shape for `float` or `double`."""
    lanes = machine.lanes(bit_width(element))
    size = bit_width(element) // 8
    rows, vectors, few_rows, wide = (8, 3, FEW_ROWS, 4) if machine.vector_registers >= 32 else (6, 2, 2, 4)
    has_room = machine.vector_registers >= 32
    kc = (384 if not has_room else 512 if machine.vector_bits == 512 else 1024) * 4 // size
    is_measured = machine.fused_multiply_add and (machine.vector_bits == 512 or not has_room)
    packed = (_WIDE, _TALL if has_room else 4 * rows) if is_measured else (_NEVER, _NEVER)
    mc = _down(min(machine.l2_bytes * 3 // 8 // (kc * size), _PAGES), rows)
    nc = _up((2 << 20) // (kc * size), 6 * lanes)
    near_columns = vectors * lanes * (1 if has_room else 2)
    long_columns = _down(_LONG_BYTES // size, vectors * lanes)
    near_depth = min(kc, _down(machine.l1_bytes * 3 // 4 // (near_columns * size), 4))
    pieces = near_depth, near_columns, near_depth * (1 if has_room else 2), long_columns
    return GemmShape(element, lanes, rows, vectors, few_rows, wide, kc, mc, nc, *pieces, *packed)


def _down(value: int, multiple: int) -> int:
    return max(1, value // multiple) * multiple


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
