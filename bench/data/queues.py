"""Queues and runners: elements a second through a runner, how long a hand-over takes, and whether memory stays flat.

    python -m bench.data.queues [--isa x86-64-v3] [--seconds 2]

An element is an image of 784 f32. `loop` takes them one by one in native code, `batches` 32 at once from Python, each
written and read once, so that each stands for twice 3136 bytes which are copied under the lock. A hand-over is a put
and the take that waits for it, by two threads in turns. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable

import dfc
from dfc_runtime.module import Module

PROGRAM = """dfg 1

queue {name}: f32[784] = {queue}
queue there: i64 = fifo(capacity = 1)
queue back: i64 = fifo(capacity = 1)
var count: i64 = 0

runner fill {{
  count += 1
  {name}.put(broadcast(count as f32, [784]))
}}

runner answer {{
  let k = there.take()
  back.put(k + 1)
}}

entry loop_over(elements: i64) -> f32 {{
  let sum = loop sum: f32 = 0 for i in 0..elements {{
    let x = {name}.take()
    sum = sum + x[0]
  }}
  return sum
}}

entry batch() -> f32[32, 784] {{
  return {name}.take(32)
}}

entry hand_over(times: i64) -> i64 {{
  let k = loop k: i64 = 0 for i in 0..times {{
    there.put(k)
    k = back.take()
  }}
  return k
}}
"""
QUEUES = {"fifo": "fifo(capacity = 64)", "shuffled": "shuffle_queue(capacity = 4_096, ready = 2_048, seed = 3)"}
ELEMENTS, HAND_OVERS, BATCH = 20_000, 10_000, 32


def loaded(queue: str, isa: str) -> Module:
    text = PROGRAM.format(name="images", queue=queue)
    return dfc.loads(dfc.compile(text=text, variants=[isa] if isa else []).to_bytes(), threads=1)


def rate(work: Callable[[], object], count: int, seconds: float) -> float:
    """The best of several runs, in so many a second."""
    work()
    best, end = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        work()
        best = max(best, count / (time.perf_counter() - start))
    return best


def resident() -> int:
    """The most memory that the process has held, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measured(name: str, model: Module, seconds: float) -> dict[str, object]:
    """The figures of one kind of queue."""
    batches = ELEMENTS // BATCH

    def take_batches() -> None:
        for _ in range(batches):
            model.batch()

    def hand_over() -> None:
        assert model.hand_over(HAND_OVERS) == HAND_OVERS

    loop = rate(lambda: model.loop_over(ELEMENTS), ELEMENTS, seconds)
    many = rate(take_batches, batches * BATCH, seconds)
    turns = rate(hand_over, 2 * HAND_OVERS, seconds)
    end, before, moved = time.perf_counter() + seconds, resident(), 0
    while time.perf_counter() < end:
        take_batches()
        moved += batches * BATCH
    return {
        f"{name}: elements a second, loop": round(loop),
        f"{name}: elements a second, batches": round(many),
        f"{name}: nanoseconds of a hand-over": round(1e9 / turns),
        f"{name}: KiB more memory after {moved} further elements": resident() - before,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isa", default="")
    parser.add_argument("--seconds", type=float, default=2.0)
    asked = parser.parse_args()
    figures: dict[str, object] = {}
    for name, queue in QUEUES.items():
        model = loaded(queue, asked.isa)
        figures["isa"] = model.manifest.images[0].isa
        figures |= measured(name, model, asked.seconds)
        model.close()
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
