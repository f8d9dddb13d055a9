"""Convolutions as data: what a contraction computes, where a library of convolutions may compute it instead.

The terms are those of such libraries: tensors are an offset, extents and strides in elements; first the batch (of a
filter: the channels out), then channels, then the places. Everything is a correlation: windows are not turned round.
"""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim

FORWARD, DATA, WEIGHTS = "forward", "data", "weights"
"""result = image * filter; image = what `result` says of it through `filter`; filter = what both say of it."""


SUMS = -1
"""Stands for a slot: the sums of a contraction before its epilogue, which lie together in the order of its axes."""


@dataclass(frozen=True, slots=True)
class Strided:
    """An operand, seen with these extents: element i, j, .. lies at `offset` + i * strides[0] + j * strides[1] + .."""

    operand: int
    offset: Dim
    extents: tuple[Dim, ...]
    strides: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Convolution:
    """`kind` says which of image, filter and result is made of the other two. For each place: from one window to the
    next, from one element of a window to the next, and the zeros before the image (fewer than none: elements that no
    window touches). Zeros behind are as many as the windows need. The channels of an image are those of the filter
    times `groups`. `bias` (one number for each channel) and `added` (like the result) are added to finished sums, in
    the type of the sums; only forward."""

    kind: str
    image: Strided
    filter: Strided
    result: Strided
    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[Dim, ...]
    groups: int
    bias: Strided | None = None
    added: Strided | None = None

    @property
    def output(self) -> Strided:
        """What is written."""
        return {FORWARD: self.result, DATA: self.image, WEIGHTS: self.filter}[self.kind]

    @property
    def tensors(self) -> tuple[Strided, ...]:
        """Image, filter, result, and what is added, if anything."""
        return (self.image, self.filter, self.result, *(one for one in (self.bias, self.added) if one is not None))


@dataclass(frozen=True, slots=True)
class Convolved:
    """A convolution on operand slots of a kernel, one for each of its operands; what it makes may be `SUMS`."""

    what: Convolution
    slots: tuple[int, ...]
