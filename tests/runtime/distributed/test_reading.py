"""Files are read by the task that uses what is in them, again, too, when a checkpoint is restored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc_runtime.checkpoints import store
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.in_process import Network
from tests.support.clusters import cluster_bundle, on_cluster
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


TWO_PIPELINES = """dfg 1

var left = array_files("FOLDER/left.npy", (x = i64), passes = 9)
var right = array_files("FOLDER/right.npy", (x = i64), passes = 9)
queue lefts: i64 = shuffle_queue(capacity = 8, ready = 5)
queue rights: i64 = shuffle_queue(capacity = 8, ready = 5)
var total: i64 = 0

runner read_left {
  let row = left.next()
  lefts.put(row.x)
}

runner read_right {
  let row = right.next()
  rights.put(row.x)
}

entry step() -> (x: i64, y: i64, total: i64) {
  let x = lefts.take()
  let y = rights.take()
  total += x + y
  return x, y, total
}
"""
ON_TWO = """
job worker tasks 2
place "**" on worker task 0
place "right" on worker task 1
place "rights" on worker task 1
place "rights.order" on worker task 1
"""


def test_where_one_rank_cannot_read_its_elements_again_no_rank_has_restored_its_own(tmp_path: Path) -> None:
    for name in ("left", "right"):
        np.save(tmp_path / f"{name}.npy", np.arange(20))
    program = cluster_bundle(TWO_PIPELINES.replace("FOLDER", str(tmp_path)), ON_TWO)

    def steps(model: dfc.Module, count: int) -> list[tuple[int, ...]]:
        return [tuple(int(each) for each in model.step()) for _ in range(count)]

    def save(model: dfc.Module) -> None:
        steps(model, 3)
        model.save(tmp_path / "state")

    def refused(model: dfc.Module) -> list[tuple[int, ...]]:
        found = steps(model, 10)
        with pytest.raises(dfc.DfcError, match="elements of `rights` cannot be read again from `right`"):
            model.restore(tmp_path / "state")
        return found + steps(model, 30)

    on_cluster(program, 2, save)
    assert {"lefts/@positions", "rights/@positions"} < {*store.find(tmp_path / "state").checkpoint.state}
    np.save(tmp_path / "right.npy", np.arange(20)[::-1])
    undisturbed = on_cluster(program, 2, lambda model: steps(model, 40))
    assert on_cluster(program, 2, refused) == undisturbed
