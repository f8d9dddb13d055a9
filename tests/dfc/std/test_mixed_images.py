"""Rectangles left out and pairs of images mixed equal NumPy's; weights have the moments of their distribution."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dfc_runtime.errors import RunError
from tests.support.augmentations import IMAGES, INDEX, KEY, UNITS, Compared, uniform

CUTOUT = 4
PROGRAM = Compared("""
from std.images import cutout, erase, mix, mix_labels, mix_weights

readonly entry erased[B](x: u8[B, 6, 8, 3], box: i64[4, B]) -> u8[B, 6, 8, 3] {
  return erase(x, box[0], box[1], box[2], box[3], fill = 9)
}
readonly entry square[B](x: f32[B, 6, 8, 3], key: u64, index: i64[B]) -> f32[B, 6, 8, 3] {
  return cutout(x, 4, key, index, 0.5)
}
readonly entry mixed[B](x: u8[B, 6, 8, 3], y: f32[B, 6, 8, 3], labels: i32[B], weight: f32[B])
    -> (x: u8[B, 6, 8, 3], y: f32[B, 6, 8, 3], labels: f32[B, 4]) {
  let shares = one_hot(labels, 4)
  return mix(x, roll(x, 1, axis = 0), weight), mix(y, roll(y, 1, axis = 0), weight), mix_labels(
    shares,
    roll(shares, 1, axis = 0),
    weight,
  )
}
readonly entry weights[B](key: u64, index: i64[B], alpha: f32) -> f32[B] { return mix_weights(key, index, alpha) }
readonly entry weight(key: u64, index: i64) -> f32 { return mix_weights(key, index) }
""")


def test_rectangles_are_filled_where_they_cover_the_image() -> None:
    boxes = np.array([[0, 0, 6, 8], [1, 2, 3, 4], [-2, 6, 4, 9], [4, -1, 1, 2], [3, 3, 0, 5]])
    expected = IMAGES.copy()
    for image, (top, left, height, width) in zip(expected, boxes, strict=True):
        image[max(top, 0) : top + height, max(left, 0) : left + width] = 9
    assert_array_equal(PROGRAM.run("erased", x=IMAGES, box=boxes.T)[0], expected)


def test_a_square_is_cut_out_around_a_pixel() -> None:
    rows, columns = (uniform(2, CUTOUT) * np.array([6, 8], np.float32)).astype(int).T
    expected = UNITS.copy()
    for image, row, column in zip(expected, rows, columns, strict=True):
        image[max(row - 2, 0) : row + 2, max(column - 2, 0) : column + 2] = 0.5
    assert_array_equal(PROGRAM.run("square", x=UNITS, key=np.uint64(KEY), index=INDEX)[0], expected)


def test_pairs_are_means_by_their_weights() -> None:
    weight, labels = np.array([1, 0, 0.25, 0.5, 0.875], np.float32), np.array([3, 0, 1, 1, 2], np.int32)
    x, y, shares = PROGRAM.run("mixed", within=1e-6, x=IMAGES, y=UNITS, labels=labels, weight=weight)

    def mixed(values: np.ndarray) -> np.ndarray:
        by = weight.astype(np.float64).reshape(-1, *(1,) * (values.ndim - 1))
        return by * values + (1 - by) * np.roll(values, 1, axis=0)

    assert_array_equal(x, np.round(mixed(IMAGES)))
    assert_allclose(y, mixed(UNITS), atol=1e-6)
    assert_array_equal(shares, mixed(np.eye(4)[labels]))
    assert_array_equal(y[0], UNITS[0])


def test_weights_of_no_distribution_are_refused() -> None:
    for alpha in (0, -1):
        with pytest.raises(RunError, match="alpha above 0"):
            PROGRAM.model.weights(key=np.uint64(KEY), index=np.arange(2), alpha=np.float32(alpha))


def test_weights_have_the_moments_of_a_beta_distribution() -> None:
    index = np.arange(20_000)
    for alpha in (0.2, 1, 4):
        (made,) = PROGRAM.run("weights", within=1e-5, key=np.uint64(KEY), index=index, alpha=np.float32(alpha))
        variance = 1 / (4 * (2 * alpha + 1))
        fourth = 3 / (16 * (2 * alpha + 1) * (2 * alpha + 3))
        assert made.min() >= 0 and made.max() <= 1
        for power, moment in ((1, 0), (2, variance), (3, 0), (4, fourth)):
            assert abs(((made - 0.5) ** power).mean() - moment) < 5e-3, (alpha, power)
    assert PROGRAM.model.weight(key=np.uint64(KEY), index=7) == PROGRAM.model.weights(
        key=np.uint64(KEY), index=index[7:8], alpha=np.float32(0.2)
    )
