"""A pipeline of two stages beside each stage alone: how near its throughput comes to that of the slower one.

    python -m bench.data.stages [--steps 100] [--repeats 5]

Work is divided 4:16, 10:10 and 16:4 between a runner and the entry that takes from it; both compute in registers, so
two cores are enough for both. The slower stage is timed without a queue, while the other one does an item, too, on a
thread of its own: cores may share what they have. Both are measured in turns, and the ratio is the median of
`--repeats` pairs. A trace of each pipeline says after how many steps none waited. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import dfc
from dfc.cli.tracing.schedules import as_data
from dfc.cli.tracing.traces import read
from dfc_runtime.module import Module

PROGRAM = Path(__file__).resolve().parents[1] / "programs" / "stages.dfg"
UNIT = 20_000
"""Turns of the loop in a twentieth of the work, about 0.2 ms."""
DIVISIONS = ((4, 16), (10, 10), (16, 4))


def item_in_parallel(stages: Sequence[Callable[[float], object]], steps: int) -> float:
    """Seconds an item of the slowest stage, while the others do one item as well, each on a thread of its own."""
    together = threading.Barrier(len(stages))

    def run(function: Callable[[float], object]) -> None:
        for _ in range(steps):
            together.wait()
            function(1.0)

    threads = [threading.Thread(target=run, args=(stage,)) for stage in stages]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.perf_counter() - start) / steps


def item_through(model: Module, steps: int) -> float:
    """Seconds a step of the pipeline, behind its warm-up."""
    for _ in range(4):
        model.train()
    start = time.perf_counter()
    for _ in range(steps):
        model.train()
    return (time.perf_counter() - start) / steps


def warm_up(bundle: bytes, steps: int) -> Mapping[str, object]:
    """What a trace says of the steps of a pipeline."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        model = dfc.loads(bundle, threads=1, trace=path)
        for _ in range(steps):
            model.train()
        model.close()
        (schedule,) = (as_data(each) for each in read(path).schedules if each.entry == "train")
    return {key: schedule[key] for key in ("warm_up", "interval")}


def division(read: int, train: int, steps: int, repeats: int) -> Mapping[str, object]:
    """The figures of one division of the work."""
    settings = {"READ": read * UNIT, "TRAIN": train * UNIT}
    bundle = dfc.compile(PROGRAM, settings=settings).to_bytes()
    alone, ratios, through = [], [], []
    for _ in range(repeats):
        first, second = (dfc.loads(bundle, threads=1) for _ in range(2))  # calls of one program take turns
        alone.append(item_in_parallel((first.read_alone, second.train_alone), steps))
        for each in (first, second):
            each.close()
        with closing(dfc.loads(bundle, threads=1)) as model:
            through.append(item_through(model, steps))
        ratios.append(alone[-1] / through[-1])
    figures = {"slower_stage_ms": alone, "step_ms": through}
    return {
        "read": read,
        "train": train,
        **{name: round(1e3 * statistics.median(each), 3) for name, each in figures.items()},
        "throughput_of_the_slower_stage": round(statistics.median(ratios), 3),
        **warm_up(bundle, steps),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="how near a pipeline comes to its slower stage")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    print(json.dumps([division(*each, asked.steps, asked.repeats) for each in DIVISIONS], indent=1))


if __name__ == "__main__":
    main()
