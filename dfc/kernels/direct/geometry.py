"""Where the windows of a contraction lie in memory, as numbers that loops can be written from.

    y[b, i, j, o] = sum over r, s, c of x[b, 2 * i + r - 1, 2 * j + s - 1, c] * w[r, s, c, o]
    ->  batch b; positions i, j with windows r, s; channels c; the filter's strides along r, s, c and o

Two kinds of sums are described: over the windows, whose positions are rows of the result (a convolution, or its
gradient by the image), and over the positions, with the elements of a window as rows (the gradient by the weights).
Zeros between the elements of the image make phases: positions whose windows have the same elements on them.

Pure analysis. Guarantees that what is described is the sum of the kernel; None where a size that loops are cut by is
known only in the run, where channels do not lie next to each other, or where the factors are no windows and a matrix.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, ZERO, Dim
from dfc.kernels.access import strides
from dfc.kernels.body import Affine
from dfc.kernels.form import ContractKernel
from dfc.kernels.operand_maps import OperandMap, operand_map

MOST_PHASES = 16


@dataclass(frozen=True, slots=True)
class Spatial:
    """One axis of the image: position p and element e of a window lie at p * step + e * dilation + offset, of which
    multiples of `interior` are elements of memory and 0 the others, like what lies outside of `extent`."""

    extent: int
    stride: Dim
    count: int
    size: int
    step: int
    dilation: int
    offset: int
    interior: int


@dataclass(frozen=True, slots=True)
class Filter:
    """The other factor of sums over windows: offset of its first element, strides along the elements of a window, the
    channels, and the columns of the result; of groups, from one to the next."""

    offset: int
    rows: int
    elements: int
    channels: int
    columns: int
    group: int


@dataclass(frozen=True, slots=True)
class Summed:
    """The other factor of sums over positions: it has a row for each position, one after the other."""

    offset: Dim
    row: int
    group: int


@dataclass(frozen=True, slots=True)
class Windows:
    """A contraction over windows of an image of `channels` that lie together; `vertical` is trivial where the image has
    one axis. Strides and offsets in elements; `other` tells which kind of sum it is."""

    batch: Dim
    image_stride: Dim
    vertical: Spatial
    horizontal: Spatial
    channels: int
    columns: int
    groups: int
    group_stride: int
    other: Filter | Summed


def windows(kernel: ContractKernel) -> Windows | None:
    """What a contraction does with windows of its first factor."""
    if kernel.a.is_strided or kernel.b.inside or kernel.m > 1:
        return None
    return _Reading(kernel).windows()


class _Reading:
    """One contraction: which of its axes are what."""

    def __init__(self, kernel: ContractKernel) -> None:
        self.kernel = kernel
        self.a, self.b = operand_map(kernel, kernel.a), operand_map(kernel, kernel.b)
        self.rank = len(kernel.axes)
        operand = kernel.operands[kernel.a.operand]
        self.shape, self.strides = operand.shape, strides(operand.shape)
        self.inside = dict(kernel.a.inside)

    def windows(self) -> Windows | None:
        kernel, index = self.kernel, self.kernel.a.index
        if len(index) < 3 or not all(self._is_plain(axis) for axis in (0, len(index) - 1)):
            return None
        first, last = self._axis(0), self._axis(-1)
        positions = self._positions(first, last)
        groups = [axis for axis in range(1, len(index) - 1) if any(term < kernel.m for term, _ in index[axis].terms)]
        spots = [axis for axis in range(1, len(index) - 1) if axis not in groups]
        if (
            positions is None
            or len(groups) != kernel.m
            or not all(map(self._is_plain, groups))
            or len(spots) not in (1, 2)
        ):
            return None
        taps = kernel.m + kernel.k - positions
        axes = [self._spatial(axis, positions, taps) for axis in spots]
        spatial = [one[0] for one in axes if one is not None]
        numbers = [one[1] for one in axes if one is not None]
        if len(spatial) != len(spots):
            return None
        listed = (first, *(number[0] for number in numbers)), (*(number[1] for number in numbers), last)
        if not (self._covers(positions, listed[0]) and self._covers(taps, listed[1])):
            return None
        trivial = Spatial(1, ZERO, 1, 1, 1, 1, 0, 1)
        vertical, horizontal = spatial if len(spatial) == 2 else (trivial, *spatial)
        return self._described(positions, first, vertical, horizontal, groups)

    def _described(
        self, positions: int, first: int | None, vertical: Spatial, horizontal: Spatial, groups: Sequence[int]
    ) -> Windows | None:
        kernel = self.kernel
        channels, columns = self.shape[-1].constant, kernel.axes[kernel.n].extent.constant
        group = kernel.axes[0].extent.constant if groups else 1
        group_stride = self.strides[groups[0]].constant if groups else 0
        if not channels or not columns or not group or group_stride is None:
            return None
        sizes = (vertical.size, horizontal.size, channels)
        other = self._filter(sizes) if positions == kernel.m else self._summed(vertical, horizontal)
        if other is None:
            return None
        batch = ONE if first is None else self._extent(first)
        return Windows(batch, self.strides[0], vertical, horizontal, channels, columns, group, group_stride, other)

    # --- the image

    def _is_plain(self, axis: int) -> bool:
        """Whether an axis of the memory is one axis of the kernel, as it is."""
        index = self.kernel.a.index[axis]
        axis %= len(self.shape)
        is_one = len(index.terms) == 1 and index.terms[0][1] == 1
        return (
            index.offset == ZERO
            and axis not in self.inside
            and (is_one or (not index.terms and self.shape[axis] == ONE))
        )

    def _axis(self, axis: int) -> int | None:
        terms = self.kernel.a.index[axis].terms
        return terms[0][0] if terms else None

    def _owner(self, number: int) -> int:
        return number if number < self.rank else self.a.sub_axes[number - self.rank].axis

    def _extent(self, number: int) -> Dim:
        if number < self.rank:
            return self.kernel.axes[number].extent
        return self.a.sub_axes[number - self.rank].extent

    def _positions(self, first: int | None, last: int | None) -> int | None:
        """The axis of the kernel that positions lie along: that of the batch, not that of the channels."""
        m, k = self.kernel.m, self.kernel.k
        if first is not None:
            positions = self._owner(first)
        elif last is not None:
            positions = m + k - self._owner(last)
        else:
            return None
        if positions not in (m, k) or (last is not None and self._owner(last) != m + k - positions):
            return None
        return positions

    def _spatial(self, axis: int, positions: int, taps: int) -> tuple[Spatial, tuple[int | None, int | None]] | None:
        index, extent, interior = self.kernel.a.index[axis], self.shape[axis].constant, self.inside.get(axis, 1)
        offset = index.offset.constant
        position, step = _term(index, [n for n, _ in index.terms if self._owner(n) == positions])
        tap, dilation = _term(index, [n for n, _ in index.terms if self._owner(n) == taps])
        count = 1 if position is None else self._extent(position).constant
        size = 1 if tap is None else self._extent(tap).constant
        if len(index.terms) != (position is not None) + (tap is not None) or step < 1 or dilation < 1:
            return None
        if extent is None or offset is None or not count or not size:
            return None
        if interior > 1 and (step != 1 or dilation != 1 or positions != self.kernel.m):
            return None
        one = Spatial(extent, self.strides[axis], count, size, step, dilation, offset, interior)
        return one, (position, tap)

    def _covers(self, axis: int, numbers: Sequence[int | None]) -> bool:
        """Whether these are all the sub-axes of an axis, outermost first."""
        known = [number for number in numbers if number is not None]
        parts = list(self.a.parts(axis))
        return known == parts or (not known and self.kernel.axes[axis].extent == ONE)

    # --- the other factor

    def _filter(self, sizes: tuple[int, int, int]) -> Filter | None:
        kernel, access = self.kernel, self.b.access
        column, offset = access.coefficients[kernel.n].constant, access.offset.constant
        along = self._along(self.b, sizes)
        group = access.coefficients[0].constant if kernel.m else 0
        if column is None or offset is None or along is None or group is None or access.lookups:
            return None
        return Filter(offset, *along, column, group)

    def _along(self, one: OperandMap, sizes: tuple[int, int, int]) -> tuple[int, int, int] | None:
        """Strides along the parts of k, which have these sizes."""
        kernel = self.kernel
        if one.split_axes() - {kernel.k}:
            return None
        steps = [one.access.coefficients[number].constant for number in one.parts(kernel.k)]
        known = [step for step in steps if step is not None]
        if len(known) != len(steps):
            return None
        if not one.split_axes():
            return known[0] * sizes[1] * sizes[2], known[0] * sizes[2], known[0]
        parts = [(size, axis) for axis, size in enumerate(sizes) if size != 1]
        pairs = [
            (sub.extent.constant, step) for sub, step in zip(one.sub_axes, known, strict=True) if sub.extent != ONE
        ]
        if [size for size, _ in parts] != [size for size, _ in pairs]:
            return None
        along = [0, 0, 0]
        for (_, axis), (_, step) in zip(parts, pairs, strict=True):
            along[axis] = step
        return along[0], along[1], along[2]

    def _summed(self, vertical: Spatial, horizontal: Spatial) -> Summed | None:
        """A matrix with a row for each position, whose columns lie together."""
        kernel, access = self.kernel, self.b.access
        if self.b.split_axes() or access.lookups or access.coefficients[kernel.n] != ONE:
            return None
        row = access.coefficients[kernel.k].constant
        group = access.coefficients[0].constant if kernel.m else 0
        return None if row is None or group is None else Summed(access.offset, row, group)


def _term(index: Affine, numbers: Sequence[int]) -> tuple[int | None, int]:
    """The only axis among these that an index depends on, and its factor; factor 0 if there are several."""
    if not numbers:
        return None, 1
    return numbers[0], next(f for n, f in index.terms if n == numbers[0]) if len(numbers) == 1 else 0


# --- phases


@dataclass(frozen=True, slots=True)
class Phase:
    """Places first, first + every, ..: `count` of them. Place number i of these and element j lie at element i * step +
    j * dilation + offset of memory; element j is number tap + j * taps_every of `taps` of the window."""

    first: int
    every: int
    count: int
    step: int
    dilation: int
    offset: int
    tap: int
    taps_every: int
    taps: int


def phases(one: Spatial) -> tuple[Phase, ...]:
    """The positions of an axis by which elements of the window lie on elements of memory."""
    if one.interior == 1:
        return (Phase(0, 1, one.count, one.step, one.dilation, one.offset, 0, 1, one.size),)
    every = one.interior
    result: list[Phase] = []
    for first in range(min(every, one.count)):
        tap = -(first + one.offset) % every
        taps = max(0, -(-(one.size - tap) // every))
        offset = (first + one.offset + tap) // every
        count = -(-(one.count - first) // every)
        result.append(Phase(first, every, count, 1, 1, offset, tap, every, taps))
    return tuple(result)
