"""Files are read by the task that uses what is in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.in_process import Network
from tests.support.clusters import cluster_bundle
from tests.support.ranks import run_on

PROGRAM = """dfg 1

var rows = array_files("rows.npy", (x = f32[1024]), passes = 9)
queue pool: f32[1024] = fifo(capacity = 4)
var total: f32[1024] = 0

runner read {
  let row = rows.next()
  pool.put(row.x)
}

entry step() -> f32 {
  let x = pool.take(4)
  total += sum(x, axis = 0)
  return total[0]
}
"""
DEPLOYMENT = """
job client tasks 1
job worker tasks 1
place "**" on worker
"""


def test_who_calls_sends_nothing_of_what_is_read(tmp_path: Path) -> None:
    rows = np.arange(8 * 1024, dtype=np.float32).reshape(8, 1024)
    np.save(tmp_path / "rows.npy", rows)
    network, steps = Network(2), 16
    sent: list[dict[tuple[int, int, int], int]] = []

    def run(comm):
        module = load_on(cluster_bundle(PROGRAM, DEPLOYMENT), comm, threads=1, data={"rows": tmp_path / "rows.npy"})
        if comm.rank:
            return module.serve()
        for step in range(1, steps + 1):
            sent.append(dict(network.bytes_sent))
            assert module.step() == np.cumsum(rows[np.arange(4 * steps) % 8, 0])[4 * step - 1]
        sent.append(dict(network.bytes_sent))
        return module.close()

    run_on(network, run)
    in_all = [sum(size for (source, _, _), size in each.items() if source == 0) for each in sent]
    assert 0 < in_all[-1] - in_all[0] < rows[0].nbytes  # 64 rows were read
