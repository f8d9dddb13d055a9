"""Philox 4x32-10: four words of 32 bits for each counter of four words, under a key of two (J. Salmon, M. Moraes,
R. Dror and D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).

Assumes that words are below 2^32. Guarantees the same words for numbers and for arrays of u64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Words: TypeAlias = "NDArray[np.uint64]"

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF
_HALF = 32
_PHILOX_ROUNDS = 10


def philox(counter: Sequence[Words], key: tuple[int, int]) -> list[Words]:
    """The four output words (each below 2^32, held in u64) for each point of the counter."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    low, half = np.uint64(_LOW), np.uint64(_HALF)
    for _ in range(_PHILOX_ROUNDS):
        first, second = c0 * np.uint64(_MULTIPLIERS[0]), c2 * np.uint64(_MULTIPLIERS[1])
        c0, c1, c2, c3 = (
            (second >> half) ^ c1 ^ np.uint64(k0),
            second & low,
            (first >> half) ^ c3 ^ np.uint64(k1),
            first & low,
        )
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return [c0, c1, c2, c3]


def philox_words(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """The same for one counter, in plain numbers."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_PHILOX_ROUNDS):
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (second >> _HALF) ^ c1 ^ k0, second & _LOW, (first >> _HALF) ^ c3 ^ k1, first & _LOW
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return c0, c1, c2, c3
