"""Images in another size by native code: the weights that it multiplies with, and what it is called with.

Guarantees the pixels of Pillow's `resize` with `BILINEAR`, bit by bit: a triangle filter in whole numbers, first along
rows and then along columns, rounded to bytes behind each. Weights are computed here as Pillow computes them, in f64,
and rounded to 22 bits behind the point; code multiplies and adds whole numbers, in whatever order. So who resizes, this
or Pillow, does not matter. Assumes code of `dfc_target_cpu.entries.records.resizing`.
"""

from __future__ import annotations

import ctypes
import math
import threading
from functools import lru_cache
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
"""Pixels that code takes at once."""


_CALL = (
    ("source", ctypes.c_void_p),
    ("stride", ctypes.c_int64),  # bytes of a row of the source
    ("rows", ctypes.c_int64),  # of the source that count, and of `between`
    ("height", ctypes.c_int64),
    ("width", ctypes.c_int64),
    ("column_taps", ctypes.c_int64),  # pixels that become one, along a row; an even number
    ("column_starts", ctypes.c_void_p),  # i64: the byte of a row where those of each column begin
    ("column_weights", ctypes.c_void_p),  # i32, each four times
    ("row_taps", ctypes.c_int64),
    ("row_starts", ctypes.c_void_p),  # i64: the byte of `between` where those of each row begin
    ("row_weights", ctypes.c_void_p),  # i32
    ("between", ctypes.c_void_p),
    ("target", ctypes.c_void_p),
)


class ResizeCall(ctypes.Structure):
    """What code is given. A row of `between` has `width` pixels of four bytes, one of `target` as many of three."""

    _fields_ = _CALL


CALL_FIELDS = tuple(name for name, _ in _CALL)


@dataclass(frozen=True, slots=True)
class Weights:
    """Of each result along an axis: the first of the pixels that it is made of, and the weights of these."""

    starts: NDArray[np.int64]
    weights: NDArray[np.int32]


@lru_cache(maxsize=256)
def weights_of(count: int, extent: float, size: int, multiple: int = 1) -> Weights:
    """For `size` results of the first `extent` of so many pixels; the number of weights is a multiple of `multiple`,
    where there are as many pixels."""
    scale = extent / size
    support = max(scale, 1.0)
    taps = math.ceil(support) * 2 + 1
    centres = 0.0 + (np.arange(size) + 0.5) * scale
    starts = np.maximum((centres - support + 0.5).astype(np.int64), 0)
    ends = np.minimum((centres + support + 0.5).astype(np.int64), count)
    exact = np.zeros((size, taps))
    total = np.zeros(size)
    for tap in range(taps):
        distances = np.abs((tap + starts - centres + 0.5) * (1.0 / support))
        exact[:, tap] = np.where((distances < 1.0) & (starts + tap < ends), 1.0 - distances, 0.0)
        total += exact[:, tap]
    exact /= total[:, None]
    whole = (0.5 + exact * (1 << PRECISION)).astype(np.int32)
    used = int((ends - starts).max())
    used = min(used + -used % multiple, count)
    shifted = np.minimum(starts, count - used)  # whose first weights are zeros
    weights = np.zeros((size, used), np.int32)
    for tap in range(used):
        at = tap - (starts - shifted)
        weights[:, tap] = np.where((at >= 0) & (at < taps), whole[np.arange(size), np.clip(at, 0, taps - 1)], 0)
    return Weights(shifted, weights)


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
        (rows, columns), (height, width) = count, size
        extent = float(np.float32(extent[0])), float(np.float32(extent[1]))
        along = _along_rows(columns, extent[1], width)
        if along.weights.shape[1] % (PAIR * PIXEL):
            return None
        across = weights_of(rows, extent[0], height)
        first = int(across.starts[0])
        last = int(across.starts[-1]) + across.weights.shape[1]
        pitch = width * PIXEL
        between = self._between((last - first) * pitch)
        target = np.empty((height, width, PIXEL - 1), np.uint8)
        row_starts = (across.starts - first) * pitch
        stride = columns * PIXEL
        call = ResizeCall(
            source + first * stride, stride, last - first, height, width,
            along.weights.shape[1] // PIXEL, along.starts.ctypes.data, along.weights.ctypes.data,
            across.weights.shape[1], row_starts.ctypes.data, across.weights.ctypes.data,
            between.ctypes.data, target.ctypes.data,
        )  # fmt: skip
        self._function(ctypes.addressof(call))
        return target

    def _between(self, size: int) -> Pixels:
        """Memory of this thread, which is kept: new memory comes page by page, each with a fault."""
        memory: Pixels | None = getattr(self._memory, "between", None)
        if memory is None or len(memory) < size:
            memory = self._memory.between = np.empty(size, np.uint8)
        return memory


@lru_cache(maxsize=256)
def _along_rows(count: int, extent: float, size: int) -> Weights:
    """As code wants them along a row: bytes, and four equal weights for the bytes of a pixel."""
    weights = weights_of(count, extent, size, PAIR)
    return Weights(weights.starts * PIXEL, np.repeat(weights.weights, PIXEL, axis=1))
