"""What routines do with rows of matrices, whose elements are neighbours.

Guarantees sums of a fixed order: `STRIP` partial sums for a dot product, one chain of multiply-adds for each element of
a combination of rows. A length of 0 is allowed.
"""

from __future__ import annotations

from dfc_target_cpu.llvm.values import constant, vector_constant
from dfc_target_cpu.routines.notation import LANES, Array, Code, Number, procedure

STRIP = 4
"""Vectors that are worked on together."""


@procedure("double")
def dot(c: Code, x: Array, y: Array, n: Number) -> Number:
    """The sum of products."""
    sums = [c.variable(c.vector(0)) for _ in range(STRIP)]
    whole = strips(n)
    with c.loop(0, whole, STRIP * LANES) as i:
        for number, total in enumerate(sums):
            at = i + number * LANES
            total.value = x.vector(at).fma(y.vector(at), total.value)
    with c.loop(whole, n, LANES) as i:
        mask = c.tail(n - i)
        sums[0].value = x.vector(i, mask).fma(y.vector(i, mask), sums[0].value)
    first, second, third, fourth = (total.value for total in sums)
    return c.sum_lanes((first + second) + (third + fourth))


def strips(n: Number) -> Number:
    """The elements of `n` that fill whole strips."""
    f = n.f
    return Number(f, f.bit_and(n.value, constant("i64", -STRIP * LANES)))


@procedure()
def subtract_rows(
    c: Code, y: Array, x: Array, step: Number, t: Array, t_step: Number, count: Number, n: Number
) -> None:
    """y -= t[0] x[0] + t[1] x[1] + ..: `count` rows of `n` elements, `step` apart, one after the other."""

    def strip(at: Number, mask: Number | None, vectors: int) -> None:
        offsets = [at + number * LANES for number in range(vectors)]
        totals = [c.variable(y.vector(offset, mask)) for offset in offsets]
        with c.loop(0, count) as row:
            factor, line = (-t[row * t_step]).splat(), x.at(row * step)
            for offset, total in zip(offsets, totals, strict=True):
                total.value = factor.fma(line.vector(offset, mask), total.value)
        for offset, total in zip(offsets, totals, strict=True):
            y.put(offset, total.value, mask)

    with c.loop(0, strips(n), STRIP * LANES) as i:
        strip(i, None, STRIP)
    with c.loop(strips(n), n, LANES) as i:
        strip(i, c.tail(n - i), 1)


@procedure()
def add_scaled(c: Code, factor: Number, x: Array, y: Array, n: Number) -> None:
    """y += factor x."""
    with c.vectors(n) as (i, mask):
        y.put(i, factor.splat().fma(x.vector(i, mask), y.vector(i, mask)), mask)


@procedure()
def scaled(c: Code, factor: Number, x: Array, y: Array, n: Number) -> None:
    """y = factor x; both may be the same memory."""
    with c.vectors(n) as (i, mask):
        y.put(i, factor.splat() * x.vector(i, mask), mask)


@procedure()
def divided(c: Code, x: Array, divisor: Number, n: Number) -> None:
    """x /= divisor."""
    with c.vectors(n) as (i, mask):
        x.put(i, x.vector(i, mask) / divisor.splat(), mask)


@procedure()
def filled(c: Code, x: Array, value: Number, n: Number) -> None:
    with c.vectors(n) as (i, mask):
        x.put(i, value.splat(), mask)


@procedure()
def copied(c: Code, x: Array, y: Array, n: Number) -> None:
    """y = x."""
    with c.vectors(n) as (i, mask):
        y.put(i, x.vector(i, mask), mask)


@procedure()
def exchanged(c: Code, x: Array, y: Array, n: Number) -> None:
    with c.vectors(n) as (i, mask):
        first, second = x.vector(i, mask), y.vector(i, mask)
        x.put(i, second, mask)
        y.put(i, first, mask)


@procedure("i64")
def largest(c: Code, x: Array, n: Number) -> Number:
    """The number of the element of largest size, the first of several; 0 if all are NaN or there are none."""
    f = c.f
    best, where = c.variable(c.vector(-1)), c.variable(Number(f, constant(f"<{LANES} x i64>", 0)))
    numbers = Number(f, vector_constant("i64", range(LANES)))
    with c.vectors(n) as (i, mask):
        size = mask.choose(x.vector(i, mask).abs(), c.vector(-1))
        more = size > best.value
        best.value = more.choose(size, best.value)
        where.value = more.choose(numbers + i.splat(), where.value)
    top, chosen = c.variable(best.value.lane(0)), c.variable(where.value.lane(0))
    for lane in range(1, LANES):
        size, number = best.value.lane(lane), where.value.lane(lane)
        wins = (size > top.value) | (size.equals(top.value) & (number < chosen.value))
        top.value, chosen.value = wins.choose(size, top.value), wins.choose(number, chosen.value)
    return chosen.value
