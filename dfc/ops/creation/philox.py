"""Counter-based random numbers: Philox 4x32-10, the same bits on every target (normals: within the target's bounds).

An element of a draw is a pure function of (key0, key1, draw, element), all u64:
- Philox key: the two 32-bit halves (low, high) of `key0 ^ key1`.
- Philox counter: (low32(block), high32(block), low32(draw), high32(draw)). The block gives words w0..w3.
- `element` is the global row-major index, so neither sharding nor threads change a number.

Uniform in [0, 1):
    f32        block = element // 4, w = w[element % 4]; (w >> 8) * 2^-24
    f16, bf16  the same w; (w >> 21) * 2^-11 and (w >> 24) * 2^-8
    f64        block = element // 2, h = element % 2, v = w[2h] | w[2h+1] << 32; (v >> 11) * 2^-53

Normal (mean 0, deviation 1) by Box and Muller: r = sqrt(-2 ln u), a = 2 pi t; even elements are r cos(a), odd ones
r sin(a):
    f32        block = element // 4, p = element % 4 // 2; u = ((w[2p] >> 8) + 1) * 2^-24, t = (w[2p+1] >> 8) * 2^-24
    f16, bf16  the f32 number, rounded
    f64        block = element // 2; u = ((v0 >> 11) + 1) * 2^-53 with v0 = w0 | w1 << 32, t = (v1 >> 11) * 2^-53 with
               v1 = w2 | w3 << 32

Keys: key0 is the seed, key1 the hash of the stream's full name. The op `random` is draw 0 of its stream. An rng is
stored as u64[4] = key0, key1, the number of draws so far, 0; the draw after n earlier ones has draw number n.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.dtypes import DType
from dfc_runtime.philox import Words, philox

if TYPE_CHECKING:
    from numpy.typing import NDArray

MASK64 = (1 << 64) - 1
_LOW = 0xFFFFFFFF
_HALF = 32


def stream_hash(name: str) -> int:
    """A 64-bit hash of a full name that is the same everywhere and for ever."""
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8"), digest_size=8).digest(), "little")


def stream_key(seed: int, stream: str) -> tuple[int, int]:
    """key0 and key1 of a stream."""
    return seed & MASK64, stream_hash(stream)


def initial_state(seed: int, stream: str) -> NDArray[np.uint64]:
    """An rng before its first draw."""
    return np.array([*stream_key(seed, stream), 0, 0], dtype=np.uint64)


def numbers(
    distribution: str, dtype: DType, shape: Sequence[int], key: tuple[int, int], draw: int = 0
) -> NDArray[np.generic]:
    """A whole draw as an array; `distribution` is uniform or normal, `dtype` a floating type."""
    count = int(np.prod(np.array(shape, dtype=np.int64)))
    blocks = np.arange(-(-count // _per_block(dtype)), dtype=np.uint64)
    rows = _MAKERS[distribution](dtype, _words(blocks, key, draw))
    return rows.reshape(-1)[:count].astype(dtype.numpy).reshape(tuple(shape))


def numbers_at(
    distribution: str, dtype: DType, elements: Words, key: tuple[int, int], draw: int
) -> NDArray[np.generic]:
    """Some numbers of a draw: those of the given elements."""
    per_block = np.uint64(_per_block(dtype))
    flat = elements.reshape(-1)
    rows = _MAKERS[distribution](dtype, _words(flat // per_block, key, draw))
    return rows[np.arange(len(flat)), flat % per_block].astype(dtype.numpy).reshape(elements.shape)


def _per_block(dtype: DType) -> int:
    """How many numbers a block gives."""
    return 2 if dtype.name == "f64" else 4


def _words(block: Words, key: tuple[int, int], draw: int) -> Words:
    """The four words of each block, one row a block."""
    combined = (key[0] ^ key[1]) & MASK64
    low = np.full(block.shape, draw & 0xFFFFFFFF, dtype=np.uint64)
    high = np.full(block.shape, (draw >> 32) & 0xFFFFFFFF, dtype=np.uint64)
    words = philox(
        (block & np.uint64(_LOW), block >> np.uint64(_HALF), low, high), (combined & 0xFFFFFFFF, combined >> 32)
    )
    return np.stack(words, axis=1)


def _wide(words: Words) -> Words:
    """Pairs of words as 64-bit numbers: two a block."""
    return words[:, 0::2] | (words[:, 1::2] << np.uint64(_HALF))


def _uniform(dtype: DType, words: Words) -> NDArray[np.float64]:
    """The numbers of each block, one row a block."""
    if dtype.name == "f64":
        return (_wide(words) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    bits = {"f32": 24, "f16": 11, "bf16": 8}[dtype.name]
    return (words >> np.uint64(32 - bits)).astype(np.float64) * 2.0**-bits


def _normal(dtype: DType, words: Words) -> NDArray[np.floating]:
    """The numbers of each block, one row a block."""
    if dtype.name == "f64":
        wide = _wide(words) >> np.uint64(11)
        return _box_muller((wide[:, 0].astype(np.float64) + 1) * 2.0**-53, wide[:, 1].astype(np.float64) * 2.0**-53)
    narrow = words.reshape(-1, 2) >> np.uint64(8)
    first, second = narrow[:, 0].astype(np.float32), narrow[:, 1].astype(np.float32)
    scale = np.float32(2.0**-24)
    return _box_muller((first + np.float32(1)) * scale, second * scale).reshape(-1, 4)


def _box_muller(u: NDArray[np.floating], t: NDArray[np.floating]) -> NDArray[np.floating]:
    """Two numbers of each pair."""
    radius = np.sqrt(-2 * np.log(u))
    angle = u.dtype.type(2 * np.pi) * t
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


_MAKERS: dict[str, Callable[[DType, Words], NDArray[np.floating]]] = {"uniform": _uniform, "normal": _normal}
