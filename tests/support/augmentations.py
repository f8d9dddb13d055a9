"""Images, keys and indices for what changes images at random, the numbers that belong to them, and a program that runs
as machine code and in the reference interpreter."""

from __future__ import annotations

from functools import cached_property

import numpy as np

import dfc
import dfc_runtime
from dfc.ir.dtypes import F32
from dfc.ir.graph import Graph
from dfc.ops.creation.philox import numbers_at
from dfc.ops.evaluate import evaluate
from tests.support.building import graph_of

KEY = 2**63 + 11
INDEX = np.array([3, 0, 2**40, 17, 4])
IMAGES = np.random.default_rng(7).integers(0, 256, (5, 6, 8, 3), dtype=np.uint8)
UNITS = (IMAGES / 255).astype(np.float32)


def uniform(count: int, stream: int, index: np.ndarray = INDEX, key: int = KEY) -> np.ndarray:
    """The numbers of a key: `count` for each index."""
    elements = index[:, None] * count + np.arange(count)
    return np.asarray(numbers_at("uniform", F32, elements.astype(np.uint64), (key, 0), stream), np.float32)


class Compared:
    """A program of pure entries; `run` gives what machine code makes, if the reference makes the same."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def model(self) -> dfc_runtime.Module:
        return dfc_runtime.loads(dfc.compile(text=f"dfg 1\n{self._text}").to_bytes(), threads=2)

    @cached_property
    def graph(self) -> Graph:
        return graph_of(self._text)

    def run(self, entry: str, *, within: float = 0, **feeds: object) -> tuple[np.ndarray, ...]:
        arrays = {name: np.asarray(feed) for name, feed in feeds.items()}
        results = getattr(self.model, entry)(**arrays)
        results = results if isinstance(results, tuple) else (results,)
        for result, meant in zip(results, evaluate(self.graph, entry, arrays, {}).results, strict=True):
            assert result.dtype == meant.dtype
            np.testing.assert_allclose(result.astype(np.float64), meant.astype(np.float64), rtol=0, atol=within)
        return results
