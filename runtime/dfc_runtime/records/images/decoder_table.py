"""The table of processes that decode images, and what is said to them: native code and the run side share both.

    greeting `GREETING`, once, when it can decode
    request  length, height, width, whether the reason of a damage is wanted; then so many bytes
    reply    0, then the pixels; or how long the reason is, then that, if it is wanted

All numbers are i64 of this machine. Assumes that native code alone changes states that are not `LOST`, and the run side
those that are; so none of them needs a lock.
"""

from __future__ import annotations

import ctypes
import struct

FREE, BUSY, LOST = range(3)
GREETING = b"\1"
REQUEST, REPLY = struct.Struct("@4q"), struct.Struct("@q")


class Decoder(ctypes.Structure):
    """One process: its state, and our end of its socket."""

    _fields_ = (("state", ctypes.c_int32), ("unused", ctypes.c_int32), ("descriptor", ctypes.c_int64))


class DecoderTable(ctypes.Structure):
    """All of them. Who waits for a free one sleeps on `changes`."""

    _fields_ = (
        ("count", ctypes.c_int64),
        ("decoders", ctypes.c_void_p),
        ("changes", ctypes.c_int32),
        ("unused", ctypes.c_int32),
    )
