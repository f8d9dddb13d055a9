"""A pipeline whose consumer is slower than its producers, for a minute: memory stays flat, no queue holds more than its
capacity, and the trace of a shorter run has the producers waiting for room most of the time.

    python -m tests.gate.soak [SECONDS] [--seed N]
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import dfc
from dfc.cli.tracing.traces import read
from dfc_runtime.module import Module
from tests.support.seeded_commands import run
from tests.support.workers.worker import anonymous_bytes

SECONDS, TRACED, WARM = 60.0, 2.0, 0.2
"""Of the run that is measured, of the one that is traced, and the part of a run behind which memory is to stay."""
PAUSE = 0.002
"""Seconds between two batches: ten times what the producers need."""
MOST_GROWTH = 1 << 20
CAPACITIES = {"pool": 4096, "staged": 2}
PROGRAM = """dfg 1
var files = array_files("*.npy", (x = f32[784]), passes = 1_000_000, shuffle = "records", seed = %(seed)d)
queue pool: f32[784] = shuffle_queue(capacity = 4_096, ready = 1_024, seed = %(seed)d)
queue staged: f32[32, 784] = staging(depth = 2)
runner read with copies = 2 {
  let row = files.next()
  pool.put(row.x * 2.0)
}
runner collect {
  let rows = pool.take(32)
  staged.put(rows)
}
entry batch() -> f32[784] {
  let rows = staged.take()
  return mean(rows, axis = 0)
}
"""
PRODUCERS = ("read", "collect")


def run_for(seconds: float, each: Callable[[], object]) -> int:
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        each()
        count += 1
        time.sleep(PAUSE)
    return count


def held(model: Module) -> dict[str, int]:
    """How many elements each queue has."""
    numbers = {name: model._machinery.driver.queues.queue(name).numbers for name in CAPACITIES}
    return {name: put - taken for name, (put, taken, _) in numbers.items()}


def soaked(model: Module, seconds: float) -> list[str]:
    """What is wrong with memory and queues."""
    findings: list[str] = []

    def batch() -> None:
        model.batch()
        findings.extend(f"{name} holds {n}" for name, n in held(model).items() if n > CAPACITIES[name])

    run_for(WARM * seconds, batch)
    gc.collect()
    before = anonymous_bytes()
    count = run_for((1 - WARM) * seconds, batch)
    gc.collect()
    growth = anonymous_bytes() - before
    print(f"{count} batches in {(1 - WARM) * seconds:.0f} s, {growth / 1024:.0f} KiB more memory", flush=True)
    return findings + ([f"memory grew by {growth} bytes"] if growth > MOST_GROWTH else [])


def idle(trace: Path) -> list[str]:
    """Producers that have worked for more than half of the time."""
    pipeline = read(trace).pipeline
    assert pipeline is not None, "a trace of a program with runners has stages"
    shares = {each.name: each.for_room / each.elapsed for each in pipeline.stages if each.name in PRODUCERS}
    assert shares.keys() == set(PRODUCERS)
    print(", ".join(f"{name} waits for room for {share:.0%} of the time" for name, share in shares.items()), flush=True)
    return [f"{name} waits for room for {share:.0%} of the time only" for name, share in shares.items() if share < 0.5]


def main(seconds: float, seed: int) -> int:
    """1 if anything was found."""
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "rows.npy", np.random.default_rng(seed).random((10_000, 784), np.float32))
        code, data = dfc.compile(text=PROGRAM % {"seed": seed}).to_bytes(), {"files": str(folder / "*.npy")}
        model = dfc.loads(code, threads=1, data=data)
        findings = soaked(model, seconds)
        model.close()
        traced = dfc.loads(code, threads=1, data=data, trace=folder / "trace.json")
        run_for(min(TRACED, seconds), traced.batch)
        traced.close()
        findings += idle(folder / "trace.json")
    print(*findings, f"soak: {len(findings)} findings, seed {seed}", sep="\n")
    return 1 if findings else 0


if __name__ == "__main__":
    run(main, __doc__, "seconds", SECONDS)
