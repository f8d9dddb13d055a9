"""The matrices of Winograd's minimal filtering, made from points, and what rounding does in it.

    y = A [(G g) * (B d)]        m sums over windows of r elements: r taps g, m + r - 1 elements d, as many products
    Y = A [(G g G^T) * (B d B^T)] A^T        the same along both axes of an image

Sums over windows are a product of polynomials read backwards; that is found from its values at m + r - 2 points and
infinity (Toom 1963, Cook 1966; Winograd 1980). Source of the choice of points: what makes the coefficients small makes
the rounding small (Barabasz, Anderson, Soodhalter and Gregg 2020); of the symmetric sets that were tried, +-5/8 and
+-3/2 amplify least for m = 4 and err a third as much as the usual +-1 and +-2; with symmetric ones half of a transform
is shared.

Guarantees matrices that are exact but for one rounding of each coefficient.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from fractions import Fraction

from dfc.deferred.dataclasses import dataclass

Matrix = tuple[tuple[float, ...], ...]
TAPS = 3
"""Elements of a window along an axis."""
POINTS: dict[int, tuple[Fraction, ...]] = {
    2: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(5, 8), Fraction(-5, 8), Fraction(3, 2), Fraction(-3, 2)),
}
"""Sums of a tile along an axis -> points."""


@dataclass(frozen=True, slots=True)
class Transforms:
    """`tile` sums of `taps` products: `image` is B, `filter` is G, `result` is A."""

    tile: int
    taps: int
    image: Matrix
    filter: Matrix
    result: Matrix

    @property
    def span(self) -> int:
        """Elements of a tile of the image along an axis, and products."""
        return self.tile + self.taps - 1


@functools.cache
def transforms(tile: int, taps: int = TAPS) -> Transforms:
    """The matrices for so many sums of so many products: together as many as the points of `POINTS` allow."""
    span = tile + taps - 1
    points = next(points for points in POINTS.values() if len(points) == span - 1)
    image = [[*_product_of([q for q in points if q != p]), Fraction(0)] for p in points]
    image.append(_product_of(points))
    scales = [_value(row, point) for row, point in zip(image, points, strict=False)]
    filter_ = [[point**j / scale for j in range(taps)] for point, scale in zip(points, scales, strict=True)]
    filter_.append([Fraction(j == taps - 1) for j in range(taps)])
    result = [[*(point**i for point in points), Fraction(i == tile - 1)] for i in range(tile)]
    return Transforms(tile, taps, _rounded(image), _rounded(filter_), _rounded(result))


def _product_of(roots: Sequence[Fraction]) -> list[Fraction]:
    """Coefficients of the polynomial with these roots, lowest first."""
    row = [Fraction(1)]
    for root in roots:
        row = [low - root * high for low, high in zip([Fraction(0), *row], [*row, Fraction(0)], strict=True)]
    return row


def _value(row: Sequence[Fraction], point: Fraction) -> Fraction:
    return sum((coefficient * point**power for power, coefficient in enumerate(row)), Fraction(0))


def _rounded(matrix: Sequence[Sequence[Fraction]]) -> Matrix:
    return tuple(tuple(map(float, row)) for row in matrix)


def roundings(transforms: Transforms, channels: int) -> int:
    """How many roundings lie between an operand and a sum at most, a coefficient's own one among them: with unit
    roundoff u, the error of each sum is at most that many u times what the formula gives for absolute values,

        |A| [sum over channels of (|G| |g| |G|^T) * (|B| |d| |B|^T)] |A|^T

    to first order (Higham 2002, chapter 3)."""
    longest = [
        max(sum(map(bool, row)) for row in one) for one in (transforms.image, transforms.filter, transforms.result)
    ]
    return channels + 2 * sum(terms + 1 for terms in longest)


def amplification(transforms: Transforms) -> float:
    """How much larger than the sum of absolute products the value that errors are relative to may be: the largest ratio
    that elements of equal size give."""
    image, filter_, result = (_absolute(one) for one in (transforms.image, transforms.filter, transforms.result))
    products = [sum(d) * sum(g) for d, g in zip(image, filter_, strict=True)]
    sums = [sum(a * p for a, p in zip(row, products, strict=True)) for row in result]
    return (max(sums) / transforms.taps) ** 2


def _absolute(matrix: Matrix) -> list[list[float]]:
    return [[abs(value) for value in row] for row in matrix]
