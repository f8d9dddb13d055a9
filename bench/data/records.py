"""Files of examples: 784 bytes and a label each become shuffled batches of 128 normalised floats; records a second.

    python -m bench.data.records [--format records|arrays|tables] [--records N] [--python tf=PATH] [--python torch=PATH]

The same records, made once and in the memory of the system, for all: TFRecord, an `.npz` of two arrays, or CSV. Beside
dfc, whose order is a permutation of all records: `tf.data` with the interpreter `tf` (its readers and parsers, and a
window of 2,048 records; arrays it has in memory), `torch.utils.data.DataLoader` with the interpreter `torch` (always a
dataset over memory-mapped arrays, which is the fastest that it has). Each runs in a process of its own, in turns,
`RUNS` times; a run reads all records and touches each batch. Prints for each the median of records a second, and the
seconds of processor time for a million records, workers included.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

BATCH, WINDOW, RUNS, PARTS = 128, 2048, 3, 4
PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
FOLDER = Path("build") / "bench_records"
Batches = Iterator[tuple[Any, Any]]


def parts_of(count: int) -> Iterator[tuple[int, Any, Any]]:
    """Images and labels of each file."""
    rng = np.random.default_rng(1)
    for part in range(PARTS):
        yield part, rng.integers(0, 256, (count // PARTS, 784), dtype=np.uint8), rng.integers(0, 10, count // PARTS)


def write(folder: Path, count: int) -> None:
    """The files of all formats, unless they are there."""
    if (folder / "done").exists():
        return
    from dfc_runtime.records.example import encode_example  # the interpreters of peers have no dfc
    from dfc_runtime.records.framing import frame

    folder.mkdir(parents=True, exist_ok=True)
    names = ",".join(["label", "image", *(f"x{column}" for column in range(1, 784))])
    for part, images, labels in parts_of(count):
        pairs = list(zip(images, labels, strict=True))
        examples = [encode_example({"image": image.tobytes(), "label": label.reshape(1)}) for image, label in pairs]
        (folder / f"{part}.rec").write_bytes(frame(examples))
        np.savez(folder / f"{part}.npz", image=images, label=labels)
        np.save(folder / f"image-{part}.npy", images)
        np.save(folder / f"label-{part}.npy", labels)
        table = np.concatenate([labels[:, None], images], axis=1)
        np.savetxt(folder / f"{part}.csv", table, "%d", ",", header=names, comments="")
    (folder / "done").touch()


def with_dfc(kind: str, folder: Path) -> Batches:
    import dfc

    bundle = dfc.compile(PROGRAMS / f"records_{kind}.dfg").save(FOLDER / f"{kind}.bundle")
    model: Any = dfc.load(bundle, data={"files": folder / {"records": "*.rec", "arrays": "*.npz"}.get(kind, "*.csv")})
    try:
        while True:
            yield model.batch()
    except dfc.EndOfData:
        model.close()


def with_tf_data(kind: str, folder: Path) -> Batches:
    import tensorflow as tf  # pyright: ignore[reportMissingImports]

    automatic = tf.data.AUTOTUNE
    ending = {"records": "*.rec", "arrays": "image-*.npy"}.get(kind, "*.csv")
    paths = sorted(str(path) for path in folder.glob(ending))
    if kind == "records":
        features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

        def parsed(texts: Any) -> Any:
            fields = tf.io.parse_example(texts, features)
            return tf.cast(tf.io.decode_raw(fields["image"], tf.uint8), tf.float32) / 255, fields["label"]

        data = tf.data.TFRecordDataset(paths, num_parallel_reads=automatic).shuffle(WINDOW)
        data = data.batch(BATCH, drop_remainder=True).map(parsed, num_parallel_calls=automatic)
    elif kind == "tables":

        def columns(lines: Any) -> Any:
            cells = tf.stack(tf.io.decode_csv(lines, [[0]] * 785), axis=1)
            return tf.cast(cells[:, 1:], tf.float32) / 255, cells[:, 0]

        files = tf.data.Dataset.from_tensor_slices(paths)
        lines = files.interleave(lambda path: tf.data.TextLineDataset(path).skip(1), num_parallel_calls=automatic)
        data = lines.shuffle(WINDOW).batch(BATCH, drop_remainder=True).map(columns, num_parallel_calls=automatic)
    else:
        columns_of = ((path for path in sorted(folder.glob(f"{name}-*.npy"))) for name in ("image", "label"))
        images, labels = (np.concatenate([np.load(path) for path in paths]) for paths in columns_of)
        data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(WINDOW).batch(BATCH, drop_remainder=True)
        data = data.map(lambda x, y: (tf.cast(x, tf.float32) / 255, y), num_parallel_calls=automatic)
    yield from data.prefetch(2).as_numpy_iterator()


def with_data_loader(workers: int) -> Callable[[str, Path], Batches]:
    """The dataset gives an example at a time, as most do."""

    def batches(kind: str, folder: Path) -> Batches:
        import torch  # pyright: ignore[reportMissingImports]

        class Rows(torch.utils.data.Dataset):
            def __init__(self) -> None:
                paths = [sorted(folder.glob(f"{name}-*.npy")) for name in ("image", "label")]
                self.images, self.labels = ([np.load(path, mmap_mode="r") for path in each] for each in paths)
                self.rows = len(self.labels[0])

            def __len__(self) -> int:
                return self.rows * len(self.labels)

            def __getitem__(self, index: int) -> tuple[Any, int]:
                part, row = divmod(index, self.rows)
                return self.images[part][row].astype(np.float32) / 255, int(self.labels[part][row])

        del kind
        yield from torch.utils.data.DataLoader(Rows(), BATCH, shuffle=True, num_workers=workers, drop_last=True)

    return batches


SYSTEMS: Mapping[str, tuple[str, Callable[[str, Path], Batches]]] = {
    "dfc": ("dfc", with_dfc),
    "tf.data": ("tf", with_tf_data),
    "DataLoader, 0 workers": ("torch", with_data_loader(0)),
    "DataLoader, 2 workers": ("torch", with_data_loader(2)),
}


def processor_seconds() -> float:
    """Of this process and the workers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure(name: str, kind: str, folder: Path) -> dict[str, float]:
    """One pass, of which the time from the first batch to the last counts."""
    stream = SYSTEMS[name][1](kind, folder)
    next(stream)
    start, processor, batches, total, seconds = time.perf_counter(), processor_seconds(), 0, 0.0, 0.0
    for images, _ in stream:
        total += float(images[0, 0])
        batches += 1
        seconds = time.perf_counter() - start
    records = batches * BATCH
    return {"rate": records / seconds, "processor": (processor_seconds() - processor) / records * 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--format", choices=("records", "arrays", "tables"), default="records")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--one", choices=SYSTEMS)
    arguments = parser.parse_args()
    folder = FOLDER / str(arguments.records)
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.format, folder)))
        return
    write(folder, arguments.records)
    interpreters = {"dfc": sys.executable, **dict(each.split("=", 1) for each in arguments.python)}
    results: dict[str, list[dict[str, float]]] = {}
    for _ in range(RUNS):
        for name, (needs, _) in SYSTEMS.items():
            if needs in interpreters:
                asked = ["--one", name, "--format", arguments.format, "--records", str(arguments.records)]
                words = [interpreters[needs], "-m", "bench.data.records", *asked]
                run = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
                results.setdefault(name, []).append(json.loads(run.stdout.splitlines()[-1]))
    for name, runs in results.items():
        rate, processor = (statistics.median(each[key] for each in runs) for key in ("rate", "processor"))
        print(f"{name:24} {rate:12,.0f} records/s {processor:8.2f} s of processor time for a million")


if __name__ == "__main__":
    main()
