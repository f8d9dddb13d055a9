"""What a step of an LSTM costs in a loop, beside the same steps one after the other: `python -m bench lstm_step`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import dfc
from dfc_runtime import loads

PROGRAM = Path(__file__).resolve().parents[1] / "programs" / "lstm.dfg"
WIDTHS = (8, 32, 64, 128, 256)
LENGTHS = (10, 100, 1_000, 10_000)
STRAIGHT, REPEATED = 20, 50
SLICES, SLICE = 12, 0.02


def lstm_step() -> dict[str, float]:
    """Microseconds a step, one thread, batch 1: straight-line code, loops of several lengths, forward and back.

    `extra` is what a step of the loop of 1,000 costs more than one of fifty calls of twenty straight steps, which take
    as long and are disturbed as often. Calls are measured in turns; the best of each counts, less an empty call.
    """
    times: dict[str, float] = {}
    for width in WIDTHS:
        model = loads(dfc.compile(PROGRAM, settings={"WIDTH": width}).to_bytes(), threads=1).entries
        xs = np.random.default_rng(0).standard_normal((max(LENGTHS), 1, width)).astype(np.float32)
        steps = {"straight": STRAIGHT * REPEATED, "back": 1000, **{str(n): n for n in LENGTHS}}
        calls: dict[str, Callable[[], object]] = {
            "null": lambda null=model["null"]: null(np.float32(1)),
            "straight": lambda straight=model["straight"], x=xs[:STRAIGHT]: [straight(x) for _ in range(REPEATED)],
            "back": lambda gradients=model["gradients"], x=xs[:1000]: gradients(x),
            **{str(n): lambda looped=model["looped"], x=xs[:n]: looped(x) for n in LENGTHS},
        }
        best = _in_turns(calls)
        empty = {name: best["null"] * (REPEATED if name == "straight" else 1) for name in steps}
        row = {name: (best[name] - empty[name]) / count * 1e6 for name, count in steps.items()}
        row["extra"] = row["1000"] - row["straight"]
        times.update({f"{width}/{name}": round(value, 3) for name, value in row.items()})
    return times


def _in_turns(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of the best call of each."""
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
    for _ in range(SLICES):
        for name, call in calls.items():
            end = time.perf_counter() + SLICE
            while (start := time.perf_counter()) < end:
                call()
                best[name] = min(best[name], time.perf_counter() - start)
    return best
