"""Images as pixels: what files of each kind become, and what is wrong with those that are none."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from dfc_runtime.errors import UnsupportedError
from dfc_runtime.records.images import decoding
from tests.support.image_files import Pixels, jpeg, png, smooth


def triangle(count: int, size: int) -> NDArray[np.float64]:
    """The weights of linear interpolation over as many of `count` pixels as become one of `size`, by its definition."""
    scale = count / size
    centres = (np.arange(size)[:, None] + 0.5) * scale - 0.5
    weights = np.maximum(0, 1 - np.abs(np.arange(count) - centres) / max(scale, 1))
    return weights / weights.sum(axis=1, keepdims=True)


def resized(pixels: Pixels, height: int, width: int) -> NDArray[np.float64]:
    rows, columns = triangle(pixels.shape[0], height), triangle(pixels.shape[1], width)
    return np.einsum("hr,wc,rcx->hwx", rows, columns, pixels.astype(np.float64), optimize=True)


def test_an_image_of_the_size_that_is_wanted_keeps_its_pixels() -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (5, 7, 3), np.uint8)
    np.testing.assert_array_equal(decoding.decode(png(pixels), 5, 7), pixels)


@pytest.mark.parametrize("size", [(9, 13), (40, 31), (60, 20)])
def test_another_size_is_linear_interpolation_over_the_pixels_that_become_one(size: tuple[int, int]) -> None:
    pixels = np.random.default_rng(4).integers(0, 256, (37, 29, 3), np.uint8)
    np.testing.assert_allclose(decoding.decode(png(pixels), *size), resized(pixels, *size), atol=1)


def test_grey_is_repeated_transparency_left_out_and_of_16_bits_the_upper_ones_count() -> None:
    grey = np.random.default_rng(5).integers(0, 256, (4, 6), np.uint8)
    three = np.repeat(grey[..., None], 3, axis=2)
    alpha = np.concatenate([three, 255 - three[..., :1]], axis=2)
    for file in (png(grey), png(alpha), png(grey.astype(np.uint16) * 256 + 200)):
        np.testing.assert_array_equal(decoding.decode(file, 4, 6), three)


@pytest.mark.parametrize("size", [(120, 90), (61, 50), (29, 22), (11, 10)])
def test_jpeg_decoded_smaller_is_what_the_whole_image_resized_is(size: tuple[int, int]) -> None:
    pixels = smooth(123, 92)
    got, expected = decoding.decode(jpeg(pixels), *size).astype(np.float64), resized(pixels, *size)
    np.testing.assert_allclose(got, expected, atol=5)
    assert np.abs(got - expected).mean() < 1


WHOLE = jpeg(smooth(40, 40))
DAMAGED = {
    "nothing": (b"", "neither a JPEG nor a PNG file"),
    "a text": (b"GIF89a is another format", "neither a JPEG nor a PNG file"),
    "a head alone": (WHOLE[:3], "not identified"),
    "a JPEG cut short": (WHOLE[:-200], "truncated|Truncated"),
    "a PNG cut short": (png(smooth(40, 40))[:200], "truncated|Truncated"),
    "a head that is not as its checksum says": (png(smooth(4, 4)).replace(b"\0\0\0\4", b"\0\1\0\0"), "checksum"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_what_is_no_image_is_said_to_be_none(what: str) -> None:
    data, reason = DAMAGED[what]
    with pytest.raises(decoding.DamagedImage, match=reason):
        decoding.decode(data, 8, 8)


def test_what_a_jpeg_says_of_its_camera_is_not_looked_at(recwarn: pytest.WarningsRecorder) -> None:
    whole = jpeg(smooth(40, 30))
    damaged = b"\xff\xe1\0\x1eExif\0\0MM\0*\0\0\0\x08\0\x05\1\x1a\0\5\0\0\0\1\0\0\xff\0"
    pixels = decoding.decode(whole[:20] + damaged + whole[20:], 4, 4)
    np.testing.assert_array_equal(pixels, decoding.decode(whole, 4, 4))
    assert not recwarn.list


def test_an_image_that_claims_more_pixels_than_memory_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MOST_PIXELS", 1599)
    with pytest.raises(decoding.DamagedImage, match="it says that it has 40 x 40 pixels, and at most 1,599"):
        decoding.decode(WHOLE, 8, 8)


def test_without_the_library_one_message_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UnsupportedError, match=r"(?s)Pillow.*pip install 'dfc-runtime\[images\]'") as caught:
        decoding.require_decoder()
    assert caught.value.code == "E1001"
