"""svd: QR of the longer side, a bidiagonal matrix by reflections, then QR iterations on it.

Golub and Van Loan, "Matrix Computations", section 8.6; steps without a shift, where a shift would spoil small singular
values, after Demmel and Kahan, "Accurate singular values of bidiagonal matrices", 1990.
"""

from __future__ import annotations

from dfc.kernels.routines import BLOCK, LINES
from dfc_target_cpu.routines.matrices import transposed
from dfc_target_cpu.routines.notation import Array, Code, Matrix, Number, procedure
from dfc_target_cpu.routines.orthogonal import factored_rows
from dfc_target_cpu.routines.reflectors import TRIANGLE, formed, reflector, triangle_of_block
from dfc_target_cpu.routines.rotations import PRECISION, Rotation, ordered, rotated, scale
from dfc_target_cpu.routines.symmetric import ITERATIONS
from dfc_target_cpu.routines.vectors import add_scaled, copied, dot, filled, largest, scaled


@procedure()
def svd(c: Code, a: Array, u: Array, s: Array, vt: Array, scratch: Array, product: Array, m: Number,
        n: Number) -> None:  # fmt: skip
    """All three factors of one matrix; NaN where it has something that is not finite."""
    k, long, is_tall = m.minimum(n), m.maximum(n), m >= n
    area = k * k
    rows, turned = scratch, scratch.at(k * long)
    middle = turned.at(k * long)
    left, right, sorted_, lines = middle.at(area), middle.at(area * 2), middle.at(area * 3), middle.at(area * 4)
    memory = lines.at(k * LINES)
    with c.when(is_tall):
        transposed(c, a, n, rows, m, m, n)
    with c.when(~is_tall):
        copied(c, a, rows, m * n)
    factor = scale(c, rows, m * n)
    with c.when(factor.equals(factor)):
        scaled(c, factor, rows, rows, m * n)
        factored_rows(c, rows, middle, k, turned, long, k, memory, product)
        is_done = inner_svd(c, middle, left, right, sorted_, lines, memory, product, k)
        number = c.variable(c.integer(0))
        order = lines.at(k * (LINES - 1))
        ordered(c, lines, order, k, c.integer(0).equals(1))
        with c.loop(0, k) as i:
            number.value = order.integers()[i]
            s[i] = lines[number.value] / factor
            line = right.at(number.value * k)
            sign = (line[largest(c, line, k)] < 0).choose(c.real(-1), 1.0)
            scaled(c, sign, left.at(number.value * k), middle.at(i * k), k)
            scaled(c, sign, line, sorted_.at(i * k), k)
        with c.when(is_done.differs(1)):
            filled(c, s, c.real(float("nan")), k)
            filled(c, middle, c.real(float("nan")), area)
            filled(c, sorted_, c.real(float("nan")), area)
        side, across = Matrix(middle, k), Matrix(turned, long)
        with c.when(is_tall):
            c.product(across.turned(), side.turned(), Matrix(u, k), (long, k, k), product, adds=False)
            copied(c, sorted_, vt, area)
        with c.when(~is_tall):
            transposed(c, sorted_, k, u, k, k, k)
            c.product(side, across, Matrix(vt, long), (k, long, k), product, adds=False)
    with c.when(factor.differs(factor)):
        filled(c, u, factor, m * k)
        filled(c, s, factor, k)
        filled(c, vt, factor, k * n)


@procedure("double")
def inner_svd(c: Code, x: Array, left: Array, right: Array, u: Array, lines: Array, memory: Array, product: Array,
              n: Number) -> Number:  # fmt: skip
    """Of a square matrix: singular values, not sorted, in front of `lines`; U^T and V^T. 1, or 0 if it fails."""
    d, e, tau_u, tau_v = lines, lines.at(n), lines.at(n * 2), lines.at(n * 3)
    turns = lines.at(n * 4)
    filled(c, u, c.real(0), n * n)
    bidiagonal(c, x, u, lines, n)
    triangles, rest = memory, memory.at((n + BLOCK) * TRIANGLE)
    _form(c, u, tau_u, left, (triangles, rest, product), n, n)
    filled(c, right, c.real(0), n)
    with c.loop(0, n) as i:
        right[i * n] = c.real(0)
    with c.when(n > 0):
        right[0] = c.real(1)
    _form(c, x.at(1), tau_v, right.at(n + 1), (triangles, rest, product), n - 1, n)
    is_done = iterated_pair(c, d, e, left, right, turns, n)
    with c.loop(0, n) as i, c.when(d[i] < 0):
        d[i] = -d[i]
        scaled(c, c.real(-1), right.at(i * n), right.at(i * n), n)
    return is_done


def _form(c: Code, v: Array, tau: Array, target: Array, memory: tuple[Array, Array, Array], count: Number,
          step: Number) -> None:  # fmt: skip
    triangles, rest, product = memory
    with c.loop(0, count, BLOCK) as j:
        size = (count - j).minimum(BLOCK)
        with c.loop(0, size) as i:
            filled(c, v.at((j + i) * step + j), c.real(0), i)
        triangle_of_block(c, v.at(j * step + j), step, tau.at(j), triangles.at(j * TRIANGLE), size, count - j)
    formed(c, v, step, triangles, target, step, count, count, rest, product)


@procedure()
def bidiagonal(c: Code, x: Array, u: Array, lines: Array, n: Number) -> None:
    """d and e of U^T x V; row k of `u` has the v of the reflection of rows from its element k on, row k of `x` that of
    columns from k + 1 on. What a step changes is written with the pass of the next one: x - u y^T - z v^T."""
    d, e, tau_u, tau_v, old_u, old_y, old_z, old_v, y = (lines.at(n * number) for number in range(9))
    filled(c, old_u, c.real(0), n * 4)
    with c.loop(0, n) as k:
        rest, column = n - k - 1, u.at(k * n)
        with c.loop(k, n) as i:
            column[i] = x[i * n + k] - old_u[i] * old_y[k] - old_z[i] * old_v[k]
        d[k] = reflector(c, column.at(k), n - k, tau_u.at(k))
        filled(c, y, c.real(0), n)
        with c.loop(k, n) as i:
            row = x.at(i * n + k + 1)
            updated_and_added(
                c, row, old_y.at(k + 1), old_u[i], old_v.at(k + 1), old_z[i], y.at(k + 1), column[i], rest
            )
        scaled(c, tau_u[k], y, y, n)
        with c.when(rest > 0):
            v = x.at(k * n + k + 1)
            add_scaled(c, c.real(-1), y.at(k + 1), v, rest)
            e[k] = reflector(c, v, rest, tau_v.at(k))
            along = dot(c, y.at(k + 1), v, rest)
            with c.loop(k + 1, n) as i:
                inside = dot(c, x.at(i * n + k + 1), v, rest)
                old_z[i] = (inside - column[i] * along) * tau_v[k]
            copied(c, v, old_v.at(k + 1), rest)
            copied(c, y.at(k + 1), old_y.at(k + 1), rest)
            copied(c, column.at(k), old_u.at(k), n - k)


@procedure()
def updated_and_added(c: Code, x: Array, y: Array, u: Number, v: Array, z: Number, total: Array, factor: Number,
                      n: Number) -> None:  # fmt: skip
    """x -= u y + z v, then total += factor x."""
    first, second, third = (-u).splat(), (-z).splat(), factor.splat()
    with c.vectors(n) as (i, mask):
        value = first.fma(y.vector(i, mask), second.fma(v.vector(i, mask), x.vector(i, mask)))
        x.put(i, value, mask)
        total.put(i, third.fma(value, total.vector(i, mask)), mask)


@procedure("double")
def iterated_pair(c: Code, d: Array, e: Array, left: Array, right: Array, turns: Array, n: Number) -> Number:
    """Makes e vanish, and rotates the rows of both sides along; 1, or 0 if it takes too long."""
    last, left_over = c.variable(n - 1), c.variable(n * ITERATIONS)
    size = c.variable(c.real(0))
    with c.loop(0, n) as i:
        larger = d[i].abs() + (i + 1 < n).choose(e[i].abs(), 0.0)
        size.value = (larger > size.value).choose(larger, size.value)
    least = size.value * PRECISION * 2.0**-4
    rotations = tuple(turns.at(n * number) for number in range(4))
    with c.loop_while(lambda: (last.value > 0) & (left_over.value > 0)):
        end = last.value
        start = c.variable(end)
        with c.loop_while(lambda: (start.value > 0) & (e[(start.value - 1).maximum(0)].abs() > least)):
            start.value = start.value - 1
        first = start.value
        with c.when(first.equals(end)):
            last.value = end - 1
        with c.when(first < end):
            left_over.value = left_over.value - 1
            with c.when(first > 0):
                e[first - 1] = c.real(0)
            shift = _shift(c, d, e, first, end, least)
            with c.when(shift.equals(0)):
                _plain_sweep(c, d, e, rotations, first, end)
            with c.when(shift.differs(0)):
                _shifted_sweep(c, d, e, rotations, first, end, shift)
            count = end - first
            rotated(c, right.at(first * n), n, rotations[0], rotations[1], count, n)
            rotated(c, left.at(first * n), n, rotations[2], rotations[3], count, n)
    return (left_over.value > 0).choose(c.real(1), 0.0)


def _shift(c: Code, d: Array, e: Array, first: Number, end: Number, least: Number) -> Number:
    """The smaller singular value of the last two rows and columns; 0 if it would not be felt, or a diagonal is 0."""
    smallest = c.variable(d[end].abs())
    with c.loop(first, end) as i:
        smallest.value = (d[i].abs() < smallest.value).choose(d[i].abs(), smallest.value)
    f, g, h = d[end - 1].abs(), e[end - 1].abs(), d[end].abs()
    total, difference = f + h, f - h
    sums = total.fma(total, g * g).sqrt() + difference.fma(difference, g * g).sqrt()
    shift = f * h * 2.0 / sums
    ratio = shift / d[first]
    is_felt = (ratio * ratio > PRECISION) & (smallest.value > least)
    return is_felt.choose(shift, 0.0)


Rotations = tuple[Array, ...]


def _plain_sweep(c: Code, d: Array, e: Array, rotations: Rotations, first: Number, end: Number) -> None:
    """Without a shift; a diagonal of 0 ends up last, with nothing beside it."""
    cosine, old_cosine, old_sine = c.variable(c.real(1)), c.variable(c.real(1)), c.variable(c.real(0))
    with c.loop(first, end) as i:
        turn = Rotation(c, d[i] * cosine.value, e[i])
        with c.when(i > first):
            e[i - 1] = old_sine.value * turn.length
        second = Rotation(c, old_cosine.value * turn.length, d[i + 1] * turn.sine)
        d[i] = second.length
        _note(rotations, i - first, turn, second)
        cosine.value, old_cosine.value, old_sine.value = turn.cosine, second.cosine, second.sine
    rest = d[end] * cosine.value
    d[end], e[end - 1] = rest * old_cosine.value, rest * old_sine.value


def _shifted_sweep(
    c: Code, d: Array, e: Array, rotations: Rotations, first: Number, end: Number, shift: Number
) -> None:
    top = d[first]
    x = c.variable((top.abs() - shift) * (c.real(1).with_sign_of(top) + shift / top))
    z = c.variable(e[first])
    with c.loop(first, end) as i:
        turn = Rotation(c, x.value, z.value)
        with c.when(i > first):
            e[i - 1] = turn.length
        here, edge = d[i], e[i]
        x.value = turn.cosine.fma(here, turn.sine * edge)
        edge = turn.cosine.fma(edge, -(turn.sine * here))
        below = turn.cosine * d[i + 1]
        second = Rotation(c, x.value, turn.sine * d[i + 1])
        d[i] = second.length
        x.value = second.cosine.fma(edge, second.sine * below)
        d[i + 1] = second.cosine.fma(below, -(second.sine * edge))
        with c.when(i + 1 < end):
            z.value = second.sine * e[i + 1]
            e[i + 1] = second.cosine * e[i + 1]
        _note(rotations, i - first, turn, second)
    e[end - 1] = x.value


def _note(rotations: Rotations, number: Number, right: Rotation, left: Rotation) -> None:
    turns = (right.cosine, right.sine, left.cosine, left.sine)
    for array, value in zip(rotations, turns, strict=True):
        array[number] = value
