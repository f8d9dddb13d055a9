"""Where the points of a sum read and write, seen through the copies that lie in between.

Before: a product reads `patches[i, k]`, where `patches[b, y, x, r, s, c] = x[b, y + r, x + s, c]`.
After: it reads `x[b, y + r, x + s, c]`, where i is (b, y, x) and k is (r, s, c).

Assumes indices that stay inside of their memory, but for masked ones. Guarantees that a view through a copy reads the
same number, and that axes are cut only where their extents are products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dfc.ir.dims import ONE, ZERO, Dim
from dfc.kernels.access import strides
from dfc.lower.convolutions.copies import NO_AXIS, Copied
from dfc.lower.fuse.places import Place

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
    """A read or a write at each point."""

    place: Place
    index: tuple[Along, ...]


@dataclass(slots=True)
class Space:
    """The axes of a sum, by number, with their extents. An axis that was cut is the sum of its parts, each times the
    extents of the parts behind it."""

    extents: dict[int, Dim]
    parts: dict[int, tuple[tuple[int, Dim], ...]] = field(default_factory=dict[int, tuple[tuple[int, Dim], ...]])

    def cut(self, axis: int, outer: Dim, inner: Dim) -> tuple[int, int]:
        """Cuts an axis in two."""
        made = len(self.extents), len(self.extents) + 1
        self.extents.update(zip(made, (outer, inner), strict=True))
        self.parts[axis] = ((made[0], inner), (made[1], ONE))
        return made

    def resolved(self, terms: Mapping[int, Dim]) -> Terms:
        """The same sum over axes that were not cut; those of one point are left out."""
        found: Terms = {}
        pending = list(terms.items())
        while pending:
            axis, coefficient = pending.pop()
            if axis in self.parts:
                pending += [(part, coefficient * inner) for part, inner in self.parts[axis]]
            elif self.extents[axis] != ONE and coefficient != ZERO:
                found[axis] = found.get(axis, ZERO) + coefficient
        return found

    def flat(self, view: View) -> tuple[Terms, Dim] | None:
        """Its place in memory, if it is linear."""
        terms: Terms = {}
        offset = ZERO
        for along, stride in zip(view.index, strides(view.place.shape), strict=True):
            if along.masked:
                return None
            offset = offset + along.offset * stride
            for axis, coefficient in along.terms.items():
                terms[axis] = terms.get(axis, ZERO) + coefficient * stride
        return self.resolved(terms), offset


def through(space: Space, view: View, copy: Copied) -> View | None:
    """The view of the source of a copy, for one of its target; None if it is not of this form."""
    if view.place.shape == copy.target.shape:
        targets: Sequence[Along] | None = view.index
    else:
        flat = space.flat(view)
        targets = None if flat is None else indices(space, *flat, copy.target.shape)
    if targets is None:
        return None
    known = {axis: one for axis, one in zip(copy.stored, targets, strict=True) if axis != NO_AXIS}
    masked = {axis for axis, one in known.items() if one.masked}
    found: list[Along] = []
    for number, loaded in enumerate(copy.loaded):
        used = [axis for axis, _ in loaded.terms if axis in masked]
        interior = copy.interiors.get(number, 0)
        if used:
            axis = used[0]
            extents = copy.target.shape[copy.stored.index(axis)], copy.source.shape[number]
            if loaded.terms != ((axis, 1),) or not _stays_outside(known[axis], loaded.offset, extents, interior):
                return None
            masked.discard(axis)
        terms: Terms = {}
        offset = loaded.offset
        for axis, factor in loaded.terms:
            one = known.get(axis, Along({}))
            offset = offset + one.offset * factor
            for each, coefficient in one.terms.items():
                terms[each] = terms.get(each, ZERO) + coefficient * factor
        found.append(Along(terms, offset, bool(used) or interior > 0, max(interior, 1)))
    return None if masked else View(copy.source, tuple(found))


def _stays_outside(along: Along, offset: Dim, extents: tuple[Dim, Dim], interior: int) -> bool:
    """Whether what is outside of the target of a copy is outside of its source, too, and the other way round where the
    copy has no mask."""
    target, source = extents
    if along.interior != 1:
        return False
    if not interior:
        return offset == ZERO and target == source
    beyond = (target + offset - ((source - 1) * interior + 1)).constant
    before = offset.constant
    return beyond is not None and beyond >= 0 and before is not None and before <= 0


def indices(space: Space, terms: Terms, offset: Dim, shape: Sequence[Dim]) -> list[Along] | None:
    """A place in memory as one index for each axis of a row-major shape, all of which are run through; cuts axes."""
    if offset != ZERO:
        return None
    left = {coefficient: axis for axis, coefficient in terms.items()}
    if len(left) != len(terms):
        return None
    found: list[Along] = []
    for extent, stride in reversed(list(zip(shape, strides(shape), strict=True))):
        one: Terms = {}
        taken = ONE
        while taken != extent:
            axis = left.pop(stride * taken, None)
            wanted = _divided(extent, taken)
            if axis is None or wanted is None:
                return None
            rest = _divided(space.extents[axis], wanted)
            if rest is not None and rest != ONE:
                if stride * extent in left:
                    return None
                outer, axis = space.cut(axis, rest, wanted)
                left[stride * extent] = outer
            elif rest is None and _divided(wanted, space.extents[axis]) is None:
                return None
            one[axis] = taken
            taken = taken * space.extents[axis]
        found.append(Along(one))
    return None if left else found[::-1]


def _divided(whole: Dim, part: Dim) -> Dim | None:
    """The exact quotient."""
    if part == ZERO or whole == ZERO:
        return None
    if whole == part:
        return ONE
    made = whole // part
    return made if made * part == whole else None


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
