"""The axes of a loop kernel as a device walks them: merged where accesses allow, numbered, cut for wide accesses.

Pure analysis and index arithmetic. Guarantees that what comes out is a function of the kernel and the schedule alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dfc.ir.dims import ONE, ZERO, Dim, product
from dfc.kernels.access import NONE, Access, StageAccess, dependencies, named_axes
from dfc.kernels.body import Instruction
from dfc.kernels.form import Kernel, LoopKernel
from dfc_target_cuda.kernels.write_points import AxisPlace
from dfc_target_cuda.kernels.write_text import Lines, Sizes

_SMALL = 1 << 31
_MOST_LANES = 8


class Merging:
    """Neighbouring axes as one, where every access steps through them alike."""

    def __init__(self, kernel: LoopKernel, access: Sequence[StageAccess]) -> None:
        pairs = zip(kernel.stages, access, strict=True)
        self._named = set[int]().union(*(named_axes(stage.body, one) for stage, one in pairs))

    def merge(self, axes: Sequence[int], accesses: Iterable[StageAccess], extents: list[Dim]) -> tuple[int, ...]:
        """What is left of `axes`: those of extent 1 go, of neighbours that merge the inner one stays and has the
        product as its extent. Changes `extents`."""
        every = [one for access in accesses for one in access.all()]
        kept: list[int] = []
        for axis in axes:
            if extents[axis] == ONE:
                continue
            if kept and self._mergeable(kept[-1], axis, every, extents[axis]):
                outer = kept.pop()
                extents[axis] = extents[outer] * extents[axis]
            kept.append(axis)
        return tuple(kept)

    def _mergeable(self, outer: int, inner: int, every: Iterable[Access], extent: Dim) -> bool:
        if outer in self._named or inner in self._named:
            return False
        return all(one.coefficients[outer] == one.coefficients[inner] * extent for one in every)


def is_small(extents: Iterable[Dim]) -> bool:
    """Whether numbers of points surely fit into 31 bits."""
    count = product(extents).constant
    return count is not None and count < _SMALL


def split(
    lines: Lines, sizes: Sizes, number: str, axes: Sequence[int], extents: Sequence[Dim], *, small: bool = False
) -> dict[int, AxisPlace]:
    """The indices of point `number`, a variable, in row-major order of the axes."""
    suffix = "32" if small else ""
    found: dict[int, AxisPlace] = {}
    for axis in reversed(axes[1:]):
        extent = sizes.text(extents[axis])
        found[axis] = lines.let(f"remainder{suffix}({number}, {extent})", "j"), 0
        number = lines.let(f"quotient{suffix}({number}, {extent})", "j")
    if axes:
        found[axes[0]] = number, 0
    return found


def varies_along(body: Sequence[Instruction], access: StageAccess, axes: frozenset[int]) -> list[bool]:
    """Which instructions differ between points that differ along these axes only."""
    found: list[bool] = []
    for position, one in enumerate(body):
        load = access.loads.get(position)
        direct = load is not None and not axes.isdisjoint(load.axes())
        direct = direct or getattr(one.operation, "axis", NONE) in axes
        direct = direct or type(one.operation).__name__ == "Accumulated"
        found.append(direct or any(found[i] for i in dependencies(one, load)))
    return found


@dataclass(frozen=True, slots=True)
class Wide:
    """How many neighbours along an axis a thread takes at once (1: no wide accesses), through which accesses, and what
    must be multiples of that number when the kernel runs."""

    lanes: int = 1
    accesses: frozenset[Access] = frozenset()
    multiples: tuple[Dim, ...] = ()

    def condition(self, sizes: Sizes) -> str:
        return " and ".join(f"({sizes.text(one)} & {self.lanes - 1}) == 0" for one in self.multiples)


NARROW = Wide()


@dataclass(frozen=True, slots=True)
class _Reach:
    """How an access steps along an axis: `constant` is the same element for all, `wide` neighbours, else `scattered`
    elements of computed indices, or something (`odd`) that suits no wide access."""

    access: Access
    kind: str


def find_wide(
    kernel: Kernel,
    stages: Sequence[tuple[Sequence[Instruction], StageAccess]],
    axis: int,
    divided: Iterable[Dim],
    most_bytes: int,
    *,
    lanes: int = 0,
) -> Wide:
    """Wide accesses along an axis for these bodies. `divided`: extents that must be whole numbers of groups; `lanes`:
    the length of groups, where it is given."""
    reached: list[_Reach] = []
    for body, access in stages:
        varies = varies_along(body, access, frozenset((axis,)))
        reached += [_reach(one, axis, varies) for one in access.all()]
    wide = frozenset(one.access for one in reached if one.kind == "wide")
    if not wide or any(one.kind == "odd" for one in reached):
        return NARROW
    widest = max(kernel.operands[one.operand].dtype.size for one in wide)
    lanes = lanes or min(_MOST_LANES, most_bytes // widest)
    found: dict[Dim, None] = {}
    for formula in [*divided, *(part for one in _ordered(wide) for part in _starts(one, axis))]:
        if _is_multiple(formula, lanes):
            continue
        if formula.constant is not None:
            return NARROW
        found[formula] = None
    return Wide(lanes, wide, tuple(found)) if lanes > 1 else NARROW


def _ordered(accesses: Iterable[Access]) -> list[Access]:
    return sorted(accesses, key=lambda one: (one.operand, str(one.coefficients), str(one.offset)))


def _reach(one: Access, axis: int, varies: Sequence[bool]) -> _Reach:
    looked_up = any(lookup.instruction != NONE and varies[lookup.instruction] for lookup in one.lookups)
    if looked_up:
        return _Reach(one, "scattered")
    if axis in one.named_axes():
        return _Reach(one, "odd")
    step = one.coefficients[axis].constant
    if step == 0:
        return _Reach(one, "constant")
    return _Reach(one, "wide" if step == 1 and not one.bounds else "odd")


def _starts(one: Access, axis: int) -> list[Dim]:
    """What the first element of a group is a sum of multiples of."""
    steps = [step for other, step in enumerate(one.coefficients) if other != axis and step != ZERO]
    return [one.offset, *steps, *(lookup.stride for lookup in one.lookups)]


def _is_multiple(formula: Dim, lanes: int) -> bool:
    return all(coefficient % lanes == 0 for _, coefficient in formula.terms)


def misfits(stages: Sequence[tuple[Sequence[Instruction], StageAccess]], axis: int) -> int:
    """How badly accesses suit threads that are neighbours along the axis: 0 where they are neighbours in memory, or
    read one element."""
    badness = 0
    for body, access in stages:
        varies = varies_along(body, access, frozenset((axis,)))
        badness += sum(2 * _misfit(one, axis, varies, stored=False) for one in access.loads.values())
        badness += sum(3 * _misfit(one, axis, varies, stored=True) for one in access.stores)
    return badness


def _misfit(one: Access, axis: int, varies: Sequence[bool], *, stored: bool) -> int:
    looked_up = any(lookup.instruction != NONE and varies[lookup.instruction] for lookup in one.lookups)
    step = one.coefficients[axis].constant
    return int(looked_up or not (step in (1, -1) or (step == 0 and not stored)))
