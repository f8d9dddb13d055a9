"""Images in other sizes equal weighted means that NumPy takes, and what Pillow makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.support.augmentations import IMAGES, INDEX, KEY, UNITS, Compared, uniform
from tests.support.building import codes
from tests.support.sweeping import few

RESIZED = 3
SIZES = few([(6, 8), (9, 11), (1, 3), (4, 5)], 3)
PROGRAM = Compared(
    "from std.images import random_resized_crop, resize_linear, resize_nearest\n"
    + "".join(
        f"""
readonly entry linear{h}_{w}[B](x: f32[B, 6, 8, 3]) -> (smooth: f32[B, {h}, {w}, 3], plain: f32[B, {h}, {w}, 3]) {{
  return resize_linear(x, {h}, {w}), resize_linear(x, {h}, {w}, antialias = false)
}}
readonly entry bytes{h}_{w}[B](x: u8[B, 6, 8, 3]) -> (smooth: u8[B, {h}, {w}, 3], nearest: u8[B, {h}, {w}, 3]) {{
  return resize_linear(x, {h}, {w}), resize_nearest(x, {h}, {w})
}}
"""
        for h, w in SIZES
    )
    + """
readonly entry parts[B](x: f32[B, 6, 8, 3], key: u64, index: i64[B]) -> f32[B, 5, 4, 3] {
  return random_resized_crop(x, 5, 4, key, index, smallest = 0.3)
}
readonly entry part(x: f32[6, 8, 3], key: u64, index: i64) -> f32[5, 4, 3] {
  return random_resized_crop(x, 5, 4, key, index, smallest = 0.3)
}
"""
)


def weights(old: int, new: int, antialias: bool) -> np.ndarray:
    """Row i: the triangle around the centre of result i, at the centres of all elements."""
    scale = old / new
    reach = max(scale, 1) if antialias else 1
    distance = np.abs(np.arange(old) + 0.5 - (np.arange(new)[:, None] + 0.5) * scale)
    height = np.maximum(1 - distance / reach, 0)
    return height / height.sum(axis=1, keepdims=True)


def resized(images: np.ndarray, height: int, width: int, antialias: bool = True) -> np.ndarray:
    rows, columns = weights(images.shape[-3], height, antialias), weights(images.shape[-2], width, antialias)
    return np.einsum("ih,...hwc,jw->...ijc", rows, images.astype(np.float64), columns)


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_results_are_means_under_triangles(height: int, width: int) -> None:
    smooth, plain = PROGRAM.run(f"linear{height}_{width}", within=1e-6, x=UNITS)
    assert_allclose(smooth, resized(UNITS, height, width), atol=1e-6)
    assert_allclose(plain, resized(UNITS, height, width, antialias=False), atol=1e-6)
    whole, nearest = PROGRAM.run(f"bytes{height}_{width}", x=IMAGES)
    assert np.abs(whole - resized(IMAGES, height, width)).max() <= 0.5 + 1e-4
    rows = np.floor((np.arange(height) + 0.5) * 6 / height).astype(int)
    columns = np.floor((np.arange(width) + 0.5) * 8 / width).astype(int)
    assert_array_equal(nearest, IMAGES[:, rows][:, :, columns])


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_pillow_makes_the_same(height: int, width: int) -> None:
    pillow = pytest.importorskip("PIL.Image")
    smooth, _ = PROGRAM.run(f"linear{height}_{width}", within=1e-6, x=UNITS)
    whole, nearest = PROGRAM.run(f"bytes{height}_{width}", x=IMAGES)
    for number, image in enumerate(IMAGES):
        planes = [pillow.fromarray(UNITS[number, :, :, c]) for c in range(3)]
        expected = [plane.resize((width, height), pillow.Resampling.BILINEAR) for plane in planes]
        assert_allclose(smooth[number], np.stack([np.asarray(each) for each in expected], axis=-1), atol=1e-6)
        colours = pillow.fromarray(image)
        linear = np.asarray(colours.resize((width, height), pillow.Resampling.BILINEAR)).astype(int)
        assert np.abs(whole[number] - linear).max() <= 1  # Pillow rounds rows before it takes columns
        reference = np.asarray(colours.resize((width, height), pillow.Resampling.NEAREST))
        between = np.ix_(
            (2 * np.arange(height) + 1) * 6 % (2 * height) > 0, (2 * np.arange(width) + 1) * 8 % (2 * width) > 0
        )
        assert_array_equal(nearest[number][between], reference[between])  # Pillow rounds where a centre is on a border


def test_the_same_size_changes_nothing() -> None:
    for made in (*PROGRAM.run("linear6_8", x=UNITS), *PROGRAM.run("bytes6_8", x=IMAGES)):
        assert_array_equal(made, UNITS if made.dtype == np.float32 else IMAGES)


def test_random_parts_are_resized_as_if_they_were_images() -> None:
    u = uniform(4, RESIZED).astype(np.float64)
    area, ratio = (0.3 + 0.7 * u[:, 0]) * 48, np.exp((2 * u[:, 1] - 1) * np.log(1.3333333))
    rows = np.clip(np.round(np.sqrt(area / ratio)), 1, 6).astype(int)
    columns = np.clip(np.round(np.sqrt(area * ratio)), 1, 8).astype(int)
    top, left = (u[:, 2] * (7 - rows)).astype(int), (u[:, 3] * (9 - columns)).astype(int)
    assert len({*zip(rows, columns, strict=True)}) > 2
    (made,) = PROGRAM.run("parts", within=1e-6, x=UNITS, key=np.uint64(KEY), index=INDEX)
    for n, image in enumerate(UNITS):
        part = image[top[n] : top[n] + rows[n], left[n] : left[n] + columns[n]]
        assert_allclose(made[n], resized(part, 5, 4), atol=1e-6)
        assert_array_equal(PROGRAM.model.part(x=image, key=np.uint64(KEY), index=INDEX[n]), made[n])


def test_an_image_has_a_pixel() -> None:
    program = "from std.images import resize_linear\nreadonly entry f(x: u8[6, 8, 3]) -> u8[0, 8, 3] { return {} }"
    assert codes(program.replace("{}", "resize_linear(x, 0, 8)")) == ["E0305"]
