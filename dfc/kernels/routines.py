"""Routines of linear algebra: what a `RoutineKernel` names, its operands, sizes and scratch memory.

    cholesky(a) -> l            l l^T = a, lower triangular, from the lower triangle; NaN if there is none
    solve(a, b) -> x            a x = b by elimination with partial pivoting; not finite where a pivot is 0
    solve_lower, solve_upper    the same of one triangle of a
    pivots(a) -> d              of that elimination, each with the other sign where rows were exchanged for it
    qr(a) -> q, r               q r = a, the diagonal of r not negative
    eigh(a) -> w, v             of the symmetric part, w ascending, the largest element of each column of v positive
    svd(a) -> u, s, vt          s descending, the largest element of each row of vt (wide: column of u) positive

All operands are f64 and row-major, with a stack in front: the same routine for each matrix of it. Right-hand sides
b and x are matrices, or vectors as those of one column. Guarantees sizes alone: how sums are made is a target's
matter, as with products (`orders.product`), but for this: the bits of a matrix depend neither on the stack nor on
threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dfc.ir.dims import ONE, Dim, dim, minimum, product
from dfc.ir.dtypes import F64
from dfc.kernels.form import Axis, Operand, RoutineKernel

BLOCK = 32
"""Rows or columns that are done one by one before the rest is a matrix product."""
LINES = 12
"""Vectors that an iteration with rotations has."""


class Routine(NamedTuple):
    """`sizes` are the names of its axes behind the stack; from these, `scratch` is a number of f64 elements for each
    matrix, `work` that of multiply-adds, both rough upper bounds. `reads`, `writes`: operands."""

    sizes: tuple[str, ...]
    scratch: Callable[..., Dim]
    work: Callable[..., Dim]
    reads: int = 1
    writes: int = 1


def _elimination(n: Dim, _columns: Dim = ONE) -> Dim:
    return n * n + n * (BLOCK + 1)


def _panel(n: Dim, _columns: Dim = ONE) -> Dim:
    return n * BLOCK


def _triangle_and_panel(n: Dim) -> Dim:
    return n * n + n * BLOCK


def _reflections(count: Dim, rows: Dim) -> Dim:
    """Factors, their triangles, and products with `rows`."""
    return count + (count + BLOCK) * BLOCK + rows * (2 * BLOCK)


def _qr(m: Dim, n: Dim) -> Dim:
    k = minimum(m, n)
    return m * n + k * m + _reflections(k, n)


def _eigh(n: Dim) -> Dim:
    return n * n * 2 + n * 5 + _reflections(n, n)


def _svd(m: Dim, n: Dim) -> Dim:
    k = minimum(m, n)
    return m * n * 2 + k * k * 4 + k * LINES + _reflections(k, k)


def _cube(n: Dim) -> Dim:
    return n * n * n


def _four_cubes(n: Dim) -> Dim:
    return _cube(n) * 4


def _solving(n: Dim, columns: Dim) -> Dim:
    return n * n * (n + columns)


def _substituting(n: Dim, columns: Dim) -> Dim:
    return n * n * columns


def _orthogonal(m: Dim, n: Dim) -> Dim:
    return m * n * minimum(m, n) * 2


def _both_sides(m: Dim, n: Dim) -> Dim:
    return m * n * minimum(m, n) * 8


SOLVE = ("n", "columns")
ROUTINES = {
    "cholesky": Routine(("n",), _triangle_and_panel, _cube),
    "solve": Routine(SOLVE, _elimination, _solving, reads=2),
    "solve_lower": Routine(SOLVE, _panel, _substituting, reads=2),
    "solve_upper": Routine(SOLVE, _panel, _substituting, reads=2),
    "pivots": Routine(("n",), _elimination, _cube),
    "qr": Routine(("m", "n"), _qr, _orthogonal, writes=2),
    "eigh": Routine(("n",), _eigh, _four_cubes, writes=2),
    "svd": Routine(("m", "n"), _svd, _both_sides, writes=3),
}


def routine_kernel(name: str, shapes: Sequence[tuple[Dim, ...]]) -> RoutineKernel:
    """The kernel for operands and results of these shapes; its last operand is scratch memory."""
    routine = ROUTINES[name]
    stack = len(shapes[0]) - 2
    batch = product(shapes[0][:stack])
    extents = shapes[0][stack:]
    if routine.sizes == SOLVE:
        extents = (extents[0], product(shapes[1][stack + 1 :]))
    elif len(routine.sizes) == 1:
        extents = extents[:1]
    axes = (Axis("stack", batch), *map(Axis, routine.sizes, extents))
    access = ("read",) * routine.reads + ("write",) * (routine.writes + 1)
    shapes = (*shapes, (scratch_elements(name, axes),))
    operands = tuple(Operand(F64, shape, mode) for shape, mode in zip(shapes, access, strict=True))
    return RoutineKernel(name, operands, axes)


def scratch_elements(name: str, axes: Sequence[Axis]) -> Dim:
    """Of scratch memory for the whole stack, at least one."""
    stack, *sizes = (axis.extent for axis in axes)
    return stack * ROUTINES[name].scratch(*sizes) + dim(1)


def routine_work(kernel: RoutineKernel) -> Dim:
    """Multiply-adds for the whole stack, roughly."""
    stack, *sizes = (axis.extent for axis in kernel.axes)
    return stack * ROUTINES[kernel.name].work(*sizes)
