"""Input pipelines: images of 784 bytes in memory become shuffled batches of 128 normalised floats; records a second.

    python -m bench.data.pipelines [--records N] [--python tf=PATH] [--python torch=PATH]

Beside dfc, which has one runner that scales and one that collects: `tf.data` (map, shuffle, batch, prefetch) with the
interpreter `tf`, and `torch.utils.data.DataLoader` with the interpreter `torch`, both as their users write them for
speed. Each runs in a process of its own, in turns, `RUNS` times; a run reads all records and touches each batch.
Prints for each the median of records a second, and the seconds of processor time for a million records (of the
process itself: what workers of a DataLoader take is not in it).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

BATCH, WINDOW, RUNS, CHUNK = 128, 2048, 5, 1024
PROGRAM = Path(__file__).resolve().parents[1] / "programs" / "pipeline.dfg"
Batches = Iterator[tuple[Any, Any]]


def records(count: int) -> tuple[Any, Any]:
    """The same images and labels for every system."""
    rng = np.random.default_rng(1)
    return rng.integers(0, 256, (count, 784), dtype=np.uint8), rng.integers(0, 10, count)


def with_dfc(images: Any, labels: Any) -> Batches:
    import dfc

    model: Any = dfc.load(dfc.compile(PROGRAM).save(Path("build") / "pipeline.bundle"))

    def feed() -> None:
        for start in range(0, len(images), CHUNK):
            model.feed(images=images[start : start + CHUNK], labels=labels[start : start + CHUNK])
        model.finish()

    threading.Thread(target=feed, daemon=True).start()
    try:
        while True:
            yield model.batch()
    except dfc.EndOfData:
        model.close()


def with_tf_data(images: Any, labels: Any) -> Batches:
    import tensorflow as tf  # pyright: ignore[reportMissingImports]

    data = tf.data.Dataset.from_tensor_slices((images, labels))
    data = data.shuffle(WINDOW).batch(BATCH, drop_remainder=True, num_parallel_calls=tf.data.AUTOTUNE)
    scaled = data.map(lambda x, y: (tf.cast(x, tf.float32) / 255, y), num_parallel_calls=tf.data.AUTOTUNE)
    yield from scaled.prefetch(2).as_numpy_iterator()


def with_data_loader(workers: int) -> Callable[[Any, Any], Batches]:
    """The dataset gives an example at a time, as most do."""

    def batches(images: Any, labels: Any) -> Batches:
        import torch  # pyright: ignore[reportMissingImports]

        class Records(torch.utils.data.Dataset):
            def __len__(self) -> int:
                return len(images)

            def __getitem__(self, index: int) -> tuple[Any, int]:
                return images[index].astype(np.float32) / 255, labels[index]

        yield from torch.utils.data.DataLoader(Records(), BATCH, shuffle=True, num_workers=workers, drop_last=True)

    return batches


SYSTEMS: Mapping[str, tuple[str, Callable[[Any, Any], Batches]]] = {
    "dfc": ("dfc", with_dfc),
    "tf.data": ("tf", with_tf_data),
    "DataLoader, 0 workers": ("torch", with_data_loader(0)),
    "DataLoader, 2 workers": ("torch", with_data_loader(2)),
}


def measure(name: str, count: int) -> dict[str, float]:
    """One pass, of which the time from the first batch to the last counts."""
    stream = SYSTEMS[name][1](*records(count))
    next(stream)
    start, processor, batches, total = time.perf_counter(), time.process_time(), 0, 0.0
    for images, _ in stream:
        total += float(images[0, 0])
        batches += 1
    seconds = time.perf_counter() - start
    return {"rate": batches * BATCH / seconds, "processor": (time.process_time() - processor) / (batches * BATCH) * 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--one", choices=SYSTEMS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.records)))
        return
    interpreters = {"dfc": sys.executable, **dict(each.split("=", 1) for each in arguments.python)}
    results: dict[str, list[dict[str, float]]] = {}
    for _ in range(RUNS):
        for name, (needs, _) in SYSTEMS.items():
            if needs in interpreters:
                asked = ["--one", name, "--records", str(arguments.records)]
                words = [interpreters[needs], "-m", "bench.data.pipelines", *asked]
                run = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
                results.setdefault(name, []).append(json.loads(run.stdout.splitlines()[-1]))
    for name, runs in results.items():
        rate, processor = (statistics.median(each[key] for each in runs) for key in ("rate", "processor"))
        print(f"{name:24} {rate:12,.0f} records/s {processor:8.2f} s of processor time for a million")


if __name__ == "__main__":
    main()
