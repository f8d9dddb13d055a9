"""The axes of a contraction and their parts, and what factors and results read and write over them.

Before: a factor reads `x[i0.0, i0.1 + i2.0 - 1, i2.1]`, where i0 is (i0.0, i0.1) and i2 is (i2.0, i2.1).
After: views over the parts alone; an axis that has parts is the sum of these, each times the extents behind it.

Guarantees that axes are cut only where an index map cuts them, and that views of one point agree on what an axis is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, ZERO, Dim, product
from dfc.kernels.access import strides
from dfc.kernels.form import MatrixOperand

Terms = dict[int, Dim]


@dataclass(frozen=True, slots=True)
class Along:
    """One index: the sum of coefficient * axis, plus `offset`. `masked`: zero is read where it is outside of the memory
    or no multiple of `interior`; else the element at index // interior is."""

    terms: Mapping[int, Dim]
    offset: Dim = ZERO
    masked: bool = False
    interior: int = 1


@dataclass(frozen=True, slots=True)
class View:
    """A read or a write at each point: of row-major memory of this shape."""

    shape: tuple[Dim, ...]
    index: tuple[Along, ...]


@dataclass(slots=True)
class Space:
    """The axes of a sum, by number, with their extents. An axis with parts is the sum of these, each times the extents
    of the parts behind it."""

    extents: dict[int, Dim]
    parts: dict[int, tuple[tuple[int, Dim], ...]] = field(default_factory=dict[int, tuple[tuple[int, Dim], ...]])

    def split(self, axis: int, extents: Sequence[Dim]) -> list[int] | None:
        """The parts of an axis with these extents; None if it has other ones already."""
        if axis in self.parts:
            known = [part for part, _ in self.parts[axis]]
            return known if [self.extents[part] for part in known] == list(extents) else None
        axes = [len(self.extents) + number for number in range(len(extents))]
        self.extents.update(zip(axes, extents, strict=True))
        behind = [product(extents[number + 1 :]) for number in range(len(extents))]
        self.parts[axis] = tuple(zip(axes, behind, strict=True))
        return axes

    def factor(self, axes: int, one: MatrixOperand, shape: tuple[Dim, ...]) -> View | None:
        """What a factor of a contraction of so many axes reads."""
        numbers = list(range(axes))
        for split in one.splits:
            parts = self.split(split.axis, split.extents)
            if parts is None:
                return None
            numbers += parts
        steps = dict(one.inside)
        factors: list[Along] = []
        for position, index in enumerate(one.index):
            terms: Terms = {}
            for axis, factor in index.terms:
                terms[numbers[axis]] = terms.get(numbers[axis], ZERO) + factor
            factors.append(Along(terms, index.offset, position in steps, steps.get(position, 1)))
        return View(shape, tuple(factors))

    def resolved(self, terms: Mapping[int, Dim]) -> Terms:
        """The same sum over axes that were not cut; those of one point are left out."""
        sums: Terms = {}
        pending = list(terms.items())
        while pending:
            axis, coefficient = pending.pop()
            if axis in self.parts:
                pending += [(part, coefficient * inner) for part, inner in self.parts[axis]]
            elif self.extents[axis] != ONE and coefficient != ZERO:
                sums[axis] = sums.get(axis, ZERO) + coefficient
        return sums

    def flat(self, view: View) -> tuple[Terms, Dim] | None:
        """Its place in memory, if it is linear."""
        terms: Terms = {}
        offset = ZERO
        for along, stride in zip(view.index, strides(view.shape), strict=True):
            if along.masked:
                return None
            offset = offset + along.offset * stride
            for axis, coefficient in along.terms.items():
                terms[axis] = terms.get(axis, ZERO) + coefficient * stride
        return self.resolved(terms), offset


def merged(space: Space, axes: Sequence[int], views: Sequence[Terms]) -> list[int]:
    """Axes that run through memory like one axis in all of the views become one, an axis of the space as well."""
    left = list(axes)
    while True:
        pair = next(
            (
                (outer, inner)
                for outer in left
                for inner in left
                if outer != inner
                and all(v.get(outer, ZERO) == v.get(inner, ZERO) * space.extents[inner] for v in views)
            ),
            None,
        )
        if pair is None:
            return left
        outer, inner = pair
        joint = len(space.extents)
        space.extents[joint] = space.extents[outer] * space.extents[inner]
        left = [joint if axis == outer else axis for axis in left if axis != inner]
        for view in views:
            view[joint] = view.get(inner, ZERO)
