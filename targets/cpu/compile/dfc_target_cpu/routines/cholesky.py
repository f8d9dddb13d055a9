"""cholesky: U, row-major, with U^T U = a from the lower triangle of `a`, block row by block row; the result is U^T.

Each block row is first freed of what the rows above it give, as a matrix product, and then done row by row: the
left-looking block algorithm of Golub and Van Loan, "Matrix Computations", section 4.2.
"""

from __future__ import annotations

from dfc.kernels.routines import BLOCK
from dfc_target_cpu.routines.matrices import negated, transposed
from dfc_target_cpu.routines.notation import Array, Code, Matrix, Number, procedure
from dfc_target_cpu.routines.vectors import divided, filled, subtract_rows


@procedure()
def cholesky(c: Code, a: Array, factor: Array, scratch: Array, product: Array, n: Number) -> None:
    """The lower triangular factor of one matrix; NaN in all of it where a pivot is not positive."""
    upper, panel = scratch, scratch.at(n * n)
    transposed(c, a, n, upper, n, n, n)
    is_fine = c.variable(c.real(1))
    whole = Matrix(upper, n)
    with c.loop(0, n, BLOCK) as j:
        rows, columns = (n - j).minimum(BLOCK), n - j
        corner = whole.from_(j, j)
        with c.when(j > 0):
            negated(c, upper.at(j), c.integer(1), n, panel, rows, j)
            c.product(Matrix(panel, j), whole.from_(0, j), corner, (rows, columns, j), product, adds=True)
        is_fine.value = is_fine.value * block_row(c, corner.start, n, rows, columns)
    transposed(c, upper, n, factor, n, n, n)
    with c.loop(0, n) as i:
        filled(c, factor.at(i * n + i + 1), c.real(0), n - i - 1)
    with c.when(is_fine.value.differs(1)):
        filled(c, factor, c.real(float("nan")), n * n)


@procedure("double")
def block_row(c: Code, u: Array, step: Number, rows: Number, columns: Number) -> Number:
    """The factor of some rows from their diagonal on; 1, or 0 where a pivot is not positive."""
    is_fine = c.variable(c.real(1))
    with c.loop(0, rows) as k:
        line = u.at(k * step + k)
        subtract_rows(c, line, u.at(k), step, u.at(k), step, k, columns - k)
        pivot = line[0]
        is_fine.value = ((pivot > 0) & (pivot < float("inf"))).choose(is_fine.value, 0.0)
        divided(c, line, pivot.sqrt(), columns - k)
    return is_fine.value
