"""Batches that are made up, and batches of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import click
import numpy as np
import pytest

from dfc.cli.networks.batches import of_files, synthetic
from dfc_runtime.errors import FileError, LimitError
from dfc_runtime.records.example import encode_example
from tests.support.command_line import Command, command
from tests.support.record_files import write_records

SIDE = 3


@pytest.fixture
def dfc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return command(monkeypatch, capsys)


@pytest.fixture
def images(tmp_path: Path, dfc: Command) -> tuple[Path, np.ndarray, np.ndarray]:
    """A folder with five images in two files, their pixels and labels."""
    rng = np.random.default_rng(2)
    pixels, labels = rng.integers(0, 256, (5, SIDE * SIDE * 3)).astype(np.uint8), np.arange(5) * 2
    for name, part in (("a", slice(0, 2)), ("b", slice(2, 5))):
        np.savez(tmp_path / f"{name}.npz", image=pixels[part], label=labels[part])
        assert dfc("data", "make", tmp_path / f"{name}.rec", "--from", tmp_path / f"{name}.npz").code == 0
    return tmp_path, pixels, labels


@pytest.mark.parametrize("make", [synthetic, lambda *sizes: of_files("", *sizes)])
def test_a_batch_without_room_in_memory_is_one_line(make: Callable[[int, int, int], Iterator[object]]) -> None:
    with pytest.raises(LimitError, match=r"a batch of 99,999,999,999,999 images needs .* more than the limit of"):
        next(make(99_999_999_999_999, 224, 1000))


def test_made_up_batches_are_the_same_each_time_and_depend_on_the_seed() -> None:
    (x, labels), (again, _) = islice(synthetic(64, SIDE, 7), 2)
    assert (x.shape, x.dtype, labels.dtype) == ((64, SIDE, SIDE, 3), np.float32, np.int32)
    assert x is again
    assert set(labels) == set(range(7))
    assert not np.array_equal(next(synthetic(64, SIDE, 7, seed=1))[0], x)


def test_records_are_read_in_order_from_the_first_on_and_over_again(
    images: tuple[Path, np.ndarray, np.ndarray],
) -> None:
    folder, pixels, labels = images
    batches = of_files(str(folder), 2, SIDE, 10, first=2)
    for numbers in ([2, 3], [4, 0], [1, 2]):
        x, found = next(batches)
        np.testing.assert_array_equal(found, labels[numbers])
        np.testing.assert_allclose(x, pixels[numbers].reshape(2, SIDE, SIDE, 3) / 127.5 - 1, rtol=1e-6, atol=1e-6)
        assert (x.dtype, found.dtype) == (np.float32, np.int32)
    batches.close()


def test_images_that_are_changed_count_from_the_first_on(images: tuple[Path, np.ndarray, np.ndarray]) -> None:
    folder, pixels, _ = images
    batches = of_files(str(folder), 2, SIDE, 10, first=4, change=lambda raw, first: raw + np.float32(first))
    for first, numbers in ((4, [4, 0]), (6, [1, 2])):
        np.testing.assert_array_equal(next(batches)[0], pixels[numbers].reshape(2, SIDE, SIDE, 3) + np.float32(first))
    batches.close()
    made_up = synthetic(2, SIDE, 7, change=lambda raw, first: raw + np.float32(first))
    (x, labels), (later, same) = islice(made_up, 2)
    np.testing.assert_array_equal(later, x + 2)
    np.testing.assert_array_equal(same, labels)
    made_up.close()


@pytest.mark.parametrize(("side", "classes", "words"), [(4, 10, "27 bytes"), (SIDE, 8, "the label 8, of 8 classes")])
def test_images_that_do_not_fit_are_named(
    images: tuple[Path, np.ndarray, np.ndarray], side: int, classes: int, words: str
) -> None:
    with pytest.raises(click.UsageError, match=words):
        next(of_files(str(images[0]), 5, side, classes))


def test_records_without_images_are_named(tmp_path: Path, dfc: Command) -> None:
    assert dfc("data", "make", tmp_path / "x.rec", "--synthetic", "other=f32", "--count", 2).code == 0
    with pytest.raises(click.UsageError, match="record 0 of --data_dir has no one `image`"):
        next(of_files(str(tmp_path), 2, SIDE, 10))


def test_a_label_is_a_whole_number(tmp_path: Path) -> None:
    image = np.zeros(27, np.uint8).tobytes()
    write_records(tmp_path / "a.rec", [encode_example({"image": image, "label": np.array([np.nan], np.float32)})])
    with pytest.raises(click.UsageError, match="record 0 of --data_dir has a label of floats"):
        next(of_files(str(tmp_path), 1, SIDE, 10))


def test_a_folder_without_records_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"no files \*\.rec"):
        next(of_files(str(tmp_path), 2, SIDE, 10))
