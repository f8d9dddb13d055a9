"""Signals at random moments of calls: state is as before the call or as after it, and the next call works.

`python -m tests.gate.interruptions [COUNT] [--seed N]`
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections.abc import Callable

import numpy as np

import dfc
from dfc_runtime import Module

PROGRAM = """
dfg 1
param w: f32[64, 64] = glorot_uniform()
var v: f32[64, 64] = 0
var n: i64 = 0
var dice: rng = philox(3)

entry step(x: f32[256, 64]) -> f32 {
  let keep = dice.uniform(f32[256, 64])
  let loss = mean(square(tanh((x * keep) @ w) @ w))
  let g = grad(loss, w)
  v := 0.9 * v + g
  w -= 0.1 * v
  n += 1
  return loss
}
entry steps(x: f32[256, 64], count: i64) {
  for i in 0..count {
    let g = grad(mean(square(tanh(x @ w) @ w)), w)
    v := 0.9 * v + g
    w -= 0.01 * v
    n += 1
  }
}
entry early(x: f32[256, 64], count: i64) -> f32 {
  n += 1
  v *= 0.5
  let y = loop y = x for i in 0..count { y = tanh(y @ w) }
  w += 0.001 * v
  return sum(y)
}
"""


class Interrupted(BaseException):
    """What the handler raises."""


def stop(*_: object) -> None:
    raise Interrupted


def bits(module: Module) -> dict[str, bytes]:
    return {name: np.asarray(module.state[name]).tobytes() for name in module.state}


def attempt(module: Module, twin: Module, call: Callable[[Module], object], delay: float) -> tuple[str, bool]:
    """One call under fire, compared with one in peace; what is wrong, and whether it was interrupted."""
    before = bits(module)
    call(twin)
    hit = False
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        call(module)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupted:
        hit = True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    now, after = bits(module), bits(twin)
    if now not in (before, after):
        return (
            f"state is between two calls: {[name for name in now if now[name] not in (before[name], after[name])]}",
            hit,
        )
    if not hit and now != after:
        return "a call that was not interrupted has done nothing", hit
    for name in after:
        module.state[name] = twin.state[name]
    return "", hit


def run(count: int, seed: int, most: int = 1000) -> int:
    """The number of findings, of calls that go on for at most so many rounds."""
    print(f"seed {seed}")
    dice = random.Random(seed)
    data = dfc.compile(text=PROGRAM).to_bytes()
    threads = dice.choice((1, 2))
    module, twin = dfc.loads(data, threads=threads), dfc.loads(data, threads=threads)
    x = np.random.default_rng(seed).normal(size=(256, 64)).astype(np.float32)
    calls: list[Callable[[Module], object]] = [
        lambda each: each.step(x),
        lambda each: each.steps(x, rounds),
        lambda each: each.early(x, rounds),
    ]
    before = signal.signal(signal.SIGALRM, stop)
    findings = hits = 0
    try:
        for number in range(count):
            rounds = dice.choice((1, 10, most))
            call = dice.choice(calls)
            start = time.perf_counter()
            call(module)
            for name in module.state:
                twin.state[name] = module.state[name]
            delay = max(1e-5, dice.random() * 1.2 * min(time.perf_counter() - start, 0.5))
            fault, hit = attempt(module, twin, call, delay)
            hits += hit
            if fault:
                findings += 1
                print(f"call {number}, {rounds} rounds, after {delay:.6f} s: {fault}")
    finally:
        signal.signal(signal.SIGALRM, before)
    print(f"{count} calls under fire, {hits} interrupted, {findings} findings")
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=500)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    asked = parser.parse_args()
    return int(run(asked.count, asked.seed) > 0)


if __name__ == "__main__":
    sys.exit(main())
