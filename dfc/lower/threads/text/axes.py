"""The axes of a kernel as a device walks them: numbered, and grouped for wide accesses."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.dims import Dim
from dfc.lower.threads.text.lines import Lines, Sizes
from dfc.lower.threads.text.points import AxisPosition, both
from dfc.lower.threads.wide import Wide


def split(
    lines: Lines, sizes: Sizes, number: str, axes: Sequence[int], extents: Sequence[Dim], *, small: bool = False
) -> dict[int, AxisPosition]:
    """The indices of point `number`, a variable, in row-major order of the axes."""
    suffix = "32" if small else ""
    pieces: dict[int, AxisPosition] = {}
    for axis in reversed(axes[1:]):
        extent = sizes.text(extents[axis])
        pieces[axis] = lines.let(f"remainder{suffix}({number}, {extent})", "j"), 0
        number = lines.let(f"quotient{suffix}({number}, {extent})", "j")
    if axes:
        pieces[axes[0]] = number, 0
    return pieces


def wide_condition(wide: Wide, sizes: Sizes) -> str:
    """What must hold when the kernel runs for accesses to be wide; empty where that is known."""
    return both(f"({sizes.text(one)} & {wide.lanes - 1}) == 0" for one in wide.multiples)
