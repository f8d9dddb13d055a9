"""Where a body runs: the indices of its axes, and the lanes of one thread that run it side by side.

A thread works on one element or on several (for wide accesses, or to keep a row in registers); each of them is a lane
here. Values that are the same in all lanes are computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ZERO, Dim, dim
from dfc.kernels.access import NONE, Access, IndexKey
from dfc.kernels.body import Affine
from dfc.lower.threads.text.lines import Sizes, total

AxisPosition = tuple[str, int]
"""An index: a variable (or nothing) plus a number."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Indices of the axes along which lanes differ, and when the lane is on (always, without a condition)."""

    indices: Mapping[int, AxisPosition] = field(default_factory=dict[int, AxisPosition])
    condition: str = ""


@dataclass(slots=True)
class Point:
    """What is known at a place of a kernel.

    `axes` are those along which lanes differ. `group` neighbouring lanes lie side by side along the axis `vector`, have
    one condition, and the first of them at a multiple of `group`; `wide` are the accesses whose address is a multiple
    of `group` elements there. `condition`: nothing may be touched where it is false. `kept` holds elements of memory
    that are in registers, by access, for later stages at the same lanes; without it nothing is kept.
    """

    indices: dict[int, AxisPosition] = field(default_factory=dict[int, AxisPosition])
    lanes: tuple[Lane, ...] = (Lane(),)
    axes: frozenset[int] = frozenset()
    vector: int = NONE
    group: int = 1
    wide: frozenset[Access] = frozenset()
    condition: str = ""
    values: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    lookups: dict[IndexKey, list[str]] = field(default_factory=dict[IndexKey, list[str]])
    checks: list[list[str]] = field(default_factory=list[list[str]])
    checked: dict[IndexKey, list[str]] = field(default_factory=dict[IndexKey, list[str]])
    reduced: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])
    accumulated: list[str] = field(default_factory=list[str])
    kept: dict[Access, list[str]] | None = None

    def inner(
        self,
        indices: Mapping[int, AxisPosition] | None = None,
        lanes: tuple[Lane, ...] = (),
        *,
        axes: Iterable[int] = (),
        vector: int = NONE,
        group: int = 1,
        wide: frozenset[Access] = frozenset(),
    ) -> Point:
        """A point further in, whose values do not leak back."""
        return Point(
            {**self.indices, **(indices or {})},
            lanes or (Lane(),),
            frozenset(axes),
            vector,
            group,
            wide,
            self.condition,
            dict(self.values),
            dict(self.lookups),
            [*self.checks],
            dict(self.checked),
            self.reduced,
            self.accumulated,
            self.kept,
        )

    def index(self, axis: int, lane: int) -> AxisPosition:
        known = self.lanes[lane].indices.get(axis)
        return known if known is not None else self.indices.get(axis, ("", 0))

    def conditions(self, lane: int) -> list[str]:
        """What must hold for a lane to touch memory."""
        return [one for one in (self.condition, self.lanes[lane].condition) if one]


def at(values: list[str], lane: int) -> str:
    """The value of a lane; there is one only where lanes do not differ."""
    return values[lane] if len(values) > 1 else values[0]


def linear(sizes: Sizes, point: Point, lane: int, coefficients: Iterable[tuple[int, Dim]], offset: Dim) -> str:
    """Sum of coefficient * index, and offset, as one text."""
    parts: list[tuple[str, str]] = []
    for axis, coefficient in coefficients:
        if coefficient == ZERO:
            continue
        name, delta = point.index(axis, lane)
        offset = offset + coefficient * dim(delta)
        if name:
            parts.append((sizes.text(coefficient), name))
    parts.append(("1", sizes.text(offset)))
    return total(parts)


def affine_text(sizes: Sizes, point: Point, lane: int, affine: Affine) -> str:
    return linear(sizes, point, lane, [(axis, dim(factor)) for axis, factor in affine.terms], affine.offset)


def both(conditions: Iterable[str]) -> str:
    """All of them, each once; empty where there are none. All are computed."""
    text = ""
    for one in dict.fromkeys(conditions):
        text = f"both({text}, {one})" if text and one else text or one
    return text
