"""qr by Householder reflections in blocks, on the transpose of the matrix: its columns are rows of neighbours."""

from __future__ import annotations

from dfc.kernels.routines import BLOCK
from dfc_target_cpu.routines.matrices import transposed
from dfc_target_cpu.routines.notation import Array, Code, Matrix, Number, procedure
from dfc_target_cpu.routines.reflectors import (
    TRIANGLE,
    Block,
    apply_block,
    formed,
    reflected,
    reflector,
    triangle_of_block,
)
from dfc_target_cpu.routines.rotations import scale
from dfc_target_cpu.routines.vectors import filled, scaled


@procedure()
def qr(c: Code, a: Array, q: Array, r: Array, scratch: Array, product: Array, m: Number, n: Number) -> None:
    """Both factors of one matrix; the diagonal of r is not negative."""
    k = m.minimum(n)
    columns, turned = scratch, scratch.at(m * n)
    rest = turned.at(k * m)
    transposed(c, a, n, columns, m, m, n)
    factor = scale(c, columns, m * n)
    scaled(c, factor, columns, columns, m * n)
    factored_rows(c, columns, r, n, turned, m, n, rest, product)
    with c.loop(0, k) as i, c.when(r[i * n + i] < 0):
        scaled(c, c.real(-1), r.at(i * n + i), r.at(i * n + i), n - i)
        scaled(c, c.real(-1), turned.at(i * m), turned.at(i * m), m)
    scaled(c, c.real(1) / factor, r, r, k * n)
    transposed(c, turned, m, q, k, k, m)


@procedure()
def factored_rows(c: Code, x: Array, r: Array, r_step: Number, q: Array, m: Number, n: Number, memory: Array,
                  product: Array) -> None:  # fmt: skip
    """Of the `n` rows of `m` elements that are columns of a matrix: r, and Q^T in `q`. `x` keeps the reflections.

    `memory` has room for min(m, n) numbers, their triangles, and 2 max(m, n) by `BLOCK`."""
    k = m.minimum(n)
    tau, t = memory, memory.at(k)
    rest = t.at((k + BLOCK) * TRIANGLE)
    with c.loop(0, k, BLOCK) as j:
        count = (k - j).minimum(BLOCK)
        triangle, here = t.at(j * TRIANGLE), x.at(j * m + j)
        factored_block(c, x, r, r_step, tau, m, j, count)
        triangle_of_block(c, here, m, tau.at(j), triangle, count, m - j)
        below = n - j - count
        with c.when(below > 0):
            block = Block(Matrix(here, m), Matrix(triangle, c.integer(TRIANGLE)), count, m - j)
            apply_block(c, Matrix(x, m).from_(j + count, j), below, block, rest, product)
    with c.loop(k, n) as i:
        _column(c, x.at(i * m), r.at(i), r_step, k)
    formed(c, x, m, t, q, m, k, m, rest, product)


def _column(c: Code, x: Array, r: Array, r_step: Number, count: Number) -> None:
    with c.loop(0, count) as p:
        r[p * r_step] = x[p]


@procedure()
def factored_block(c: Code, x: Array, r: Array, r_step: Number, tau: Array, m: Number, j: Number,
                   count: Number) -> None:  # fmt: skip
    """The reflections of some columns from `j` on, and these columns of r; what is in front of a v becomes 0."""
    with c.loop(0, count) as number:
        i = j + number
        line = x.at(i * m)
        diagonal = reflector(c, line.at(i), m - i, tau.at(i))
        _column(c, line, r.at(i), r_step, i)
        r[i * r_step + i] = diagonal
        with c.loop(i + 1, m.minimum(r_step)) as p:
            r[p * r_step + i] = c.real(0)
        filled(c, line.at(j), c.real(0), number)
        reflected(c, line.at(i), tau[i], line.at(m + i), m, count - number - 1, m - i)
