"""The axes of a loop kernel: which are one, which are parallel, and how memory suits walking along each of them.

Pure analysis over accesses, for every target. Guarantees that what comes out is a function of the kernel alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dfc.ir.dims import ONE, Dim
from dfc.kernels.access import NONE, Access, StageAccess, named_axes
from dfc.kernels.body import Instruction
from dfc.kernels.form import LoopKernel
from dfc.kernels.levels import varying


def all_outer(kernel: LoopKernel) -> LoopKernel:
    """The same kernel, parallel in all its axes where it is one stage that reduces nothing."""
    if kernel.ordered or len(kernel.stages) != 1 or kernel.stages[0].reductions:
        return kernel
    stage = kernel.stages[0]
    if stage.axes != tuple(range(kernel.outer, len(kernel.axes))):
        return kernel
    return replace(kernel, outer=len(kernel.axes), stages=(replace(stage, axes=()),))


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


def misfits(
    body: Sequence[Instruction],
    access: StageAccess,
    axis: int,
    *,
    reduced_vary: bool = False,
    either_way: bool = False,
) -> int:
    """How badly the accesses of a body suit neighbours along `axis`: 0 where those are neighbours in memory
    (`either_way`: in descending order, too), or read one element. Stores count more than loads."""
    varies = varying(body, access, (axis,), reduced=reduced_vary, accumulated=reduced_vary)
    fitting = (1, -1) if either_way else (1,)

    def misfit(one: Access, stored: bool) -> bool:
        step = one.coefficients[axis].constant
        fits = step in fitting or (step == 0 and not stored)
        return not fits or any(
            varies[lookup.instruction] if lookup.instruction != NONE else axis in one.named_axes()
            for lookup in one.lookups
        )

    return sum(2 * misfit(one, False) for one in access.loads.values()) + sum(
        3 * misfit(one, True) for one in access.stores
    )
