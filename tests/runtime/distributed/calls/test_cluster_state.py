"""Divided state from outside: saved and restored whole, on other numbers of tasks; bf16 on the way; its owners."""

from __future__ import annotations

import numpy as np
import pytest

from dfc_runtime.errors import RankCountError
from tests.support.clusters import cluster_bundle, on_cluster, undivided
from tests.support.sweeping import few

PROGRAM = """dfg 1
param table: f32[7, 2] = uniform(-1.0, 1.0)
entry train[B](ids: i32[B], rate: f32) -> (loss: f32) {
  let loss = mean(square(1.0 - sum(table[ids], axis = 1)))
  table -= rate * grad(loss, table)
  return loss
}
entry put[B](ids: i32[B], rows: f32[B, 2]) { table[ids] := rows * 2.0 }
"""
PLACES = """
job ps tasks {shards}
job worker tasks {workers}
shard "table" axis 0 over ps by {rule}
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 4
"""
HALF = np.float32(0.6172839)
IDS = np.array([6, 0, 3, 3, -1, 5, 1, 2], np.int32)


def spread(shards, workers, rule, more=""):
    return cluster_bundle(PROGRAM, PLACES.format(shards=shards, workers=workers, rule=rule) + more)


def trained(module):
    losses = [float(module.train(IDS, 0.1).loss) for _ in range(3)]
    return losses, np.array(module.state["table"])


def test_what_one_cluster_saves_others_restore(tmp_path):
    def save(module):
        found = trained(module)
        module.save(tmp_path)
        return found[1]

    def restore(module):
        module.restore(tmp_path)
        return np.array(module.state["table"])

    saved = on_cluster(spread(2, 1, "hash"), 3, save)
    assert on_cluster(spread(3, 1, "blocks"), 4, restore).tobytes() == saved.tobytes()
    assert restore(undivided(PROGRAM)).tobytes() == saved.tobytes()


def test_rows_may_travel_as_halves():
    """What is put into the table has lost the lower half of its bits, what comes back has not."""

    def work(module):
        module.put(IDS[:1], np.full((1, 2), HALF, np.float32))
        return np.array(module.state["table"])[6, 0]

    found = on_cluster(
        spread(2, 1, "modulo", 'place "**" on worker\ncompress worker to ps with format = "bf16"'), 3, work
    )
    assert found.view(np.uint32) == (HALF * 2).view(np.uint32) & 0xFFFF0000
    assert on_cluster(spread(2, 1, "modulo", 'place "**" on worker'), 3, work) == (HALF * 2)


def test_the_tasks_that_compute_may_have_the_rows():
    text = """
    job worker tasks {tasks}
    shard "table" axis 0 over worker by modulo
    replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 4
    """
    found = [
        on_cluster(cluster_bundle(PROGRAM, text.format(tasks=tasks)), tasks, trained) for tasks in few((1, 3, 2), 2)
    ]
    wanted = trained(undivided(PROGRAM))
    for losses, table in found:
        np.testing.assert_allclose(losses, wanted[0], rtol=1e-5)
        assert table.tobytes() == found[0][1].tobytes()


def test_the_number_of_owners_is_that_of_the_bundle():
    with pytest.raises(RankCountError, match="`ps` has 2 tasks"):
        on_cluster(spread(2, 1, "modulo"), 4, trained, jobs={"ps": 3})
