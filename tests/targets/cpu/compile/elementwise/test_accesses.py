"""Elements at computed places are those of NumPy, whether the places turn out to be neighbours or not."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import dfc
import dfc_runtime

COUNT = 37
"""Several vectors and a rest."""


@cache
def model() -> dfc_runtime.Module:
    text = f"""
    dfg 1
    readonly entry bytes[N](x: u8[N], at: i64) -> u8[{COUNT}] {{ return x[at + iota(i64[{COUNT}])] }}
    readonly entry back[N](x: f32[N], at: i64) -> f32[{COUNT}] {{ return x[at - iota(i64[{COUNT}])] }}
    readonly entry rows[M, N](x: f32[M, N], at: i64[M]) -> f32[M, {COUNT}] {{
      let places = zeros(i64[M, {COUNT}]) + iota(i64[{COUNT}]) + (at + iota(i64[M]) * N)[:, new]
      return 2 * reshape(x, [M * N])[places]
    }}
    """
    return dfc_runtime.loads(dfc.compile(text=text).to_bytes(), threads=1)


@pytest.mark.parametrize("at", [0, 5, 13, -50, -37, -36, -20, -1])
def test_places_one_after_the_other_may_wrap_around(at: int) -> None:
    """From a negative place on they count from the end, and go on at the beginning."""
    numbers = np.arange(50, dtype=np.uint8)
    np.testing.assert_array_equal(model().bytes(x=numbers, at=at), numbers[at + np.arange(COUNT)])


@pytest.mark.parametrize("at", [14, 49, 50, -51, 2**63 - 1, -(2**63), 2**63 - 20])
def test_a_place_outside_stops_the_call(at: int) -> None:
    numbers = np.arange(50, dtype=np.uint8)
    with pytest.raises(dfc_runtime.RunError, match="index") as stopped:
        model().bytes(x=numbers, at=at)
    assert stopped.value.code == "E0904"


def test_fewer_elements_than_lanes() -> None:
    with pytest.raises(dfc_runtime.RunError, match="index"):
        model().bytes(x=np.arange(3, dtype=np.uint8), at=0)


def test_places_in_descending_order() -> None:
    numbers = np.arange(60, dtype=np.float32)
    for at in (59, 36, 20):
        np.testing.assert_array_equal(model().back(x=numbers, at=at), numbers[at - np.arange(COUNT)])


def test_each_row_has_places_of_its_own() -> None:
    numbers = np.random.default_rng(1).standard_normal((4, 45)).astype(np.float32)
    starts = np.array([0, 8, 3, 7])
    expected = [row[start : start + COUNT] for row, start in zip(numbers, starts, strict=True)]
    np.testing.assert_array_equal(model().rows(x=numbers, at=starts), 2 * np.array(expected))
