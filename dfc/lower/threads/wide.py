"""Neighbours along an axis that one thread takes at once, through accesses of several elements.

Pure analysis. Guarantees that what comes out is a function of the kernel and the schedule alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ZERO, Dim, is_multiple, product
from dfc.kernels import axes as memory
from dfc.kernels.access import NONE, Access, StageAccess
from dfc.kernels.body import Instruction
from dfc.kernels.form import Kernel
from dfc.kernels.levels import varying

_SMALL = 1 << 31
_MOST_LANES = 8


def is_small(extents: Iterable[Dim]) -> bool:
    """Whether numbers of points surely fit into 31 bits."""
    count = product(extents).constant
    return count is not None and count < _SMALL


@dataclass(frozen=True, slots=True)
class Wide:
    """How many neighbours along an axis a thread takes at once (1: no wide accesses), through which accesses, and what
    must be multiples of that number when the kernel runs."""

    lanes: int = 1
    accesses: frozenset[Access] = frozenset()
    multiples: tuple[Dim, ...] = ()


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
        varies = varying(body, access, (axis,), reduced=False, accumulated=True)
        reached += [_reach(one, axis, varies) for one in access.all()]
    wide = frozenset(one.access for one in reached if one.kind == "wide")
    if not wide or any(one.kind == "odd" for one in reached):
        return NARROW
    widest = max(kernel.operands[one.operand].dtype.size for one in wide)
    lanes = lanes or min(_MOST_LANES, most_bytes // widest)
    divisors: dict[Dim, None] = {}
    for formula in [*divided, *(part for one in _ordered(wide) for part in _starts(one, axis))]:
        if is_multiple(formula, lanes):
            continue
        if formula.constant is not None:
            return NARROW
        divisors[formula] = None
    return Wide(lanes, wide, tuple(divisors)) if lanes > 1 else NARROW


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


def misfits(stages: Sequence[tuple[Sequence[Instruction], StageAccess]], axis: int) -> int:
    """How badly accesses suit threads that are neighbours along the axis."""
    return sum(memory.misfits(body, access, axis, either_way=True) for body, access in stages)


def fastest_last(axes: Sequence[int], stages: Sequence[tuple[Sequence[Instruction], StageAccess]]) -> tuple[int, ...]:
    """Neighbouring threads along the axis that suits memory best; of equal ones the last."""
    if not axes:
        return ()
    best = min(reversed(axes), key=lambda axis: misfits(stages, axis))
    return (*(axis for axis in axes if axis != best), best)
