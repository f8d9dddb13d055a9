"""eigh: a tridiagonal matrix by reflections, then QR iterations with Wilkinson's shift.

Reflections leave the matrix in its place; one pass over it updates each row and multiplies it with the next v. After
Golub and Van Loan, "Matrix Computations", sections 8.3.1 and 8.3.5.
"""

from __future__ import annotations

from dfc.kernels.routines import BLOCK
from dfc_target_cpu.routines.matrices import transposed
from dfc_target_cpu.routines.notation import Array, Code, Number, procedure
from dfc_target_cpu.routines.reflectors import TRIANGLE, formed, reflector, triangle_of_block
from dfc_target_cpu.routines.rotations import PRECISION, Rotation, ordered, rotated, scale
from dfc_target_cpu.routines.vectors import add_scaled, copied, dot, filled, largest, scaled

ITERATIONS = 30
"""For each eigenvalue; two are usual."""


@procedure()
def eigh(c: Code, a: Array, values: Array, vectors: Array, scratch: Array, product: Array, n: Number) -> None:
    """Ascending eigenvalues and their vectors as columns, the largest element of each positive; NaN where `a` has
    something that is not finite."""
    lines = scratch.at(n * n)
    d, e = lines.at(n * n), lines.at(n * n + n)
    cosines, sines, order = e.at(n), e.at(n * 2), e.at(n * 3)
    rest = e.at(n * 4)
    factor = symmetric_part(c, a, scratch, n)
    with c.when(factor.equals(factor) & (n > 0)):
        tridiagonal(c, scratch, d, e, cosines, sines, order, n)
        vectors_of_reflections(c, scratch, cosines, lines, rest, product, n)
        is_done = iterated(c, d, e, lines, cosines, sines, n)
        ordered(c, d, order, n, c.integer(0).equals(0))
        with c.loop(0, n) as i:
            number = order.integers()[i]
            values[i] = d[number] / factor
            line = lines.at(number * n)
            sign = (line[largest(c, line, n)] < 0).choose(c.real(-1), 1.0)
            scaled(c, sign, line, scratch.at(i * n), n)
        transposed(c, scratch, n, vectors, n, n, n)
        _spoil(c, is_done.differs(1), values, vectors, n)
    _spoil(c, factor.differs(factor), values, vectors, n)


def _spoil(c: Code, condition: Number, values: Array, vectors: Array, n: Number) -> None:
    with c.when(condition):
        filled(c, values, c.real(float("nan")), n)
        filled(c, vectors, c.real(float("nan")), n * n)


@procedure("double")
def symmetric_part(c: Code, a: Array, target: Array, n: Number) -> Number:
    """(a + a^T) / 2, scaled; by what (NaN if it is not finite)."""
    transposed(c, a, n, target, n, n, n)
    add_scaled(c, c.real(1), a, target, n * n)
    factor = scale(c, target, n * n)
    scaled(c, factor, target, target, n * n)
    return factor + factor


@procedure()
def tridiagonal(c: Code, a: Array, d: Array, e: Array, tau: Array, p: Array, w: Array, n: Number) -> None:
    """d and e of the tridiagonal matrix; row k of `a` keeps the v of reflection k from its element k + 1 on."""
    filled(c, w, c.real(0), n)
    filled(c, p, c.real(0), n)
    with c.loop(0, n) as k:
        line, rest = a.at(k * n), n - k - 1
        before = k.equals(0).choose_array(p, a.at((k - 1) * n))
        add_scaled(c, -before[k], w.at(k), line.at(k), rest + 1)
        add_scaled(c, -w[k], before.at(k), line.at(k), rest + 1)
        d[k] = line[k]
        v = line.at(k + 1)
        with c.when(rest > 0):
            e[k] = reflector(c, v, rest, tau.at(k))
            with c.loop(k + 1, n) as i:
                row = a.at(i * n + k + 1)
                product = updated(c, row, before.at(k + 1), w[i], w.at(k + 1), before[i], v, rest)
                p[i] = product * tau[k]
            half = dot(c, p.at(k + 1), v, rest) * tau[k] * -0.5
            copied(c, p.at(k + 1), w.at(k + 1), rest)
            add_scaled(c, half, v, w.at(k + 1), rest)


@procedure("double")
def updated(c: Code, x: Array, v: Array, w_here: Number, w: Array, v_here: Number, u: Array, n: Number) -> Number:
    """x -= w_here v + v_here w; then the dot product of x and u."""
    total = c.variable(c.vector(0))
    first, second = (-w_here).splat(), (-v_here).splat()
    with c.vectors(n) as (i, mask):
        value = first.fma(v.vector(i, mask), second.fma(w.vector(i, mask), x.vector(i, mask)))
        x.put(i, value, mask)
        total.value = value.fma(u.vector(i, mask), total.value)
    return c.sum_lanes(total.value)


@procedure()
def vectors_of_reflections(c: Code, a: Array, tau: Array, lines: Array, memory: Array, product: Array,
                           n: Number) -> None:  # fmt: skip
    """The product of the reflections, transposed: the first row and column are those of the identity."""
    count, v = n - 1, a.at(1)
    triangles, rest = memory, memory.at((n + BLOCK) * TRIANGLE)
    with c.loop(0, count, BLOCK) as j:
        size = (count - j).minimum(BLOCK)
        with c.loop(0, size) as i:
            filled(c, v.at((j + i) * n + j), c.real(0), i)
        triangle_of_block(c, v.at(j * n + j), n, tau.at(j), triangles.at(j * TRIANGLE), size, count - j)
    filled(c, lines, c.real(0), n)
    lines[0] = c.real(1)
    with c.loop(1, n) as i:
        lines[i * n] = c.real(0)
    formed(c, v, n, triangles, lines.at(n + 1), n, count, count, rest, product)


@procedure("double")
def iterated(c: Code, d: Array, e: Array, lines: Array, cosines: Array, sines: Array, n: Number) -> Number:
    """Makes e vanish, and rotates the rows of `lines` along; 1, or 0 if it takes too long."""
    last, left = c.variable(n - 1), c.variable(n * ITERATIONS)
    with c.loop_while(lambda: (last.value > 0) & (left.value > 0)):
        end = last.value
        start = c.variable(end)
        with c.loop_while(lambda: (start.value > 0) & ~_is_small(d, e, (start.value - 1).maximum(0))):
            start.value = start.value - 1
        first = start.value
        with c.when(first.equals(end)):
            last.value = end - 1
        with c.when(first < end):
            left.value = left.value - 1
            with c.when(first > 0):
                e[first - 1] = c.real(0)
            _sweep(c, d, e, cosines, sines, first, end)
            rotated(c, lines.at(first * n), n, cosines, sines, end - first, n)
    return (left.value > 0).choose(c.real(1), 0.0)


def _is_small(d: Array, e: Array, k: Number) -> Number:
    return e[k].abs() <= (d[k].abs() + d[k + 1].abs()) * PRECISION + 2.0**-500


def _sweep(c: Code, d: Array, e: Array, cosines: Array, sines: Array, first: Number, end: Number) -> None:
    """One implicit QR step on the rows from `first` to `end`."""
    half, corner = (d[end - 1] - d[end]) * 0.5, e[end - 1]
    size = half.fma(half, corner * corner).sqrt()
    shift = d[end] - corner * corner / (half + size.with_sign_of(half))
    x, z = c.variable(d[first] - shift), c.variable(e[first])
    with c.loop(first, end) as k:
        turn = Rotation(c, x.value, z.value)
        with c.when(k > first):
            e[k - 1] = turn.length
        cosines[k - first], sines[k - first] = turn.cosine, turn.sine
        cosine, sine, upper, lower, edge = turn.cosine, turn.sine, d[k], d[k + 1], e[k]
        mixed = sine.fma(lower - upper, cosine * edge * 2.0)
        d[k], d[k + 1] = sine.fma(mixed, upper), lower - sine * mixed
        e[k] = cosine.fma(mixed, -edge)
        x.value = e[k]
        with c.when(k + 1 < end):
            z.value = sine * e[k + 1]
            e[k + 1] = cosine * e[k + 1]
