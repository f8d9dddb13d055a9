"""Where the pixels of an image of Pillow lie, so that native code reads them without a copy.

Newer versions of Pillow hand them out by the interface of Arrow for C, as long as they are in one piece; what is large
is in several, and older versions do not know of that: then they are copied. Assumes red, green and blue, which Pillow
keeps in four bytes each. Guarantees an address that is good as long as the object with it is there.
"""

from __future__ import annotations

import ctypes
from typing import Any

PIXEL = 4
"""Bytes of a pixel: red, green, blue, and one that is not looked at."""


class _ArrowArray(ctypes.Structure):
    """An array of Arrow as C sees it; `children` are addresses of others."""

    _fields_ = (
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        ("children", ctypes.POINTER(ctypes.c_void_p)),
    )


def pixels_of(image: Any) -> tuple[int, object]:
    """The address of the pixels, row by row, and what keeps them there."""
    columns, rows = image.size
    try:
        capsule = image.__arrow_c_array__()[1]
    except (AttributeError, ValueError):
        capsule = None
    address = 0 if capsule is None else _address(capsule, rows * columns)
    if address:
        return address, capsule
    data = image.tobytes("raw", "RGBX")
    return ctypes.cast(data, ctypes.c_void_p).value or 0, data


def _address(capsule: object, count: int) -> int:
    """Of so many pixels in an array that Pillow hands out; 0 if it has another form."""
    pointer = _pointer_in(capsule, b"arrow_array")
    array = _ArrowArray.from_address(pointer)
    if (array.length, array.offset, array.n_children) != (count, 0, 1):
        return 0
    child = _ArrowArray.from_address(array.children[0] or 0)
    if (child.length, child.offset, child.n_buffers) != (count * PIXEL, 0, 2):
        return 0
    return child.buffers[1] or 0


_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
