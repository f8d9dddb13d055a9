"""f32 on the wire as 16 bits: the upper half of each number, the mantissa cut off; zeros fill it up on the other side.

Guarantees that what is not a number stays not a number: one whose mantissa lies in the lower half only would become an
infinity, so a bit of the upper half is set for it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.distributed.transport.comm import Array, Bytes

_EXPONENT, _QUIET = 0x7F80, 0x0040
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)


def compressed(array: Array, into: Bytes) -> None:
    """Writes the upper halves of an f32 array."""
    bits: NDArray[np.uint32] = array.reshape(-1).view(np.uint32)
    halves = into.view(np.uint16)
    np.right_shift(bits, 16, out=halves, casting="unsafe")
    lost = ((bits & _MAGNITUDE) > _INFINITY) & ((halves & 0x7FFF) == _EXPONENT)
    if lost.any():
        halves[lost] |= _QUIET


def expanded(halves: Bytes, out: Array) -> None:
    """Writes the f32 numbers that upper halves stand for."""
    np.left_shift(halves.view(np.uint16), 16, out=out.reshape(-1).view(np.uint32), dtype=np.uint32)
