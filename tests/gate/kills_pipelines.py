"""Kills of a process that trains on files of records through queues and runners with `dfc run --state`, at random
moments. The same command is given again until it ends: with the weights of a run that nobody disturbed, bit for bit,
and with a hash of all batches in their order.

    python -m tests.gate.kills_pipelines [COUNT] [--seed N]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from dfc.driver import api
from dfc_runtime.records.example import encode_example
from tests.gate import kills_alone
from tests.gate.kills_alone import Job
from tests.support.record_files import write_records

COUNT = 40
PROGRAM = """dfg 1
var files = record_files("*.rec", passes = 100, shuffle = "records", seed = 3, longest = 64)
queue pool: (x: f32[4], y: i32) = shuffle_queue(capacity = 64, ready = 32, seed = 5)
queue jobs: (x: f32[4], y: i32, key: i64) = priority_queue(capacity = 32, ready = 8, by = "key")
queue staged: (x: f32[16, 4], y: i32[16]) = staging(depth = 2)
var skipped: i64 = 0
param w: f32[4, 3] = uniform(-0.5, 0.5)
var batches: u64 = 1
runner read with copies = 4 {
  let record = files.next()
  let fields = parse_example(record, (x = f32[4], y = i64))
  pool.put(fields.x, fields.y as i32)
}
runner sort with copies = 2 {
  let x, y = pool.take()
  if x[0] < 1.0 { jobs.put(x, y, (x[1] * 1000.0) as i64) } else { skipped += 1 }
}
runner collect {
  let x, y, _ = jobs.take(16)
  staged.put(x, y)
}
entry train(rate: f32) -> (loss: f32) {
  let x, y = staged.take()
  let loss = mean(cross_entropy(x @ w, y))
  w -= rate * grad(loss, w)
  batches := batches * 6364136223846793005 + (sum(y * iota(i32[16])) as u64)
  return loss
}
"""


def prepared(folder: Path) -> Path:
    """A folder with a bundle and two files of records."""
    api.compile(text=PROGRAM).save(folder / "m.bundle")
    rng = np.random.default_rng(5)
    for name, count in (("a.rec", 50), ("b.rec", 90)):
        pairs = zip(rng.normal(size=(count, 4)).astype("f4"), rng.integers(0, 3, (count, 1)), strict=True)
        write_records(folder / name, [encode_example({"x": x, "y": y}) for x, y in pairs])
    return folder


JOB = Job("kills_pipelines", prepared, ("--feed", "rate=0.1"), frozenset({"w", "batches"}))
"""What stands in queues, and how far readers are ahead, is a matter of time."""

if __name__ == "__main__":
    sys.exit(kills_alone.main(JOB, COUNT))
