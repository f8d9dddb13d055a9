"""Images in another size by native code: what it is called with, and the memory that it needs.

Guarantees the pixels of Pillow's `resize` with `BILINEAR`, bit by bit: a triangle filter in whole numbers, first along
rows and then along columns, rounded to bytes behind each. Code computes the weights as Pillow does, in f64, and rounds
them to 22 bits behind the point; it multiplies and adds whole numbers, in whatever order. So who resizes, this or
Pillow, does not matter. Assumes code of `dfc_target_cpu.entries.records.resizing`.
"""

from __future__ import annotations

import ctypes
import math
import threading
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.records.images.memory import PIXEL

if TYPE_CHECKING:
    from numpy.typing import NDArray

Pixels: TypeAlias = "NDArray[np.uint8]"
PRECISION = 22
"""Bits of a weight behind the point."""
PAIR = 2
"""Pixels that code takes at once along a row."""
ALIGNMENT = 64
LEAST = 8
"""Pixels of which three quarters and one more are all but one, at least."""

_AXIS = (
    ("count", ctypes.c_int64),  # pixels
    ("size", ctypes.c_int64),  # results
    ("taps", ctypes.c_int64),  # pixels that a result is made of: no more than there are
    ("unit", ctypes.c_int64),  # bytes from one pixel to the next
    ("scale", ctypes.c_double),  # pixels from one result to the next
    ("support", ctypes.c_double),  # pixels from the middle of the triangle to its end
    ("starts", ctypes.c_void_p),  # memory for an i64 a result: the byte where its pixels begin
    ("weights", ctypes.c_void_p),  # memory for `taps` weights a result, i32; along a row each four times
)


class ResizeAxis(ctypes.Structure):
    """One direction of an image."""

    _fields_ = _AXIS


_CALL = (
    ("source", ctypes.c_void_p),
    ("between", ctypes.c_void_p),  # memory for as many rows as the image has, in the new width, of four bytes a pixel
    ("target", ctypes.c_void_p),  # rows of three bytes a pixel
    ("columns", ResizeAxis),
    ("rows", ResizeAxis),
)


class ResizeCall(ctypes.Structure):
    """What code is given."""

    _fields_ = _CALL


@dataclass(frozen=True, slots=True)
class _Filter:
    """The triangle along an axis of so many pixels, of which the first `extent` become `size` results."""

    count: int
    extent: float
    size: int

    @property
    def scale(self) -> float:
        """Pillow takes the extent as f32."""
        return float(np.float32(self.extent)) / self.size

    @property
    def support(self) -> float:
        return max(self.scale, 1.0)

    def taps(self, multiple: int) -> int:
        """As many pixels as a triangle may touch, and no more than there are. Of two results or more each is made of
        three quarters of the pixels at most, and one more by rounding: so one may be left out to have a multiple."""
        most = math.ceil(2 * self.support) + 1
        most += -most % multiple
        if most > self.count >= LEAST and self.size > 1:
            return self.count - self.count % multiple
        return min(most, self.count)


class NativeResize:
    """The code at an address; threads may call it at the same time."""

    def __init__(self, address: int) -> None:
        self.address = address
        self._function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
        self._memory = threading.local()

    def __call__(
        self, source: int, count: tuple[int, int], extent: tuple[float, float], size: tuple[int, int]
    ) -> Pixels | None:
        """The image at an address, four bytes a pixel, of `count` rows and columns, of which the first `extent` count,
        in another size. None where it is narrower than the pixels that become one."""
        down, along = (_Filter(*each) for each in zip(count, extent, size, strict=True))
        taps = along.taps(PAIR), down.taps(1)
        if taps[0] % PAIR:
            return None
        pitch = along.size * PIXEL
        sizes = (
            down.count * pitch,
            *(along.size * 8, along.size * taps[0] * PIXEL * 4),
            *(down.size * 8, down.size * taps[1] * 4),
        )
        between, *tables = self._pieces(sizes)
        target = np.empty((down.size, along.size, PIXEL - 1), np.uint8)
        columns, rows = (
            ResizeAxis(each.count, each.size, number, unit, each.scale, each.support, starts, weights)
            for each, number, unit, starts, weights in (
                (along, taps[0], PIXEL, *tables[:2]),
                (down, taps[1], pitch, *tables[2:]),
            )
        )
        call = ResizeCall(source, between, target.ctypes.data, columns, rows)
        self._function(ctypes.addressof(call))
        return target

    def _pieces(self, sizes: tuple[int, ...]) -> list[int]:
        """Addresses of memory of this thread, which is kept: new memory comes page by page, each with a fault."""
        whole = sum(sizes) + (len(sizes) + 1) * ALIGNMENT
        memory: Pixels | None = getattr(self._memory, "pieces", None)
        if memory is None or len(memory) < whole:
            memory = self._memory.pieces = np.empty(whole, np.uint8)
        at, pieces = memory.ctypes.data, list[int]()
        for size in sizes:
            at += -at % ALIGNMENT
            pieces.append(at)
            at += size
        return pieces
