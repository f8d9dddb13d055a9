"""The pixels at an address are those of the image, whether Pillow hands them out or not."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from PIL import Image

from dfc_runtime.records.images.memory import PIXEL, pixels_of


def colours_at(address: int, rows: int, columns: int) -> np.ndarray:
    data = np.frombuffer(ctypes.string_at(address, rows * columns * PIXEL), np.uint8)
    return data.reshape(rows, columns, PIXEL)[..., :3]


@pytest.mark.parametrize("size", [(5, 7), (2100, 2100)])  # the second one is in several pieces
@pytest.mark.parametrize("version", ["this", "an old one", "one that hands out something else"])
def test_pixels_are_those_of_the_image(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], version: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    image = Image.fromarray(pixels)
    if version == "an old one":
        monkeypatch.delattr(Image.Image, "__arrow_c_array__", raising=False)
    elif version != "this":
        other = Image.new("L", size[::-1]).__arrow_c_array__()
        monkeypatch.setattr(Image.Image, "__arrow_c_array__", lambda _: other)
    address, kept = pixels_of(image)
    np.testing.assert_array_equal(colours_at(address, *size), pixels)
    del kept
