"""Batches of images and labels: made up, or from files of records.

Records are messages `tf.train.Example` with `image`, the bytes of all pixels (height, width, red, green and blue), and
`label`, one number. Pixels go in as numbers from -1 to 1. Reading, and changing images, goes on while a step runs,
one batch ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, repeat
from pathlib import Path
from typing import TypeAlias

import click
import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.memory import check_limit, memory_limit
from dfc_runtime.errors import FileError, counted
from dfc_runtime.records.example import decode_example
from dfc_runtime.records.reading import RecordFiles

Batch: TypeAlias = "tuple[NDArray[np.float32], NDArray[np.int32]]"
RawBatch: TypeAlias = "tuple[NDArray[np.uint8], NDArray[np.int32]]"
Change: TypeAlias = "Callable[[NDArray[np.uint8], int], NDArray[np.float32]]"
"""What becomes of images, which count from a number on: pixels from -1 to 1."""
MIDDLE = np.float32(127.5)


def synthetic(batch: int, image: int, classes: int, seed: int = 0, change: Change | None = None) -> Generator[Batch]:
    """The same batch over and over: normally distributed pixels, labels by chance. With `change` pixels are bytes by
    chance, which are changed anew for each batch. `LimitError` if a batch is too large."""
    _check_memory(batch, image)
    rng = np.random.default_rng(seed)
    shape = (batch, image, image, 3)
    if change is None:
        same = rng.standard_normal(shape, dtype=np.float32), rng.integers(0, classes, batch).astype(np.int32)
        yield from repeat(same)
        return
    pixels, labels = rng.integers(0, 256, shape, np.uint8), rng.integers(0, classes, batch).astype(np.int32)
    yield from _prefetch(lambda start: (change(pixels, start), labels), 0, batch)


def of_files(
    folder: str, batch: int, image: int, classes: int, first: int = 0, change: Change | None = None
) -> Generator[Batch]:
    """Batches of the records of all files `*.rec` and `*.tfrecord` in a folder, from record `first` on, over and over,
    each as it is or changed.
    `FileError` if there are none, `UsageError` if one is no image of this size, `LimitError` for batches too large."""
    _check_memory(batch, image)
    with RecordFiles(files_in(folder)) as records:
        if not records.count:
            raise FileError(f"the files in --data_dir {folder} have no records", code="E0909")

        def read(start: int) -> Batch:
            numbers = (start + np.arange(batch, dtype=np.int64)) % records.count
            pixels, labels = _batch(records, numbers, image, classes)
            return _scaled(pixels) if change is None else change(pixels, start), labels

        yield from _prefetch(read, first, batch)


def _prefetch(read: Callable[[int], Batch], first: int, batch: int) -> Generator[Batch]:
    """What `read` gives for images from `first` on, in another thread, one batch ahead."""
    with ThreadPoolExecutor(1) as reader:
        prefetched = reader.submit(read, first)
        for start in count(first + batch, batch):
            current = prefetched.result()
            prefetched = reader.submit(read, start)
            yield current


def _scaled(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    return pixels.astype(np.float32) / MIDDLE - np.float32(1)


def files_in(folder: str) -> list[Path]:
    """The files `*.rec` and `*.tfrecord` in a folder, in order; `FileError` if there are none."""
    paths = sorted(path for path in Path(folder).glob("*") if path.suffix in (".rec", ".tfrecord"))
    if not paths:
        remedy = "make some with `dfc data make`, or leave --data_dir out: the images are made up then"
        raise FileError(f"--data_dir {folder} has no files *.rec or *.tfrecord\n  {remedy}", code="E0909")
    return paths


def _check_memory(batch: int, image: int) -> None:
    size = batch * image * image * 3 * np.dtype(np.float32).itemsize
    check_limit(f"a batch of {counted(batch, 'image', ',')}", size, memory_limit())


def _batch(records: RecordFiles, numbers: NDArray[np.int64], image: int, classes: int) -> RawBatch:
    size, pixels, labels = 3 * image * image, list[NDArray[np.uint8]](), list[int]()
    for number in numbers:
        frames = records.read(np.array([number])).frames
        example = decode_example(frames.record(0))
        bytes_, label = example.get("image"), example.get("label")
        if not isinstance(bytes_, list) or label is None or isinstance(label, list) or len(bytes_) * len(label) != 1:
            raise click.UsageError(f"record {number} of --data_dir has no one `image` of bytes and one `label`")
        if label.dtype != np.int64:
            raise click.UsageError(f"record {number} of --data_dir has a label of floats; whole numbers are wanted")
        if len(bytes_[0]) != size:
            text = f"record {number} of --data_dir has an image of {len(bytes_[0])} bytes, and {image} x {image} pixels"
            raise click.UsageError(f"{text} of 3 bytes are {size}; images are not decoded here")
        if not 0 <= int(label[0]) < classes:
            raise click.UsageError(f"record {number} of --data_dir has the label {label[0]}, of {classes} classes")
        pixels.append(np.frombuffer(bytes_[0], np.uint8))
        labels.append(int(label[0]))
    return np.stack(pixels).reshape(-1, image, image, 3), np.array(labels, np.int32)
