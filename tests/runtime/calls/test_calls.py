"""Feeds that are all tensors: taken as they are where each of them fits, else converted as any others."""

from __future__ import annotations

import numpy as np
import pytest

import dfc
from dfc_runtime.errors import FeedError

PROGRAM = """dfg 1

readonly entry apart[N, M](x: f32[N, M], y: f32[N, M]) -> (z: f32[N, M]) {
  return x - y
}
"""


@pytest.fixture(scope="module")
def model() -> dfc.Module:
    return dfc.loads(dfc.compile(text=PROGRAM).to_bytes(), threads=1)


def test_any_of_two_tensors_may_lie_otherwise(model: dfc.Module) -> None:
    x, y = np.arange(6, dtype="f4").reshape(2, 3), np.ones((2, 3), "f4")
    pairs = [
        (x, y),
        (np.asfortranarray(x), y),
        (x, np.asfortranarray(y)),
        (x, np.repeat(y, 2, 0)[::2]),
    ]
    for pair in pairs:
        np.testing.assert_array_equal(model.apart(*pair).z, x - y)


def test_any_of_two_tensors_is_refused_if_it_does_not_fit(model: dfc.Module) -> None:
    x = np.zeros((2, 3), "f4")
    for pair in ((x, x.astype("i4")), (x.astype("i4"), x), (x, x.T), (x, x[0])):
        with pytest.raises(FeedError):
            model.apart(*pair)
