"""Pools of 1,000,000 elements, saved after so many batches as chance says, and read again by a program that is loaded
anew: a checkpoint has less than 10 kB, and the batches are those of a program that nobody disturbed, a million elements
further on as well.

    python -m tests.gate.pools [COUNT] [--seed N]
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

import numpy as np

import dfc
from dfc_runtime.module import Module
from tests.support.seeded_commands import run

COUNT = 3
MOST_BYTES = 10_000
MOST_BATCHES = 3_000
PROGRAM = """dfg 1
var files = array_files("*.npy", (x = u32), passes = 5, shuffle = %(shuffle)s, seed = %(seed)d)
queue pool: u32 = shuffle_queue(capacity = 1_000_000, ready = %(ready)d, seed = %(seed)d)
runner read with copies = %(copies)d {
  let row = files.next()
  pool.put(row.x)
}
entry batch() -> u32[1000] { return pool.take(1000) }
"""


def batches(model: Module, count: int) -> list[bytes]:
    return [np.asarray(model.batch()).tobytes() for _ in range(count)]


def attacked(folder: Path, chance: random.Random) -> str:
    """What is wrong; "" if nothing is."""
    stated = {"shuffle": chance.choice(["false", '"records"', '"files"']), "seed": chance.randrange(1000)}
    stated |= {"ready": chance.choice([500_000, 700_000, 999_001]), "copies": chance.choice([1, 2, 4])}
    first, more = chance.randrange(1, MOST_BATCHES), chance.randrange(1, MOST_BATCHES // 2)
    data = dfc.compile(text=PROGRAM % stated).to_bytes()
    undisturbed, model = (dfc.loads(data, data={"files": str(folder / "*.npy")}) for _ in range(2))
    batches(undisturbed, first)
    batches(model, first)
    state = Path(tempfile.mkdtemp(dir=folder))
    start = time.monotonic()
    model.save(state)
    saved = time.monotonic() - start
    size = sum(each.stat().st_size for each in state.rglob("*") if each.is_file())
    model.close()
    again = dfc.loads(data, data={"files": str(folder / "*.npy")})
    again.restore(state)
    print(f"{stated}: {size:,} bytes after {first} batches, saved in {saved:.2f} s; {', '.join(again.read_again())}")
    wrong = "" if size < MOST_BYTES and again.read_again() else f"{stated}: {size:,} bytes"
    for step in range(2):
        if batches(again, more) != batches(undisturbed, more):
            wrong = wrong or f"{stated}: other batches behind {first}, {more} at a time, step {step}"
    again.close()
    undisturbed.close()
    return wrong


def main(count: int, seed: int) -> int:
    """1 if anything was found."""
    print(f"seed {seed}", flush=True)
    chance, findings = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as name:
        for number in range(3):
            rows = np.random.default_rng(number).integers(0, 2**32, 400_000 + number, np.uint32)
            np.save(Path(name) / f"{number}.npy", rows)
        for _ in range(count):
            wrong = attacked(Path(name), chance)
            findings += bool(wrong)
            print(wrong, end="\n" * bool(wrong), flush=True)
    print(f"pools: {count} pools, {findings} findings, seed {seed}")
    return 1 if findings else 0


if __name__ == "__main__":
    run(main, __doc__, "count", COUNT)
