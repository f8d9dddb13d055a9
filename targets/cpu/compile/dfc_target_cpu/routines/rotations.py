"""Plane rotations of neighbouring rows, and what keeps iterations with them from overflow.

An iteration works on a band of numbers and writes down its rotations; the rows of whole matrices are rotated
afterwards, strip by strip, so that each strip stays in registers or the nearest cache.
"""

from __future__ import annotations

from dfc_target_cpu.llvm.values import i64
from dfc_target_cpu.routines.notation import LANES, Array, Code, Number, procedure
from dfc_target_cpu.routines.vectors import STRIP, largest, strips

PRECISION = 2.0**-52
_ONE, _MOST = 1 << 52, 0x7FD << 52
_INVERSE = 0x7FE << 52


class Rotation:
    """cosine x + sine z = length, cosine z - sine x = 0."""

    def __init__(self, c: Code, x: Number, z: Number) -> None:
        length = x.fma(x, z * z).sqrt()
        is_idle = z.equals(0) | length.equals(0)
        divisor = is_idle.choose(c.real(1), length)
        self.cosine = is_idle.choose(c.real(1), x / divisor)
        self.sine = is_idle.choose(c.real(0), z / divisor)
        self.length = is_idle.choose(x, length)


@procedure()
def rotated(c: Code, x: Array, step: Number, cosines: Array, sines: Array, count: Number, n: Number) -> None:
    """Rows 0 and 1, then 1 and 2, and so on, `count` pairs: (p, q) becomes (c p + s q, c q - s p)."""

    def strip(at: Number, mask: Number | None, vectors: int) -> None:
        offsets = [at + number * LANES for number in range(vectors)]
        carried = [c.variable(x.vector(offset, mask)) for offset in offsets]
        with c.loop(0, count) as row:
            cosine, sine = cosines[row].splat(), sines[row].splat()
            here, below = x.at(row * step), x.at((row + 1) * step)
            for offset, carry in zip(offsets, carried, strict=True):
                p, q = carry.value, below.vector(offset, mask)
                here.put(offset, cosine.fma(p, sine * q), mask)
                carry.value = cosine.fma(q, -(sine * p))
        for offset, carry in zip(offsets, carried, strict=True):
            x.at(count * step).put(offset, carry.value, mask)

    with c.when(count > 0):
        with c.loop(0, strips(n), STRIP * LANES) as i:
            strip(i, None, STRIP)
        with c.loop(strips(n), n, LANES) as i:
            strip(i, c.tail(n - i), 1)


@procedure("double")
def scale(c: Code, x: Array, n: Number) -> Number:
    """A power of 2 that makes the largest element at least 1 and below 2; NaN if an element is not finite."""
    zeros = c.variable(c.vector(0))
    with c.vectors(n) as (i, mask):
        zeros.value = x.vector(i, mask).fma(c.vector(0), zeros.value)
    size = c.variable(c.real(0))
    with c.when(n > 0):
        size.value = x[largest(c, x, n)].abs()
    f = c.f
    bits = Number(f, f.bit_and(f.cast("bitcast", size.value.value, "i64"), i64(0x7FF << 52)))
    inverse = c.integer(_INVERSE) - bits.maximum(_ONE).minimum(_MOST)
    factor = Number(f, f.cast("bitcast", inverse.value, "double"))
    return size.value.equals(0).choose(c.real(1), factor) + c.sum_lanes(zeros.value)


@procedure()
def ordered(c: Code, x: Array, order: Array, n: Number, is_ascending: Number) -> None:
    """The numbers of the elements in ascending or descending order, equal ones as they stand."""
    numbers = order.integers()
    with c.loop(0, n) as i:
        where = c.variable(i)
        numbers[i] = i

        def is_apart() -> Number:
            before = x[numbers[(where.value - 1).maximum(0)]]
            apart = is_ascending.choose(before, x[i]) > is_ascending.choose(x[i], before)
            return (where.value > 0) & apart

        with c.loop_while(is_apart):
            numbers[where.value] = numbers[where.value - 1]
            where.value = where.value - 1
        numbers[where.value] = i
