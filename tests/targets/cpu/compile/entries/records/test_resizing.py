"""Images that generated code resizes are those of Pillow, bit by bit, rows first."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from dfc_runtime.records.images import decoding
from dfc_runtime.records.images.memory import pixels_of
from dfc_runtime.records.images.resizing import LEAST, NativeResize
from dfc_target_cpu.entries.records.resizing import resize_function
from dfc_target_cpu.llvm.text import ModuleText, Parameter
from dfc_target_cpu.machine import Machine
from tests.support.cpu_code import Code, load, runnable_machines
from tests.support.image_files import jpeg, png, smooth

LINEAR = Image.Resampling.BILINEAR


def code(machine: Machine) -> Code:
    module = ModuleText(machine.triple)
    f = module.function("outside", "void", (Parameter("ptr", "call"),), linkage="external")
    f.call(resize_function(module), "void", f.arguments)
    f.ret()
    module.add(f)
    return load(module, machine)


@pytest.fixture(scope="module")
def best() -> tuple[Code, NativeResize]:
    """Kept with its code, which goes with it."""
    loaded = code(runnable_machines()[0])
    return loaded, NativeResize(loaded.address("outside"))


def by_pillow(pixels: np.ndarray, extent: tuple[float, float], size: tuple[int, int]) -> np.ndarray:
    """Pillow's `resize` of rows alone, and then of columns alone."""
    rows, (height, width) = pixels.shape[0], size
    along = Image.fromarray(pixels).resize((width, rows), LINEAR, (0, 0, extent[1], rows))
    return np.asarray(along.resize((width, height), LINEAR, (0, 0, width, extent[0])))


def by_code(resize: NativeResize, pixels: np.ndarray, extent: tuple[float, float], size: tuple[int, int]) -> np.ndarray:
    address, kept = pixels_of(Image.fromarray(pixels))
    result = resize(address, pixels.shape[:2], extent, size)
    del kept
    assert result is not None or pixels.shape[1] < LEAST, "only narrow images are left to Pillow"
    return by_pillow(pixels, extent, size) if result is None else result


SIZES = [(375, 500), (37, 29), (5, 7), (6, 8), (64, 64), (9, 100), (1, 20)]
WANTED = [(224, 224), (9, 13), (40, 31), (61, 20), (64, 64), (1, 5), (3, 2)]


@pytest.mark.parametrize("count", SIZES)
def test_pixels_are_those_of_pillow(best: tuple[Code, NativeResize], count: tuple[int, int]) -> None:
    rng = np.random.default_rng(sum(count))
    noise = rng.integers(0, 256, (*count, 3), np.uint8)
    for pixels in (noise, noise // 128 * 255):  # which is where sums are as large as they can be
        for size in (*WANTED, (count[0], 11), (7, count[1])):
            for extent in (count, (count[0] - 0.375, count[1] - 0.25)):
                wanted = by_pillow(pixels, extent, size)
                np.testing.assert_array_equal(by_code(best[1], pixels, extent, size), wanted, f"{size} {extent}")


def test_wide_images_are_those_of_one_call(best: tuple[Code, NativeResize]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (75, 100, 3), np.uint8)
    for size in ((44, 44), (150, 130), (75, 30)):
        wanted = np.asarray(Image.fromarray(pixels).resize(size[::-1], LINEAR))
        np.testing.assert_array_equal(by_code(best[1], pixels, (75, 100), size), wanted)


def test_every_machine_gives_the_same_pixels() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (43, 51, 3), np.uint8)
    for machine in runnable_machines():
        loaded = code(machine)
        result = by_code(NativeResize(loaded.address("outside")), pixels, (43, 51), (20, 22))
        np.testing.assert_array_equal(result, by_pillow(pixels, (43, 51), (20, 22)), machine.name)


def test_images_of_every_kind_have_the_pixels_that_they_have_without_code(best: tuple[Code, NativeResize]) -> None:
    grey = np.random.default_rng(5).integers(0, 256, (31, 45), np.uint8)
    three = np.stack([grey, grey // 2, 255 - grey], axis=2)
    alpha = np.concatenate([three, three[..., :1]], axis=2)
    for file in (png(grey), png(three), png(alpha), png(grey.astype(np.uint16) * 256), jpeg(smooth(123, 92))):
        for size in ((20, 20), (31, 45), (61, 50)):
            np.testing.assert_array_equal(
                decoding.decode(file, *size, best[1]), decoding.decode(file, *size), str(size)
            )


def test_an_image_that_is_narrower_than_the_pixels_that_become_one_is_left_to_pillow(
    best: tuple[Code, NativeResize],
) -> None:
    pixels = np.random.default_rng(6).integers(0, 256, (8, 3, 3), np.uint8)
    assert best[1](0, (8, 3), (8, 3), (4, 1)) is None
    wanted = by_pillow(pixels, (8, 3), (4, 1))
    np.testing.assert_array_equal(decoding.decode(png(pixels), 4, 1, best[1]), wanted)
