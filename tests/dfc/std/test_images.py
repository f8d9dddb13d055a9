"""`std.images`: crops, flips and their random numbers equal slices of NumPy, alone and in batches, on every target."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

import dfc
import dfc_runtime
from tests.support.augmentations import IMAGES, INDEX, KEY, UNITS, Compared, uniform
from tests.support.building import messages
from tests.support.corpus import ROOT
from tests.support.documents import code_blocks
from tests.support.replicating import agrees

CROP, FLIP = 1, 2
PROGRAM = Compared("""
from std.images import centre_crop, crop, flip, keyed_uniform, normalise, random_crop, random_flip

readonly entry parts[B](x: u8[B, 6, 8, 3], top: i64[B], left: i64[B]) -> u8[B, 4, 5, 3] {
  return crop(x, top, left, 4, 5)
}
readonly entry middle[B](x: u8[B, 6, 8, 3]) -> (part: u8[B, 3, 5, 3], whole: u8[B, 6, 8, 3]) {
  return centre_crop(x, 3, 5), centre_crop(x, 6, 8)
}
readonly entry turned[B](x: u8[B, 6, 8, 3], turn: bool[B]) -> (once: u8[B, 6, 8, 3], twice: u8[B, 6, 8, 3]) {
  return flip(x, turn), flip(flip(x, turn), turn)
}
readonly entry drawn[B](x: u8[B, 6, 8, 3], key: u64, index: i64[B])
    -> (part: u8[B, 4, 5, 3], whole: u8[B, 6, 8, 3], turned: u8[B, 6, 8, 3]) {
  return random_crop(x, 4, 5, key, index), random_crop(x, 6, 8, key, index), random_flip(x, key, index)
}
readonly entry drawn_alone(x: u8[6, 8, 3], key: u64, index: i64)
    -> (part: u8[4, 5, 3], whole: u8[6, 8, 3], turned: u8[6, 8, 3]) {
  return random_crop(x, 4, 5, key, index), random_crop(x, 6, 8, key, index), random_flip(x, key, index)
}
readonly entry places[B](key: u64, index: i64[B]) -> (first: f32[B, 3], second: f32[B, 3]) {
  return keyed_uniform(key, index, 3), keyed_uniform(key, index, 3, stream = 20)
}
readonly entry scaled[B](x: u8[B, 6, 8, 3], y: f32[B, 6, 8, 3]) -> (x: f32[B, 6, 8, 3], y: f32[B, 6, 8, 3]) {
  return normalise(x, [0.1, 0.2, 0.3], [2.0, 4.0, 5.0]), normalise(y, [0.1, 0.2, 0.3], [2.0, 4.0, 5.0])
}
""")
results = PROGRAM.run


def test_a_crop_begins_at_its_row_and_column() -> None:
    top, left = np.array([0, 2, 1, 2, 0]), np.array([3, 0, 2, 3, 1])
    expected = [image[t : t + 4, f : f + 5] for image, t, f in zip(IMAGES, top, left, strict=True)]
    np.testing.assert_array_equal(results("parts", x=IMAGES, top=top, left=left)[0], expected)


@pytest.mark.parametrize(("top", "left"), [(3, 0), (-1, 0), (0, 4), (0, -1)])
def test_a_crop_that_leaves_its_image_stops_the_call(top: int, left: int) -> None:
    with pytest.raises(dfc_runtime.RunError, match="a crop leaves the image"):
        PROGRAM.model.parts(x=IMAGES[:2], top=np.array([0, top]), left=np.array([0, left]))


def test_the_middle_has_the_smaller_rest_above_and_to_the_left() -> None:
    part, whole = results("middle", x=IMAGES)
    np.testing.assert_array_equal(part, IMAGES[:, 1:4, 1:6])
    np.testing.assert_array_equal(whole, IMAGES)


def test_images_that_are_turned_twice_are_as_before() -> None:
    once, twice = results("turned", x=IMAGES, turn=np.array([True, False, True, False, True]))
    np.testing.assert_array_equal(once[::2], IMAGES[::2, :, ::-1])
    np.testing.assert_array_equal(once[1::2], IMAGES[1::2])
    np.testing.assert_array_equal(twice, IMAGES)


def crops(images: np.ndarray, height: int, width: int, u: np.ndarray) -> np.ndarray:
    """The part of each image that two numbers choose."""
    most = np.array(images.shape[1:3]) - [height, width]
    places = np.minimum((u * (most + 1).astype(np.float32)).astype(int), most)
    return np.stack([image[t : t + height, f : f + width] for image, (t, f) in zip(images, places, strict=True)])


def flips(images: np.ndarray, u: np.ndarray) -> np.ndarray:
    return np.where(u[:, None, None, None] < 0.5, images[:, :, ::-1], images)


def test_numbers_follow_from_key_index_and_stream() -> None:
    first, second = results("places", key=np.uint64(KEY), index=INDEX)
    np.testing.assert_array_equal(first, uniform(3, 16))
    np.testing.assert_array_equal(second, uniform(3, 20))


def test_random_crops_and_flips_follow_their_numbers() -> None:
    part, whole, turned = results("drawn", x=IMAGES, key=np.uint64(KEY), index=INDEX)
    np.testing.assert_array_equal(part, crops(IMAGES, 4, 5, uniform(2, CROP)))
    np.testing.assert_array_equal(whole, IMAGES)
    np.testing.assert_array_equal(turned, flips(IMAGES, uniform(1, FLIP)[:, 0]))
    assert 0 < (turned == IMAGES).all(axis=(1, 2, 3)).sum() < 5


def test_an_image_alone_gets_what_it_gets_in_any_batch() -> None:
    together = results("drawn", x=IMAGES, key=np.uint64(KEY), index=INDEX)
    backwards = results("drawn", x=IMAGES[::-1], key=np.uint64(KEY), index=INDEX[::-1])
    for number, (image, index) in enumerate(zip(IMAGES, INDEX, strict=True)):
        alone = results("drawn_alone", x=image, key=np.uint64(KEY), index=index)
        for one, batch, other in zip(alone, together, backwards, strict=True):
            np.testing.assert_array_equal(one, batch[number])
            np.testing.assert_array_equal(one, other[4 - number])


def test_normalised_images_are_distances_from_the_mean_in_deviations() -> None:
    x, y = results("scaled", x=IMAGES, y=UNITS)
    expected = (IMAGES / 255.0 - [0.1, 0.2, 0.3]) / [2.0, 4.0, 5.0]
    np.testing.assert_allclose(x, expected, atol=1e-6)
    np.testing.assert_allclose(y, expected, atol=1e-6)


def test_a_crop_is_no_larger_than_its_image_and_that_has_pixels() -> None:
    program = """
    from std.images import centre_crop, flip, random_crop
    readonly entry larger(x: u8[6, 8, 3]) -> u8[7, 8, 3] { return centre_crop(x, 7, 8) }
    readonly entry wider(x: u8[6, 8, 3]) -> u8[6, 9, 3] { return random_crop(x, 6, 9, 1, 2) }
    readonly entry negative(x: u8[6, 8, 3]) -> u8[6, 8, 3] { return random_crop(x, -1, 8, 1, 2) }
    readonly entry empty(x: u8[0, 8, 3]) -> (y: u8[0, 8, 3]) { return flip(x, true) }
    """
    said = messages(dedent(program))
    for reason in ("7 <= 6", "9 <= 8", "0 >= 1", "0 - 1 >= 0"):
        assert f"here {reason} does not hold" in said
    for limit in ("`height` a number of at most 6", "`width` a number of at most 8"):
        assert f"= help: give {limit}" in said
    assert said.count("= help: give") == 2, "nobody gives the size of an image as an argument"


@pytest.mark.parametrize("copies", [1, 3])
def test_copies_of_a_runner_make_the_images_that_one_makes(copies: int) -> None:
    """The program of the page, with small images."""
    text = next(block.text for block in code_blocks(ROOT / "docs" / "IMAGES.md") if block.language == "dfg")
    smaller = {"256, 256": "12, 12", "224, 224": "8, 8", "BATCH = 64": "BATCH = 4", "copies = 2": f"copies = {copies}"}
    for old, new in smaller.items():
        assert old in text
        text = text.replace(old, new)
    images = np.random.default_rng(3).integers(0, 256, (12, 12, 12, 3), dtype=np.uint8)
    page = dfc_runtime.loads(dfc.compile(text=text).to_bytes(), threads=1)
    for label, image in enumerate(images):
        page.feed(image=image, label=label)
    made = [page.next() for _ in range(3)]
    page.close()
    index = np.arange(12)
    cut = crops(images, 8, 8, uniform(2, CROP, index, 17))
    expected = (flips(cut, uniform(1, FLIP, index, 17)[:, 0]) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_array_equal(np.concatenate([batch.labels for batch in made]), index)
    np.testing.assert_allclose(np.concatenate([batch.images for batch in made]), expected, atol=1e-5)


def test_images_of_a_batch_in_blocks_get_what_they_get_in_the_whole() -> None:
    """On any number of ranks."""
    about = agrees(
        """
        dfg 1
        from std.images import random_flip, random_resized_crop
        param w: f32 = 1
        var seen: i64 = 0
        entry f[B](x: f32[B, 6, 8, 3]) -> (l: f32, y: f32[B, 4, 5, 3]) where B >= 1 {
          let index = seen + iota(i64[B])
          seen += B
          let y = random_flip(random_resized_crop(x, 4, 5, 7, index), 7, index)
          let l = mean(square(w * y - 1))
          w -= grad(l, w)
          return l, y
        }
        """,
        "f",
        {"x": UNITS[[0, 1, 2, 3, 4, 0, 1, 2]].astype(np.float64)},
        sizes={"B": 8},
    )
    assert "y" in about.results
