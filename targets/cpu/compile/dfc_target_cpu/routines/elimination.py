"""Gaussian elimination with partial pivoting: solve, pivots (what determinants are made of), triangular equations.

A panel of `BLOCK` columns is copied so that its columns are neighbours, factored there column by column, and copied
back; then its rows are exchanged in the rest, and what is right of it below gets a matrix product (right-looking, as in
Golub and Van Loan, "Matrix Computations", section 3.4).
"""

from __future__ import annotations

from dfc.kernels.routines import BLOCK
from dfc_target_cpu.llvm.values import i64
from dfc_target_cpu.routines.matrices import (
    Memory,
    solve_triangle,
    solved_rows,
    solved_vector,
    transposed,
)
from dfc_target_cpu.routines.notation import Array, Code, Matrix, Number, procedure
from dfc_target_cpu.routines.vectors import STRIP, copied, divided, exchanged, largest, scaled


@procedure()
def solve(c: Code, a: Array, b: Array, x: Array, scratch: Array, product: Array, n: Number, count: Number) -> None:
    """One matrix, `count` right-hand sides."""
    lu, block, order = _memory(scratch, n)
    copied(c, a, lu, n * n)
    copied(c, b, x, n * count)
    factored(c, lu, block, order, product, n, c.integer(0).equals(0))
    with c.loop(0, n) as k:
        other = order.integers()[k]
        with c.when(other.differs(k)):
            exchanged(c, x.at(k * count), x.at(other * count), count)
    yes, no = c.integer(0).equals(0), c.integer(0).equals(1)
    memory, factors, unknowns = Memory(product, block), Matrix(lu, n), Matrix(x, count)
    with c.when(count.equals(1)):
        solved_vector(c, lu, n, x, n, yes, yes)
        solved_vector(c, lu, n, x, n, no, no)
    with c.when(count > 1):
        solve_triangle(c, factors, unknowns, n, count, yes, memory)
        solve_triangle(c, factors.backwards(n, n), unknowns.backwards(n), n, count, no, memory)


def _memory(scratch: Array, n: Number) -> tuple[Array, Array, Array]:
    """The matrix, a panel, and the numbers of rows."""
    block = scratch.at(n * n)
    return scratch, block, block.at(n * BLOCK)


@procedure()
def pivots(c: Code, a: Array, result: Array, scratch: Array, product: Array, n: Number) -> None:
    """The pivot of each column, with the other sign where rows were exchanged for it."""
    lu, block, order = _memory(scratch, n)
    copied(c, a, lu, n * n)
    factored(c, lu, block, order, product, n, c.integer(0).equals(1))
    with c.loop(0, n) as k:
        pivot = lu[k * n + k]
        result[k] = order.integers()[k].differs(k).choose(-pivot, pivot)


@procedure()
def factored(c: Code, lu: Array, panel: Array, order: Array, product: Array, n: Number,
             is_strict: Number) -> None:  # fmt: skip
    """L (without its diagonal of 1) and U in place; order[k]: the row that k changed places with. Where a pivot is 0,
    what comes after it is not finite if `is_strict`."""
    whole = Matrix(lu, n)
    with c.loop(0, n, BLOCK) as j:
        columns, rows = (n - j).minimum(BLOCK), n - j
        corner = whole.from_(j, j)
        transposed(c, corner.start, n, panel, rows, rows, columns)
        factored_panel(c, panel, order.at(j), rows, columns, is_strict)
        transposed(c, panel, rows, corner.start, n, columns, rows)
        right, rest = j + columns, n - j - columns
        with c.loop(0, columns) as k:
            other = order.at(j).integers()[k]
            here, there = lu.at((j + k) * n), lu.at((j + other) * n)
            with c.when(other.differs(k)):
                exchanged(c, here, there, j)
                exchanged(c, here.at(right), there.at(right), rest)
            order.at(j).integers()[k] = other + j
        with c.when(rest > 0):
            right_block = whole.from_(j, right)
            solved_rows(c, corner.start, n, c.integer(1), right_block.start, n, columns, rest, c.integer(0).equals(0))
            scaled(c, c.real(-1), panel, panel, rows * columns)
            below = Matrix(panel.at(columns), c.integer(1), rows)
            c.product(below, right_block, whole.from_(right, right), (rest, rest, columns), product, adds=True)


@procedure()
def factored_panel(c: Code, panel: Array, order: Array, rows: Number, columns: Number,
                   is_strict: Number) -> None:  # fmt: skip
    """The columns of a panel, each a row here."""
    with c.loop(0, columns) as k:
        column = panel.at(k * rows)
        other = k + largest(c, column.at(k), rows - k)
        order.integers()[k] = other
        with c.when(other.differs(k)), c.loop(0, columns) as i:
            line = panel.at(i * rows)
            upper, lower = line[k], line[other]
            line[k], line[other] = lower, upper
        pivot = column[k]
        with c.when(is_strict | pivot.differs(0)):
            divided(c, column.at(k + 1), pivot, rows - k - 1)
        right = panel.at((k + 1) * rows + k)
        eliminated(c, column.at(k + 1), right, rows, columns - k - 1, rows - k - 1)


@procedure()
def eliminated(c: Code, x: Array, y: Array, step: Number, count: Number, n: Number) -> None:
    """y[1:] -= y[0] x for each of `count` rows y of 1 + `n` elements, several at a time."""

    def together(first: Number, several: int) -> None:
        lines = [y.at((first + number) * step) for number in range(several)]
        factors = [(-line[0]).splat() for line in lines]
        with c.vectors(n) as (j, mask):
            common = x.vector(j, mask)
            for line, factor in zip(lines, factors, strict=True):
                line.put(j + 1, factor.fma(common, line.vector(j + 1, mask)), mask)

    whole = Number(c.f, c.f.bit_and(count.value, i64(-STRIP)))
    with c.loop(0, whole, STRIP) as i:
        together(i, STRIP)
    with c.loop(whole, count) as i:
        together(i, 1)


@procedure()
def solve_lower(
    c: Code, a: Array, b: Array, x: Array, scratch: Array, product: Array, n: Number, count: Number
) -> None:
    """Of the lower triangle of one matrix."""
    _triangle(c, (a, b, x, scratch, product), n, count, is_lower=True)


@procedure()
def solve_upper(
    c: Code, a: Array, b: Array, x: Array, scratch: Array, product: Array, n: Number, count: Number
) -> None:
    """Of the upper triangle of one matrix."""
    _triangle(c, (a, b, x, scratch, product), n, count, is_lower=False)


def _triangle(c: Code, memory: tuple[Array, ...], n: Number, count: Number, *, is_lower: bool) -> None:
    a, b, x, scratch, product = memory
    copied(c, b, x, n * count)
    no = c.integer(0).equals(1)
    with c.when(count.equals(1)):
        solved_vector(c, a, n, x, n, c.integer(0).equals(0 if is_lower else 1), no)
    with c.when(count > 1):
        factors, unknowns = Matrix(a, n), Matrix(x, count)
        if not is_lower:
            factors, unknowns = factors.backwards(n, n), unknowns.backwards(n)
        solve_triangle(c, factors, unknowns, n, count, no, Memory(product, scratch))
