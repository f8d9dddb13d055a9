"""Whole matrices: transposes, triangles, and triangular equations for several right-hand sides at once.

Matrices lie in rows of neighbours, `step` elements apart.
"""

from __future__ import annotations

from dfc.kernels.routines import BLOCK
from dfc_target_cpu.llvm.values import i64
from dfc_target_cpu.routines.notation import LANES, Array, Code, Matrix, Number, procedure
from dfc_target_cpu.routines.vectors import divided, dot, scaled, subtract_rows


@procedure()
def transposed(c: Code, x: Array, step: Number, y: Array, y_step: Number, rows: Number, columns: Number) -> None:
    """y[j, i] = x[i, j], in tiles of vectors by vectors."""

    whole_rows, whole_columns = (Number(c.f, c.f.bit_and(n.value, i64(-LANES))) for n in (rows, columns))
    with c.loop(0, whole_rows, LANES) as i, c.loop(0, whole_columns, LANES) as j:
        lines = [x.at((i + line) * step + j).vector(0) for line in range(LANES)]
        for number, line in enumerate(_turned(c, lines)):
            y.at((j + number) * y_step + i).put(0, line)
    with c.loop(0, whole_rows) as i, c.loop(whole_columns, columns) as j:
        y[j * y_step + i] = x[i * step + j]
    with c.loop(whole_rows, rows) as i, c.loop(0, columns) as j:
        y[j * y_step + i] = x[i * step + j]


def _turned(c: Code, lines: list[Number]) -> list[Number]:
    """The transpose of a tile: neighbours, pairs and fours change places in turn."""
    f, values = c.f, [line.value for line in lines]
    for distance in (1, 2, 4):
        turned = list(values)
        for number in range(LANES):
            if number & distance:
                continue
            upper, lower = values[number], values[number + distance]
            first = [lane if not lane & distance else LANES + lane - distance for lane in range(LANES)]
            second = [lane + distance if not lane & distance else LANES + lane for lane in range(LANES)]
            turned[number] = f.shuffle(upper, lower, first)
            turned[number + distance] = f.shuffle(upper, lower, second)
        values = turned
    return [Number(f, value) for value in values]


@procedure()
def solved_rows(c: Code, t: Array, t_row: Number, t_column: Number, x: Array, step: Number, count: Number, n: Number,
                is_unit: Number) -> None:  # fmt: skip
    """Forward substitution with a lower triangle of `count` rows, whose diagonal is 1 if `is_unit`: x[k] -= t[k, i]
    x[i] for all i < k, then x[k] /= t[k, k]. Each x is a row of `n` elements."""
    with c.loop(0, count) as k:
        here, line = x.at(k * step), t.at(k * t_row)
        subtract_rows(c, here, x, step, line, t_column, k, n)
        with c.when(~is_unit):
            divided(c, here, line[k * t_column], n)


class Memory:
    """Scratch memory: `product` for matrix products, `block` for `BLOCK` rows of a matrix."""

    def __init__(self, product: Array, block: Array) -> None:
        self.product, self.block = product, block


def solve_triangle(c: Code, t: Matrix, x: Matrix, count: Number, n: Number, is_unit: Number, memory: Memory) -> None:
    """As `solved_rows`, block by block, with products for what is done."""
    with c.loop(0, count, BLOCK) as j:
        rows = (count - j).minimum(BLOCK)
        with c.when(j > 0):
            negated(c, t.from_(j, 0).start, t.row, t.column, memory.block, rows, j)
            left = Matrix(memory.block, j)
            c.product(left, x, x.from_(j, 0), (rows, n, j), memory.product, adds=True)
        corner = t.from_(j, j)
        solved_rows(c, corner.start, t.row, t.column, x.line(j), x.row, rows, n, is_unit)


@procedure()
def negated(c: Code, x: Array, row: Number, column: Number, y: Array, rows: Number, columns: Number) -> None:
    """y = -x, in rows without gaps."""
    near = column.equals(1)
    with c.loop(0, rows) as i:
        with c.when(near):
            scaled(c, c.real(-1), x.at(i * row), y.at(i * columns), columns)
        with c.when(~near), c.loop(0, columns) as j:
            y[i * columns + j] = -x[i * row + j * column]


@procedure()
def solved_vector(
    c: Code, t: Array, t_step: Number, x: Array, count: Number, is_lower: Number, is_unit: Number
) -> None:
    """A single right-hand side, whose elements are neighbours, as are those of the rows of the triangle."""
    with c.loop(0, count) as number:
        k = is_lower.choose(number, count - number - 1)
        line = t.at(k * t_step)
        start = is_lower.choose(c.integer(0), k + 1)
        length = is_lower.choose(k, number)
        rest = x[k] - dot(c, line.at(start), x.at(start), length)
        x[k] = rest / is_unit.choose(c.real(1), line[k])
