"""JPEG files of 500 x 375 pixels become batches of 64 images of 224 x 224 x 3; images a second.

    python -m bench.data.images [--images N] [--python tf=PATH] [--python torch=PATH]

The same images for all, made once, and in the memory of the system: archives of samples for dfc, TFRecord for
`tf.data`, a file each for `torch.utils.data.DataLoader`. Each decodes and resizes with its own library: dfc and the
dataset of PyTorch with Pillow, to bytes; `tf.data` with its own decoder, to floats, once by interpolation between four
pixels, which leaves most of a larger image out, and once over all of them, as Pillow does. `Pillow alone` is what the
decoder takes: a loop over the files in as many processes as there are processors. All but dfc, whose order is a
permutation of all images, shuffle a window or the list of files. Each runs in a process of its own, in turns, `RUNS`
times. Prints for each the median of images a second, and the milliseconds of processor time for an image, workers
included.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from bench.data.records import processor_seconds

BATCH, SIDE, RUNS, PARTS, CLASSES = 64, 224, 3, 4, 10
PROGRAM = Path(__file__).resolve().parents[1] / "programs" / "images.dfg"
FOLDER = Path("build") / "bench_images"
Batches = Iterator[tuple[Any, Any]]


def image_of(number: int) -> bytes:
    """A file as photographs are: large shapes, edges and grain; about 75 KB."""
    from PIL import Image  # the interpreter of tf.data has none

    rng = np.random.default_rng(number)
    shapes = Image.fromarray(rng.integers(0, 256, (38, 50, 3), dtype=np.uint8)).resize(
        (500, 375), Image.Resampling.BICUBIC
    )
    grain = rng.integers(-12, 13, (375, 500, 3))
    file = io.BytesIO()
    pixels = (np.asarray(shapes).astype(np.int64) + grain).clip(0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(file, "JPEG", quality=90)
    return file.getvalue()


def write(folder: Path, count: int) -> None:
    """The files of all systems, unless they are there."""
    if (folder / "done").exists():
        return
    from dfc_runtime.records.example import encode_example  # the interpreters of peers have no dfc
    from dfc_runtime.records.framing import frame

    folder.mkdir(parents=True, exist_ok=True)
    for part in range(PARTS):
        examples: list[bytes] = []
        with tarfile.open(folder / f"{part}.tar", "w") as tar:
            for number in range(part, count, PARTS):
                data, label = image_of(number), number % CLASSES
                examples.append(encode_example({"image": data, "label": np.array([label])}))
                (folder / f"{number}-{label}.jpg").write_bytes(data)
                for ending, text in (("jpg", data), ("cls", b"%d" % label)):
                    member = tarfile.TarInfo(f"{number}.{ending}")
                    member.size = len(text)
                    tar.addfile(member, io.BytesIO(text))
        (folder / f"{part}.rec").write_bytes(frame(examples))
    (folder / "done").touch()


def with_dfc(folder: Path) -> Batches:
    import dfc

    bundle = dfc.compile(PROGRAM).save(FOLDER / "images.bundle")
    model: Any = dfc.load(bundle, data={"files": folder / "*.tar"})
    try:
        while True:
            yield model.batch()
    except dfc.EndOfData:
        model.close()


def with_decoders(folder: Path) -> Batches:
    """The same, with a process for each of the copies of the runner."""
    os.environ["DFC_DECODERS"] = "2"
    yield from with_dfc(folder)


def with_tf_data(*, antialias: bool) -> Callable[[Path], Batches]:
    def batches(folder: Path) -> Batches:
        import tensorflow as tf  # pyright: ignore[reportMissingImports]

        automatic = tf.data.AUTOTUNE
        features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

        def decoded(text: Any) -> Any:
            fields = tf.io.parse_single_example(text, features)
            pixels = tf.io.decode_jpeg(fields["image"], channels=3)
            return tf.image.resize(pixels, (SIDE, SIDE), antialias=antialias), fields["label"]

        paths = sorted(str(path) for path in folder.glob("*.rec"))
        data = tf.data.TFRecordDataset(paths, num_parallel_reads=automatic).shuffle(256)
        data = data.map(decoded, num_parallel_calls=automatic).batch(BATCH, drop_remainder=True)
        yield from data.prefetch(2).as_numpy_iterator()

    return batches


def pillow_pixels(data: bytes) -> Any:
    """An image as data sets for PyTorch make it, `torchvision` included: decoded whole, and resized by Pillow."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        return np.array(image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR))


def with_data_loader(workers: int) -> Callable[[Path], Batches]:
    """The dataset gives an image at a time, as most do."""

    def batches(folder: Path) -> Batches:
        import torch  # pyright: ignore[reportMissingImports]

        class Files(torch.utils.data.Dataset):
            def __init__(self) -> None:
                self.paths = sorted(folder.glob("*.jpg"))

            def __len__(self) -> int:
                return len(self.paths)

            def __getitem__(self, index: int) -> tuple[Any, int]:
                path = self.paths[index]
                return torch.from_numpy(pillow_pixels(path.read_bytes())), int(path.stem.split("-")[1])

        yield from torch.utils.data.DataLoader(Files(), BATCH, shuffle=True, num_workers=workers, drop_last=True)

    return batches


def _decode_all(paths: list[Path]) -> tuple[Any, int]:
    pixels = [pillow_pixels(path.read_bytes()) for path in paths]
    return pixels[-1][None], len(pixels)


def with_pillow_alone(folder: Path) -> Batches:
    """What the decoder takes: pieces of the files in as many processes as there are processors, results left there."""
    paths = sorted(folder.glob("*.jpg"))
    pieces = [paths[begin : begin + BATCH] for begin in range(0, len(paths), BATCH)]
    with get_context("fork").Pool(len(os.sched_getaffinity(0))) as pool:
        yield from pool.imap(_decode_all, pieces)
        pool.close()
        pool.join()


SYSTEMS: Mapping[str, tuple[str, Callable[[Path], Batches]]] = {
    "dfc": ("dfc", with_dfc),
    "dfc, 2 decoders": ("dfc", with_decoders),
    "Pillow alone": ("dfc", with_pillow_alone),
    "tf.data, four pixels": ("tf", with_tf_data(antialias=False)),
    "tf.data, all pixels": ("tf", with_tf_data(antialias=True)),
    "DataLoader, 0 workers": ("torch", with_data_loader(0)),
    "DataLoader, 2 workers": ("torch", with_data_loader(2)),
}


def measure(name: str, folder: Path) -> dict[str, float]:
    """One pass, of which the time from the first batch to the last counts."""
    stream = SYSTEMS[name][1](folder)
    next(stream)
    start, processor, batches, total, seconds = time.perf_counter(), processor_seconds(), 0, 0.0, 0.0
    for images, _ in stream:
        total += float(images[0, 0, 0, 0])
        batches += 1
        seconds = time.perf_counter() - start
    images_read = batches * BATCH
    return {"rate": images_read / seconds, "processor": (processor_seconds() - processor) / images_read * 1e3}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--images", type=int, default=2_048)
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--one", choices=SYSTEMS)
    arguments = parser.parse_args()
    if arguments.images < 2 * BATCH:
        parser.error(f"--images is at least {2 * BATCH}: the time from the first batch of {BATCH} to the last counts")
    folder = FOLDER / str(arguments.images)
    if arguments.one:
        print(json.dumps(measure(arguments.one, folder)))
        return
    write(folder, arguments.images)
    interpreters = {"dfc": sys.executable, **dict(each.split("=", 1) for each in arguments.python)}
    results: dict[str, list[dict[str, float]]] = {}
    for _ in range(RUNS):
        for name, (needs, _) in SYSTEMS.items():
            if needs in interpreters:
                words = [
                    interpreters[needs],
                    "-m",
                    "bench.data.images",
                    "--one",
                    name,
                    "--images",
                    str(arguments.images),
                ]
                run = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
                results.setdefault(name, []).append(json.loads(run.stdout.splitlines()[-1]))
    for name, runs in results.items():
        rate, processor = (statistics.median(each[key] for each in runs) for key in ("rate", "processor"))
        print(f"{name:24} {rate:8,.0f} images/s {processor:8.2f} ms of processor time each")


if __name__ == "__main__":
    main()
