"""Sizes of the matrix product's tiles and blocks, from the machine description.

Assumes registers for `rows x vectors` accumulators, one row of B and one broadcast element. Guarantees sizes that
depend on machine and element type only.
"""

from dfc.deferred.dataclasses import dataclass
from dfc_target_cpu.llvm.values import bit_width, vector_type
from dfc_target_cpu.machine import Machine


@dataclass(frozen=True, slots=True)
class GemmShape:
    """Register tiles and cache blocks, in elements.

    Tiles have an even number of rows up to `rows`, or one row; up to `vectors` vectors, or `wide` where all rows of the
    product are at most `few_rows`.
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

    @property
    def vector(self) -> str:
        return vector_type(self.lanes, self.element)

    @property
    def element_bytes(self) -> int:
        return bit_width(self.element) // 8

    def tiles(self) -> list[tuple[int, int]]:
        """Every (rows, vectors) a micro-kernel exists for."""
        heights = [1, *range(2, self.rows + 1, 2)]
        return [
            (rows, vectors)
            for rows in heights
            for vectors in range(1, (self.wide if rows <= self.few_rows else self.vectors) + 1)
        ]

    @property
    def workspace_bytes(self) -> int:
        """Scratch memory of one part: a packed block of B, and what the last transposed rows spill behind it."""
        return (self.kc * self.nc + self.lanes * self.wide * self.lanes) * self.element_bytes


def gemm_shape(machine: Machine, element: str) -> GemmShape:
    """The shape for `float` or `double`."""
    lanes = machine.lanes(bit_width(element))
    size = bit_width(element) // 8
    rows, vectors, few_rows, wide = (8, 3, 4, 4) if machine.vector_registers >= 32 else (6, 2, 2, 4)
    kc = (1024 if machine.l2_bytes >= 1 << 20 else 512) * 4 // size
    mc = _down(machine.l2_bytes // 4 // (kc * size), rows)
    nc = _down((2 << 20) // (kc * size), 6 * lanes)
    return GemmShape(element, lanes, rows, vectors, few_rows, wide, kc, mc, nc)


def _down(value: int, multiple: int) -> int:
    return max(1, value // multiple) * multiple
