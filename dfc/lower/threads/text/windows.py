"""Where a thread reads a factor of a product that is no matrix in memory: windows of an image, zeros around it.

A row or a position of depth becomes the indices of its sub-axes; the index along each axis that is checked is kept for
the row of each pass, to which the depth adds its part. Guarantees that nothing is read where the factor is zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.dims import ZERO, Dim, dim
from dfc.kernels.access import Bound
from dfc.lower.threads.text.axes import split
from dfc.lower.threads.text.lines import Lines, Sizes, total
from dfc.lower.threads.text.points import AxisPosition, Point, both, linear
from dfc.lower.threads.tiles import Factor, Tiled


class MapReader:
    """The places of one factor; `name` begins the names of its variables."""

    def __init__(self, product: Tiled, factor: Factor, name: str, lines: Lines, sizes: Sizes) -> None:
        self.name, self.lines, self.sizes = name, lines, sizes
        self.access = factor.access
        self.extents = [*product.extents, *(one.extent for one in factor.map.sub_axes)]
        self.rows, self.depths = factor.map.parts(factor.row), factor.map.parts(product.kernel.k)
        self.batch = range(product.kernel.m)

    def start(self, number: int, row: str, outer: Point) -> None:
        """What is known of a pass from its row, a variable, alone."""
        point = Point({**outer.indices, **self._indices(row, self.rows)})
        known = [*self.batch, *self.rows]
        coefficients = [(axis, self.access.coefficients[axis]) for axis in known]
        self.lines.add(f"{self.name}_at{number} = {linear(self.sizes, point, 0, coefficients, self.access.offset)}")
        for position, bound in enumerate(self.access.bounds):
            index = linear(self.sizes, point, 0, _along(bound, known), bound.affine.offset)
            self.lines.add(f"{self._index(position, number)} = {index}")

    def at(self, number: int, depth: str) -> tuple[str, str]:
        """Where a pass reads at a position of depth, a variable, and when it does."""
        point = Point(self._indices(depth, self.depths))
        coefficients = [(axis, self.access.coefficients[axis]) for axis in self.depths]
        parts = [("1", f"{self.name}_at{number}"), ("1", linear(self.sizes, point, 0, coefficients, ZERO))]
        conditions: list[str] = []
        for position, bound in enumerate(self.access.bounds):
            more = linear(self.sizes, point, 0, _along(bound, self.depths), ZERO)
            index = self.lines.let(total([("1", self._index(position, number)), ("1", more)]), "index")
            conditions.append(f"{index} >= 0")
            if bound.interior > 1:
                clamped = self.lines.let(f"max({index}, 0)", "index")
                conditions.append(f"remainder({clamped}, {bound.interior}) == 0")
                index = self.lines.let(f"quotient({clamped}, {bound.interior})", "index")
                parts += [
                    (self.sizes.text(one.stride), index) for one in self.access.lookups if one.affine == bound.affine
                ]
            conditions.append(f"{index} < {self.sizes.text(bound.extent)}")
        return self.lines.let(total(parts), "place"), both(conditions)

    def _index(self, position: int, number: int) -> str:
        return f"{self.name}_index{position}_{number}"

    def _indices(self, variable: str, parts: Sequence[int]) -> dict[int, AxisPosition]:
        return split(self.lines, self.sizes, variable, parts, self.extents)


def _along(bound: Bound, axes: Sequence[int]) -> list[tuple[int, Dim]]:
    return [(axis, dim(factor)) for axis, factor in bound.affine.terms if axis in axes]
