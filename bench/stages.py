"""A pipeline of two stages beside each stage alone: how near its throughput comes to that of the slower one.

    python -m bench.stages [--steps 100] [--repeats 5]

Work is divided 4:16, 10:10 and 16:4 between a runner and the entry that takes from it; both compute in registers, so
two cores are enough for both. The slower stage is timed alone, while the other one, on a thread of its own, is busy as
well: cores may share what they have. Both are measured in turns, and the ratio is the median of `--repeats` pairs. A
trace of each pipeline says after how many steps none waited. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import dfc
from dfc_runtime.module import Module

PROGRAM = Path(__file__).with_name("programs") / "stages.dfg"
UNIT = 20_000
"""Turns of the loop in a twentieth of the work, about 0.2 ms."""
DIVISIONS = ((4, 16), (10, 10), (16, 4))


def items_in_parallel(
    read: Callable[[float], object], train: Callable[[float], object], steps: int
) -> tuple[float, float]:
    """Seconds an item of both stages, each on a thread of its own, until the longer one has done `steps` items."""
    done, seconds = threading.Event(), {"read": 0.0, "train": 0.0}
    reached = {"read": False, "train": False}

    def run(name: str, function: Callable[[float], object]) -> None:
        start, count = time.perf_counter(), 0
        while not done.is_set():
            function(1.0)
            count += 1
            seconds[name] = (time.perf_counter() - start) / count
            if count >= steps:
                reached[name] = True
                if all(reached.values()):
                    done.set()

    threads = [threading.Thread(target=run, args=each) for each in (("read", read), ("train", train))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return seconds["read"], seconds["train"]


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
    from dfc.cli.schedules import as_data
    from dfc.cli.traces import read

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
    settings = {"READ": str(read * UNIT), "TRAIN": str(train * UNIT)}
    bundle = dfc.compile(PROGRAM, settings=settings).to_bytes()
    alone, ratios, through = [], [], []
    for _ in range(repeats):
        with dfc.loads(bundle, threads=1) as model:
            alone.append(max(items_in_parallel(model.read_alone, model.train_alone, steps)))
        with dfc.loads(bundle, threads=1) as model:
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
