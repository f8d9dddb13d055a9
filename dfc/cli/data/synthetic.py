"""Examples that are made up, for tests and measurements: `image=u8[784],label=i64..10`.

    NAME=TYPE       one number an example          TYPE is f32 (from 0 up to below 1), i64 or u8
    NAME=TYPE[N]    N of them; [N,M] is N times M; u8 with sizes is one text of so many bytes
    ..LIMIT         behind i64 or u8: from 0 up to below the limit, else of all that a u8 has, or below 2^31

A number depends on the seed, the name of its feature, and its index in all examples alone, so that examples stay the
same whatever their count or the other features: Philox 4x32-10 with the key (seed xor hash of the name) and the counter
(low and high word of index // 4, 0, 0), whose word number index % 4 is w. An f32 is (w >> 8) * 2^-24, a whole number
w * limit >> 32.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence

import click
import numpy as np

from dfc.cli.data.examples import Example, Examples
from dfc.deferred.dataclasses import dataclass
from dfc_runtime.philox import philox
from dfc_runtime.records.example import Values

_FEATURE = re.compile(
    r"(?P<name>[^=,\[\]]+)=(?P<type>f32|i64|u8)(\[(?P<sizes>\d{1,9}(,\d{1,9}){0,7})\])?(\.\.(?P<limit>\d{1,10}))?"
)
MOST_NUMBERS = 1 << 28
_LIMITS = {"u8": 256, "i64": 1 << 31, "f32": 0}
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature as it was asked for."""

    name: str
    type: str
    sizes: tuple[int, ...]
    limit: int

    def values(self, seed: int, example: int) -> Values | bytes:
        """The values of one example."""
        count = math.prod(self.sizes)
        words = self._words(seed, example * count, count)
        if self.type == "f32":
            return (words >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)
        whole = (words * np.uint64(self.limit)) >> np.uint64(32)
        return whole.astype(np.uint8).tobytes() if self.type == "u8" and self.sizes else whole.astype(np.int64)

    def _words(self, seed: int, begin: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        blocks = np.arange(begin // 4, (begin + count + 3) // 4, dtype=np.uint64)
        digest = hashlib.blake2b(self.name.encode("utf-8", "surrogateescape"), digest_size=8).digest()
        key = (seed ^ int.from_bytes(digest, "little")) & 0xFFFFFFFFFFFFFFFF
        zeros = np.zeros(len(blocks), np.uint64)
        words = philox((blocks & _LOW, blocks >> np.uint64(32), zeros, zeros), (key & 0xFFFFFFFF, key >> 32))
        return np.stack(words, axis=1).reshape(-1)[begin % 4 : begin % 4 + count]


def parse(text: str) -> list[Feature]:
    """The features of `--synthetic`; a mistake in it is a `UsageError`."""
    features: list[Feature] = []
    for part in re.split(r",(?=[^,\[\]]+=)", text):
        match = _FEATURE.fullmatch(part.strip())
        if match is None:
            raise click.UsageError(
                f"--synthetic {part.strip()!r}: write NAME=TYPE, NAME=TYPE[SIZES] or NAME=i64..LIMIT, "
                "with a TYPE of f32, i64 or u8, such as image=u8[784],label=i64..10"
            )
        sizes = tuple(int(size) for size in (match["sizes"] or "").split(",") if size)
        kind, largest = match["type"], _LIMITS[match["type"]]
        limit = int(match["limit"]) if match["limit"] is not None else largest
        if match["limit"] is not None and not 1 <= limit <= max(largest, 1) << (kind == "i64"):
            allowed = f"from 1 to {largest << (kind == 'i64')}" if largest else "none: an f32 is from 0 up to below 1"
            raise click.UsageError(f"--synthetic {part.strip()!r}: the limit of {kind} is {allowed}")
        if math.prod(sizes) > MOST_NUMBERS:
            raise click.UsageError(f"--synthetic {part.strip()!r}: more than {MOST_NUMBERS} numbers an example")
        if any(each.name == match["name"] for each in features):
            raise click.UsageError(f"--synthetic names {match['name']!r} twice")
        features.append(Feature(match["name"], kind, sizes, limit))
    return features


def from_nothing(features: Sequence[Feature], count: int, seed: int) -> Examples:
    """So many examples."""
    for number in range(count):
        example: Example = {each.name: each.values(seed, number) for each in features}
        yield example
