"""Steps that replicas take by themselves: the recorded order, said again in NumPy, gives the same bits."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import dfc
from dfc_runtime.distributed.transport.comm import FIRST_EDGE
from dfc_runtime.distributed.transport.in_process import Faults
from tests.support.clusters import cluster_bundle, on_cluster, outcomes_of

PROGRAM = """
dfg 1
param w: f32[2] = 8
var m: f32[2] = 0
var seen: i64 = 0
entry train[B](x: f32[B, 2], rate: f32) -> (loss: f32, first: f32[B]) {
  let apart = w - x
  let loss = 0.5 * mean(sum(square(apart), axis = 1))
  m := 0.5 * m + grad(loss, w)
  w -= rate * m
  seen += B
  return loss, apart[:, 0]
}
"""
DEPLOYMENT = """
job ps tasks 1
job worker tasks 2
replicate train over worker with mode = "async", split = "B", blocks = 8
"""
X = np.arange(16, dtype=np.float32).reshape(8, 2)
RATE = np.float32(0.25)


class Transcription:
    """The same steps in NumPy, in a given order."""

    def __init__(self) -> None:
        self.w, self.m = np.full(2, 8, np.float32), np.zeros(2, np.float32)
        self.staleness: Counter[int] = Counter()
        self.first = np.empty(8, np.float32)
        self.losses = np.empty(8, np.float32)

    def run(self, order: list[int]) -> None:
        read: dict[int, tuple[int, np.ndarray]] = {}
        blocks = {0: iter(range(4)), 1: iter(range(4, 8))}
        version = 0
        for task in order:
            if task in read:
                block = next(blocks[task])
                seen, w = read[task]
                gradient = w - X[block]
                self.losses[block], self.first[block] = 0.5 * np.sum(np.square(gradient)), gradient[0]
                self.m = np.float32(0.5) * self.m + gradient
                self.w = self.w - RATE * self.m
                self.staleness[version - seen] += 1
                version += 1
            read[task] = version, self.w


def test_the_recorded_order_gives_the_bits_and_can_be_replayed() -> None:
    def work(module: dfc.ClusterModule) -> None:
        log = module.entries["train"].updates
        results = module.train(X, RATE)
        updates, w = log.read(), module.state["w"]
        expected = Transcription()
        expected.run(updates.order)
        assert w.tobytes() == expected.w.tobytes()
        assert module.state["m"].tobytes() == expected.m.tobytes()
        assert module.state["seen"] == 8
        assert results.first.tobytes() == expected.first.tobytes()
        assert results.loss == np.float32(expected.losses.astype(np.float64).mean())
        assert updates.staleness == expected.staleness
        assert str(updates).startswith("updates by staleness: ")

        other = [*range(2), *[0, 1] * 4]
        for order in (other, updates.order):
            module.init()
            log.replay(order)
            module.train(X, RATE)
            said = Transcription()
            said.run(order)
            assert log.read().order == order
            assert module.state["w"].tobytes() == said.w.tobytes()
        assert module.state["w"].tobytes() == w.tobytes()

        log.replay([0, 1, 1])
        with pytest.raises(dfc.RunError, match="the recorded order is not one of this call of `train`"):
            module.train(X, RATE)

    on_cluster(cluster_bundle(PROGRAM, DEPLOYMENT), 3, work, seconds=20)


def test_one_replica_is_plain_sgd_of_its_blocks() -> None:
    def work(module: dfc.ClusterModule) -> None:
        module.train(X, RATE)
        m, w = np.zeros(2, np.float32), np.full(2, 8, np.float32)
        for row in X:
            m = np.float32(0.5) * m + (w - row)
            w = w - RATE * m
        assert module.state["w"].tobytes() == w.tobytes()
        assert module.entries["train"].updates.read().staleness == {0: 8}

    on_cluster(cluster_bundle(PROGRAM, DEPLOYMENT), 2, work, jobs={"worker": 1}, seconds=20)


def test_a_replica_that_falls_silent_ends_the_call_with_one_message() -> None:
    faults = Faults()
    faults.lost = lambda route, number: route[0] == 2 and route[1] == 0 and route[2] >= FIRST_EDGE and number > 0

    def work(module: dfc.ClusterModule) -> None:
        module.train(X, RATE)

    outcomes: list = outcomes_of(cluster_bundle(PROGRAM, DEPLOYMENT), 3, work, seconds=0.5, faults=faults)
    for outcome in (outcomes[0], outcomes[2]):  # the other one was done, and serves until rank 0 goes
        assert isinstance(outcome, dfc.RankError), outcomes
        assert "rank 0 (ps task 0) for a step of `train` (model.dfg:6:7)" in outcome.message
        assert outcome.message == outcomes[0].message
