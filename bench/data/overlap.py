"""What pipelines hide: waits behind computing, waits of one iteration behind those of others, copies behind steps.

    python -m bench.data.overlap [--steps 100] [--repeats 5]

`three stages`: a runner that waits for a medium, one that computes, and a step that computes, with a queue between each
two; beside the slowest of them, timed without queues while the others do an item each on threads of their own. Their
work is divided anew three times, so that each is the slowest once.
`iterations`: a runner whose iterations wait 10 ms each, with one copy and with eight.
`staging`: a step that crops, resizes, flips and normalises 64 images itself, and one that finds them staged, by a
runner that did so while the step before was computed.
All is measured in turns, `--repeats` times; figures are medians. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

import dfc
from bench.data.stages import item_in_parallel
from dfc_runtime.calls.hosts import HostRequest
from dfc_runtime.module import Module

WORK = """
fn work(turns: i64, start: f64) -> f64 {
  return loop x: f64 = start for i in 0..turns { x = sqrt(x + 1.0) }
}
"""
THREE_STAGES = """
const PREPARE: int = setting("PREPARE", 1)
const TRAIN: int = setting("TRAIN", 1)
queue fetched: i64 = fifo(capacity = 2)
queue staged: i64 = staging(depth = 2)
var count: i64 = 0
runner fetch {
  let item: i64 = graph.recv(key = "item", source = "medium:0", type_ = i64)
  count += 1
  fetched.put(item + count)
}
runner prepare {
  let item = fetched.take()
  let result = work(PREPARE, item as f64)
  staged.put(result as i64 + item)
}
entry train() -> f64 {
  let item = staged.take()
  return work(TRAIN, item as f64)
}
entry prepare_alone(start: f64) -> f64 { return work(PREPARE, start) }
entry train_alone(start: f64) -> f64 { return work(TRAIN, start) }
"""
ITERATIONS = """
queue fetched: i64 = fifo(capacity = 8)
var count: i64 = 0
runner fetch with copies = {copies} {{
  count += 1
  let number = count
  let item: i64 = graph.recv(key = "item", source = "medium:0", type_ = i64)
  fetched.put(item + number)
}}
entry next() -> i64 {{ return fetched.take() }}
"""
STAGING = """
from std.images import normalise, random_flip, random_resized_crop
const TRAIN: int = setting("TRAIN", 1)
const KEY: u64 = 17
queue bytes: u8[64, 64, 64, 3] = fifo(capacity = 2)
queue raw: (images: u8[64, 64, 64, 3], first: i64) = fifo(capacity = 2)
queue staged: f32[64, 56, 56, 3] = staging(depth = 1)
var count: i64 = 0
var taken: i64 = 0
runner read {
  count += 64
  bytes.put(broadcast(count as u8, [64, 64, 64, 3]))
}
runner read_too {
  taken += 64
  raw.put(broadcast(taken as u8, [64, 64, 64, 3]), taken)
}
runner stage {
  let images, first = raw.take()
  staged.put(augmented(images, first))
}
fn augmented(images: u8[64, 64, 64, 3], first: i64) -> f32[64, 56, 56, 3] {
  let index = first + iota(i64[64])
  let turned = random_flip(random_resized_crop(images, 56, 56, KEY, index), KEY, index)
  return normalise(turned, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
}
fn trained(images: f32[64, 56, 56, 3]) -> f64 = work(TRAIN, sum(square(images)) as f64)
entry late() -> f64 {
  let images = bytes.take()
  return trained(augmented(images, 64))
}
entry explicit() -> f64 {
  let images = staged.take()
  return trained(images)
}
"""
MILLISECOND = 100_000
"""Turns of the loop in a millisecond, about."""
UNIT, WAIT = 1.0, 10.0
"""Milliseconds of a unit of work that is divided, and of an iteration that waits."""
DIVISIONS = ((4, 2, 2), (2, 4, 2), (2, 2, 4))


class Medium:
    """Answers after so many milliseconds, however many ask at once."""

    def __init__(self, milliseconds: float) -> None:
        self.seconds = milliseconds / 1e3

    def __call__(self, request: HostRequest) -> None:
        self.alone(0.0)
        request.outputs[0][...] = 0

    def alone(self, _: float) -> None:
        time.sleep(self.seconds)


def bundle(text: str, **settings: float) -> bytes:
    return dfc.compile(text=f"dfg 1\n{text}{WORK}", settings={k: int(v) for k, v in settings.items()}).to_bytes()


def loaded(code: bytes, medium: Medium) -> Module:
    return dfc.loads(code, threads=1, handlers={"recv": medium})


def step_of(call: Callable[[], object], steps: int) -> float:
    """Seconds a call takes, behind some that warm the pipeline up."""
    for _ in range(4):
        call()
    start = time.perf_counter()
    for _ in range(steps):
        call()
    return (time.perf_counter() - start) / steps


def milliseconds(values: Sequence[float]) -> float:
    return round(1e3 * statistics.median(values), 3)


def three_stages(units: tuple[int, int, int], steps: int, repeats: int) -> Mapping[str, object]:
    """A step of the pipeline beside an item of its slowest stage."""
    wait, prepare, train = (UNIT * each for each in units)
    code, medium = bundle(THREE_STAGES, PREPARE=prepare * MILLISECOND, TRAIN=train * MILLISECOND), Medium(wait)
    alone, through = [], []
    for _ in range(repeats):
        with closing(loaded(code, medium)) as first, closing(loaded(code, medium)) as second:
            alone.append(item_in_parallel((medium.alone, first.prepare_alone, second.train_alone), steps))
        with closing(loaded(code, medium)) as model:
            through.append(step_of(model.train, steps))
    ratios = [one / other for one, other in zip(alone, through, strict=True)]
    return {
        "wait, prepare, train": units,
        "slowest_stage_ms": milliseconds(alone),
        "step_ms": milliseconds(through),
        "throughput_of_the_slowest_stage": round(statistics.median(ratios), 3),
    }


def iterations(steps: int, repeats: int) -> Mapping[str, object]:
    """An element of a runner that waits, with one copy and with eight."""
    took: dict[int, list[float]] = {1: [], 8: []}
    codes = {copies: bundle(ITERATIONS.format(copies=copies)) for copies in took}
    for _ in range(repeats):
        for copies, code in codes.items():
            with closing(loaded(code, Medium(WAIT))) as model:
                took[copies].append(step_of(model.next, steps))
    one, eight = (milliseconds(each) for each in took.values())
    return {"one_copy_ms": one, "eight_copies_ms": eight, "ratio": round(one / eight, 2)}


def staging(steps: int, repeats: int) -> Mapping[str, object]:
    """A step that makes its batch, and one that finds it."""
    code = bundle(STAGING, TRAIN=4 * UNIT * MILLISECOND)
    took: dict[str, list[float]] = {"late": [], "explicit": []}
    for _ in range(repeats):
        for name, values in took.items():
            with closing(loaded(code, Medium(0))) as model:
                values.append(step_of(getattr(model, name), steps))
    late, explicit = (milliseconds(each) for each in took.values())
    return {"without_ms": late, "with_ms": explicit, "ratio": round(late / explicit, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description="what pipelines hide behind computing")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    figures = {
        "three stages": [three_stages(each, asked.steps, asked.repeats) for each in DIVISIONS],
        "iterations": iterations(asked.steps, asked.repeats),
        "staging": staging(asked.steps, asked.repeats),
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
