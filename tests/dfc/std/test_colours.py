"""Colours change as formulas of NumPy and the hues of `colorsys` say, alone and in batches."""

from __future__ import annotations

import colorsys

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from tests.support.augmentations import IMAGES, INDEX, KEY, UNITS, Compared, uniform
from tests.support.building import codes

COLOUR = 6
FACTORS = np.array([0, 0.5, 1, 1.75, 3], np.float32)
TURNS = np.array([0, 0.25, 1 / 3, -0.4, 2.9], np.float32)
FUNCTIONS = ("brightness", "contrast", "saturation", "hue")
PROGRAM = Compared(
    f"from std.colours import {', '.join(FUNCTIONS)}, random_colour\n"
    + "".join(
        f"""
readonly entry {name}_of[B](x: f32[B, 6, 8, 3], y: u8[B, 6, 8, 3], by: f32[B])
    -> (x: f32[B, 6, 8, 3], y: u8[B, 6, 8, 3]) {{
  return {name}(x, by), {name}(y, by)
}}
"""
        for name in FUNCTIONS
    )
    + """
readonly entry drawn[B](x: u8[B, 6, 8, 3], y: f32[B, 6, 8, 3], key: u64, index: i64[B])
    -> (x: u8[B, 6, 8, 3], y: f32[B, 6, 8, 3]) {
  return random_colour(x, key, index), random_colour(y, key, index, 0.9, 0.8, 0.7, 0.6)
}
readonly entry alone(x: u8[6, 8, 3], key: u64, index: i64) -> u8[6, 8, 3] { return random_colour(x, key, index) }
"""
)


def grey(x: np.ndarray) -> np.ndarray:
    return (x @ [0.299, 0.587, 0.114])[..., None]


def blended(x: np.ndarray, origin: np.ndarray, by: np.ndarray) -> np.ndarray:
    return np.clip(origin + by[:, None, None, None] * (x - origin), 0, 1)


def turned(x: np.ndarray, by: np.ndarray) -> np.ndarray:
    made = np.empty(x.shape)
    for pixel in np.ndindex(x.shape[:-1]):
        hue, saturation, value = colorsys.rgb_to_hsv(*x[pixel])
        made[pixel] = colorsys.hsv_to_rgb((hue + by[pixel[0]]) % 1, saturation, value)
    return made


FORMULAS = {
    "brightness": lambda x, by: blended(x, np.zeros_like(x), by),
    "contrast": lambda x, by: blended(x, grey(x).mean(axis=(1, 2), keepdims=True), by),
    "saturation": lambda x, by: blended(x, grey(x), by),
    "hue": turned,
}


def test_colours_change_by_their_formulas() -> None:
    for name, formula in FORMULAS.items():
        by = (TURNS if name == "hue" else FACTORS).astype(np.float64)
        x, y = PROGRAM.run(f"{name}_of", within=1e-6, x=UNITS, y=IMAGES, by=by.astype(np.float32))
        assert_allclose(x, formula(UNITS.astype(np.float64), by), atol=2e-6, err_msg=name)
        assert np.abs(y - 255 * formula(IMAGES / 255, by)).max() < 0.5 + 1e-3, name


def test_factors_of_one_and_whole_turns_change_nothing() -> None:
    for name in FUNCTIONS:
        whole = np.array([1, 0, -1, 2, 7]) if name == "hue" else np.ones(5)
        x, y = PROGRAM.run(f"{name}_of", within=1e-6, x=UNITS, y=IMAGES, by=whole.astype(np.float32))
        assert_allclose(x, UNITS, atol=1e-6)
        assert_array_equal(y, IMAGES)


def test_greys_have_no_hue() -> None:
    greys = np.repeat(UNITS[..., :1], 3, axis=-1)
    x, _ = PROGRAM.run("hue_of", x=greys, y=IMAGES, by=TURNS)
    assert_array_equal(x, greys)


def drawn(x: np.ndarray, shares: tuple[float, ...]) -> np.ndarray:
    u = 2 * uniform(4, COLOUR).astype(np.float64) - 1
    for number, name in enumerate(FUNCTIONS):
        by = shares[number] * u[:, number]
        x = FORMULAS[name](x, by if name == "hue" else np.maximum(1 + by, 0))
    return x


def test_random_colours_follow_their_numbers() -> None:
    x, y = PROGRAM.run("drawn", within=1e-5, x=IMAGES, y=UNITS, key=np.uint64(KEY), index=INDEX)
    assert np.abs(x - 255 * drawn(IMAGES / 255, (0.4, 0.4, 0.4, 0.1))).max() < 0.5 + 2e-3
    assert_allclose(y, drawn(UNITS.astype(np.float64), (0.9, 0.8, 0.7, 0.6)), atol=1e-5)
    for number, image in enumerate(IMAGES):
        alone = PROGRAM.model.alone(x=image, key=np.uint64(KEY), index=INDEX[number])
        assert_array_equal(alone, x[number])


def test_colours_are_three() -> None:
    program = "from std.colours import hue\nreadonly entry f(x: u8[6, 8, 4]) -> u8[6, 8, 4] { return hue(x, 0.5) }"
    assert codes(program) == ["E0305"]
