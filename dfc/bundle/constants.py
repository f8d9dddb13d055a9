"""The constants of a program as one blob, which every target of its bundle shares."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from dfc.ir.attributes import Literal

CONSTANT_ALIGNMENT = 64


def lay_out_constants(literals: Sequence[Literal]) -> tuple[bytes, tuple[int, ...]]:
    """One blob with every literal at a multiple of 64 bytes; equal ones share their bytes."""
    blob = bytearray()
    known: dict[bytes, int] = {}
    offsets: list[int] = []
    for literal in literals:
        data = np.ascontiguousarray(literal.array).tobytes()
        digest = hashlib.sha256(data).digest()
        if digest not in known:
            blob += bytes(-len(blob) % CONSTANT_ALIGNMENT)
            known[digest] = len(blob)
            blob += data
        offsets.append(known[digest])
    return bytes(blob), tuple(offsets)
