"""Images of 256 x 256 become batches of 64 normalised ones of 224 x 224, changed by chance; images a second.

    python -m bench.data.augmentations [--chain crop|colour] [--threads N] [--python torch=PATH] [--python tf=PATH]

Two chains: `crop` cuts a random part out and flips it by chance; `colour` takes a random part of random size, resizes
it with a filter, flips it, and changes brightness, contrast, saturation and hue. dfc is given whole batches. Beside it:
torchvision's `v2` transforms with the interpreter `torch`, image by image, as its documentation does (with more threads
than one also in a `DataLoader` with as many workers), and `tf.image` in `tf.data` with the interpreter `tf`. Each runs
in a process of its own, in turns, `RUNS` times, on images that are in memory. Prints the median for each.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

BATCH, SIDE, SIZE, BATCHES, RUNS = 64, 256, 224, 3, 3
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PROGRAM = Path(__file__).resolve().parents[1] / "programs" / "augmentations.dfg"
Stream = Iterator[Any]


def images() -> Any:
    """A batch, [image, row, column, channel]."""
    return np.random.default_rng(1).integers(0, 256, (BATCH, SIDE, SIDE, 3), dtype=np.uint8)


def with_dfc(chain: str, threads: int) -> Stream:
    import dfc
    import dfc_runtime

    model = dfc_runtime.loads(dfc.compile(PROGRAM).to_bytes(), threads=threads)
    batch = images()
    for number in itertools.count():
        yield getattr(model, chain)(images=batch, first=number * BATCH)


def torchvision_transform(chain: str) -> Callable[[Any], Any]:
    import torch  # pyright: ignore[reportMissingImports]
    from torchvision.transforms import v2  # pyright: ignore[reportMissingImports]

    parts = [v2.RandomCrop(SIZE)] if chain == "crop" else [v2.RandomResizedCrop(SIZE, antialias=True)]
    parts.append(v2.RandomHorizontalFlip())
    if chain == "colour":
        parts.append(v2.ColorJitter(0.4, 0.4, 0.4, 0.1))
    return v2.Compose([*parts, v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, DEVIATION)])


def with_torchvision(chain: str, threads: int) -> Stream:
    import torch  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(threads)
    planes = torch.from_numpy(images().transpose(0, 3, 1, 2).copy())
    transform = torchvision_transform(chain)
    while True:
        yield torch.stack([transform(image) for image in planes])


def with_workers(chain: str, threads: int) -> Stream:
    import torch  # pyright: ignore[reportMissingImports]

    class Images(torch.utils.data.Dataset):
        def __init__(self) -> None:
            self.planes = torch.from_numpy(images().transpose(0, 3, 1, 2).copy())
            self.transform = torchvision_transform(chain)

        def __len__(self) -> int:
            return BATCH * BATCHES * 2

        def __getitem__(self, index: int) -> Any:
            return self.transform(self.planes[index % BATCH])

    yield from torch.utils.data.DataLoader(Images(), BATCH, num_workers=threads)


def with_tf_image(chain: str, threads: int) -> Stream:
    import tensorflow as tf  # pyright: ignore[reportMissingImports]

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    whole = tf.constant([0.0, 0.0, 1.0, 1.0], shape=[1, 1, 4])

    def changed(image: Any) -> Any:
        if chain == "crop":
            image = tf.image.random_crop(image, [SIZE, SIZE, 3])
        else:
            start, size, _ = tf.image.sample_distorted_bounding_box(
                [SIDE, SIDE, 3], whole, area_range=(0.08, 1.0), aspect_ratio_range=(0.75, 4 / 3)
            )
            image = tf.image.resize(tf.slice(image, start, size), [SIZE, SIZE], antialias=True)
        image = tf.image.random_flip_left_right(tf.cast(image, tf.float32) / 255)
        if chain == "colour":
            image = tf.image.adjust_brightness(image, tf.random.uniform([], -0.4, 0.4))
            image = tf.image.random_contrast(image, 0.6, 1.4)
            image = tf.image.random_saturation(image, 0.6, 1.4)
            image = tf.image.random_hue(image, 0.1)
        return (image - MEAN) / DEVIATION

    data = tf.data.Dataset.from_tensor_slices(images()).repeat().map(changed, num_parallel_calls=threads).batch(BATCH)
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    yield from data.with_options(options).as_numpy_iterator()


SYSTEMS: Mapping[str, tuple[str, Callable[[str, int], Stream]]] = {
    "dfc": ("dfc", with_dfc),
    "torchvision": ("torch", with_torchvision),
    "torchvision, DataLoader": ("torch", with_workers),
    "tf.image": ("tf", with_tf_image),
}


def measure(name: str, chain: str, threads: int) -> float:
    """Images a second, behind a first batch."""
    stream = SYSTEMS[name][1](chain, threads)
    shape = tuple(next(stream).shape)
    assert sorted(shape) == sorted((BATCH, SIZE, SIZE, 3)), shape
    start = time.perf_counter()
    for _ in itertools.islice(stream, BATCHES):
        pass
    return BATCH * BATCHES / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--chain", choices=("crop", "colour"), action="append")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--one", choices=SYSTEMS)
    arguments = parser.parse_args()
    chains, threads = arguments.chain or ["crop", "colour"], arguments.threads
    if arguments.one:
        print(json.dumps(measure(arguments.one, chains[0], threads)))
        return
    interpreters = {"dfc": sys.executable, **dict(each.split("=", 1) for each in arguments.python)}
    systems = [name for name, (needs, _) in SYSTEMS.items() if needs in interpreters]
    results: dict[tuple[str, str], list[float]] = {}
    limits = {"OMP_NUM_THREADS": str(threads), "TF_NUM_INTEROP_THREADS": str(threads)}
    for _, chain, name in itertools.product(range(RUNS), chains, systems):
        if threads == 1 and "DataLoader" in name:
            continue  # its one worker is what `torchvision` is
        asked = ["--one", name, "--chain", chain, "--threads", str(threads)]
        words = [interpreters[SYSTEMS[name][0]], "-m", "bench.data.augmentations", *asked]
        environment = {**os.environ, **limits}
        run = subprocess.run(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, env=environment
        )
        results.setdefault((chain, name), []).append(json.loads(run.stdout.splitlines()[-1]))
    for (chain, name), rates in results.items():
        print(f"{chain:8} {name:24} {statistics.median(rates):10,.0f} images/s")


if __name__ == "__main__":
    main()
