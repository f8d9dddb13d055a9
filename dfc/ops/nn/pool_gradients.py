"""The gradient of the largest element of each window, gathered: each element looks at the windows that it lies in.

    dx[i] = sum over the windows p around i of (x[i] == y[p]) * share[p]

With a step s between windows element number i = a * s + phase looks at windows a + d, for the same few d whatever a is.
Which of them reach it is a matter of its phase. So each axis is seen as two, nothing as large as all windows is ever
stored, and whatever is read or written lies along the channels.

Assumes windows that begin inside of their padding. Guarantees sums of at most ceil(size / step) + 1 windows along each
axis, the last one first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial, reduce
from itertools import product

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, ZERO, Dim, DimLike, ceil_divide, dim, maximum
from dfc.ir.dtypes import BOOL
from dfc.ir.graph import Value
from dfc.ops.attributes import PadAttributes, PoolAttributes, SliceAttributes
from dfc.ops.builder import Builder
from dfc.ops.gradients import add, indicator, mul, select
from dfc.ops.pieces import part, surrounded


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis: `count` elements of each phase; element number i lies `shift` behind the beginning of window 0."""

    size: int
    step: int
    shift: int
    count: Dim

    def phases(self) -> Iterator[tuple[int, tuple[bool, ...]]]:
        """Which windows a + d there are around elements a * step + phase: each d, and whether it reaches each phase."""
        behind = [divmod(phase + self.shift, self.step) for phase in range(self.step)]
        lowest = min(first - (self.size - 1 - element) // self.step for first, element in behind)
        for number in range(behind[-1][0], lowest - 1, -1):
            within = [element + (first - number) * self.step for first, element in behind]
            reached = tuple(0 <= element < self.size for element in within)
            if any(reached):
                yield number, reached


def gathered(b: Builder, x: Value, y: Value, shares: Value, it: PoolAttributes) -> Value:
    """`shares`: of each window, what each of its largest elements gets. Returns an array like `x`."""
    axes: list[_Axis] = []
    whole = x
    for axis, (size, step, low) in enumerate(zip(it.sizes, it.strides, it.low, strict=True), 1):
        if low.constant is None:  # then what is added in front is looked at, too
            whole = surrounded(b, whole, axis, low, 0)
        extent = whole.tensor.shape[axis]
        axes.append(_Axis(size, step, low.constant or 0, ceil_divide(extent, dim(step))))
        whole = surrounded(b, whole, axis, 0, axes[-1].count * step - extent)
    split = b.reshape(whole, _around(whole, [(one.count, dim(one.step)) for one in axes]))
    terms: list[Value] = []
    for around in product(*(one.phases() for one in axes)):
        largest, share = (_moved(b, value, axes, [number for number, _ in around]) for value in (y, shares))
        chosen = mul(b, indicator(b, b.apply("equal", split, largest), share), share)
        terms.append(_where_reached(b, chosen, [reached for _, reached in around]))
    result = b.reshape(reduce(partial(add, b), terms), whole.tensor.shape)
    for axis, low in enumerate(it.low, 1):
        result = _taken(b, result, axis, low if low.constant is None else 0, x.tensor.shape[axis])
    return result


def _around(x: Value, middle: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
    """The shape of `x` with several axes in place of each but the first and the last."""
    return (x.tensor.shape[0], *(extent for each in middle for extent in each), x.tensor.shape[-1])


def _moved(b: Builder, y: Value, axes: Sequence[_Axis], numbers: Sequence[int]) -> Value:
    """For each element of a phase, the window `numbers` further on; 0 where there is none. The same for all phases."""
    shape = y.tensor.shape
    starts, low, high = [ZERO] * len(shape), [ZERO] * len(shape), [ZERO] * len(shape)
    for axis, (one, number) in enumerate(zip(axes, numbers, strict=True), 1):
        starts[axis], low[axis] = dim(max(number, 0)), dim(max(-number, 0))
        high[axis] = maximum(one.count + number - shape[axis], ZERO)
    if any(width != ZERO for width in (*low, *high)):
        around = PadAttributes(tuple(low), tuple(high), (0,) * len(shape))
        y = b.apply("pad", y, b.scalar_like(0, y), attributes=around)
    sizes = _around(y, [(one.count,) for one in axes])
    if sizes != y.tensor.shape:
        y = b.apply("slice", y, attributes=SliceAttributes(tuple(starts), sizes, (1,) * len(sizes)))
    split = b.reshape(y, _around(y, [(one.count, ONE) for one in axes]))
    return b.broadcast(split, _around(y, [(one.count, dim(one.step)) for one in axes]))


def _where_reached(b: Builder, chosen: Value, reached: Sequence[Sequence[bool]]) -> Value:
    """0 in phases that a window does not reach."""
    if all(map(all, reached)):
        return chosen
    mask = reduce(np.logical_and.outer, [np.reshape(each, (1, -1)) for each in reached])
    everywhere = b.broadcast(b.constant(mask[None, ..., None], BOOL), chosen.tensor.shape)
    return select(b, everywhere, chosen, b.broadcast(b.scalar_like(0, chosen), chosen.tensor.shape))


def _taken(b: Builder, x: Value, axis: int, start: DimLike, size: Dim) -> Value:
    return x if x.tensor.shape[axis] == size else part(b, x, axis, start, size)
