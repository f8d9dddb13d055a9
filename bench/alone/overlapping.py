"""Two training steps of one program side by side: `python -m bench.alone.overlapping [--threads N]`.

Prints how many steps two Python threads make while one thread makes one, calling the two entries in turn: 2 is two
processors in full use, 1 is nothing gained. `apart` are two models that share nothing, `seen` likewise with a readonly
entry that reads both, `shared` two that count their steps in one variable, so that their calls exclude each other.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

import dfc
import dfc_runtime

MODELS = """dfg 1
from std.nn import Dense

block Model() {{
  var hidden = Dense[784, {width}]()
  var output = Dense[{width}, 10]()
}}
var left = Model()
var right = Model()
var steps: i64 = 0
"""
TRAIN = """
entry train_{name}[B](images: f32[B, 784], labels: i32[B]) -> f32 {{
  let loss = mean(cross_entropy(images |> {name}.hidden |> relu |> {name}.output, labels))
  each w in params({name}), g in grad(loss, params({name})) {{ w -= 0.01 * g }}
  {more}
  return loss
}}
"""
SEEN = """
readonly entry difference() -> f32 { return sum(left.output.w - right.output.w) }
"""
KINDS = ("apart", "seen", "shared")
SIZES = ((64, 32), (128, 128), (512, 128))
"""How wide the hidden layer is, and how many images a batch has."""
REPEATS, SECONDS = 40, 0.06


def program(kind: str, width: int) -> str:
    """Two models, each with an entry that trains it."""
    more = "steps += 1" if kind == "shared" else ""
    entries = "".join(TRAIN.format(name=name, more=more) for name in ("left", "right"))
    return MODELS.format(width=width) + entries + (SEEN if kind == "seen" else "")


def overlap(kind: str, width: int, batch: int, threads: int) -> tuple[float, float]:
    """Milliseconds of one step, and how many times as many steps two threads make."""
    model = dfc_runtime.loads(dfc.compile(text=program(kind, width)).to_bytes(), threads=threads)
    rng = np.random.default_rng(0)
    images, labels = rng.random((batch, 784), np.float32), rng.integers(0, 10, batch).astype(np.int32)
    entries = [model.entries[name].function for name in ("train_left", "train_right")]

    def steps(count: int, functions: Sequence[Callable[..., object]]) -> None:
        for _ in range(count):
            for function in functions:
                function(images, labels)

    seconds_of(lambda: steps(3, entries))
    count = max(10, int(3 * SECONDS / seconds_of(lambda: steps(3, entries))))
    in_turn, overlapping = [], []
    for _ in range(REPEATS):
        in_turn.append(seconds_of(lambda: steps(count, entries)))
        workers = [threading.Thread(target=steps, args=(count, [each])) for each in entries]
        overlapping.append(seconds_of(lambda each=workers: finish(each)))
    least = min(in_turn)  # other programs only take time away
    return least / count / len(entries) * 1e3, least / min(overlapping)


def finish(workers: Sequence[threading.Thread]) -> None:
    """Starts all of them and waits until they have ended."""
    for each in workers:
        each.start()
    for each in workers:
        each.join()


def seconds_of(action: Callable[[], object]) -> float:
    """How long it takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    options = parser.parse_args()
    for kind in options.kinds:
        for width, batch in SIZES:
            step, ratio = overlap(kind, width, batch, options.threads)
            print(f"{kind:>6}, {options.threads} thread(s): {step:6.3f} ms a step, {ratio:.2f} times", flush=True)


if __name__ == "__main__":
    main()
