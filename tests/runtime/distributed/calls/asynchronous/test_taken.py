"""Steps that replicas take by themselves, with batches out of a queue: each batch is one step's, by a known order."""

from __future__ import annotations

import numpy as np
import pytest

import dfc
from dfc_runtime.distributed.calls.cluster_module import ClusterModule
from tests.support.clusters import cluster_bundle, on_cluster

PROGRAM = """
dfg 1
queue numbers: (x: f32, y: f32) = shuffle_queue(capacity = 16, ready = 5, seed = 3)
queue staged: (x: f32[2], y: f32[2], unused: f32) = staging(depth = 2)
var n: i64 = 0
param w: f32[2] = 8
var seen: i64 = 0
var stream: f32[200] = 0
runner count with copies = 2 {
  n += 1
  numbers.put(n as f32, 0.5)
  if n == 53 { numbers.close() }
}
runner pair with copies = 2 {
  let x, y = numbers.take(2)
  staged.put(x, y, sum(x))
}
entry train(rate: f32) -> (loss: f32) {
  let x, y, _ = staged.take()
  let apart = w - x * 0.125
  let loss = 0.5 * sum(square(apart)) + sum(y)
  w -= rate * grad(loss, w)
  stream[seen] += sum(x * (iota(f32[2]) + 1))
  seen += 1
  return loss
}
readonly entry weights() -> f32[2] { return w }
entry batch() -> f32[2] {
  let x, y, _ = staged.take()
  return x
}
"""
DEPLOYMENT = """
job ps tasks 1
job worker tasks 2
place "**" on ps
replicate train over worker with mode = "async", split = "staged", blocks = 4
"""
RATE = np.float32(0.25)


def batches(model: dfc.Module) -> list[np.ndarray]:
    """All of the stream."""
    found: list[np.ndarray] = []
    with pytest.raises(dfc.EndOfData):
        while True:
            found.append(np.array(model.batch()))
    return found


def transcribed(stream: list[np.ndarray], orders: list[list[int]]) -> np.ndarray:
    """The weights behind calls with these orders, in NumPy: task 0 has the first two of four batches."""
    w = np.full(2, 8, np.float32)
    for number, order in enumerate(orders):
        own = {0: iter(stream[4 * number :][:2]), 1: iter(stream[4 * number + 2 :][:2])}
        read: dict[int, np.ndarray] = {}
        for task in order:
            if task in read:
                w = w - RATE * (read[task] - next(own[task]) * np.float32(0.125))
            read[task] = w
    return w


def test_each_batch_is_that_of_one_step_and_a_recorded_order_gives_the_same_bits() -> None:
    def work(model: ClusterModule) -> tuple[list[np.ndarray], list[list[int]], list[bytes]]:
        stream = batches(model)
        outcomes: list[bytes] = []
        orders: list[list[int]] = []
        for turn in range(2):
            model.init()
            for call in range(3):
                if turn:
                    model.entries["train"].updates.replay(orders[call])
                model.train(RATE)
                orders.append(model.entries["train"].updates.read().order)
            outcomes.append(b"".join(np.array(model.state[name]).tobytes() for name in ("w", "stream", "seen")))
        assert orders[:3] == orders[3:]
        np.testing.assert_array_equal(model.state["w"], transcribed(stream, orders[:3]))
        used = sorted(float(each) for each in np.array(model.state["stream"])[:12])
        assert used == sorted(float(x[0] + 2 * x[1]) for x in stream[:12])
        return outcomes

    first, again = on_cluster(cluster_bundle(PROGRAM, DEPLOYMENT), 3, work)
    assert first == again


def test_a_call_that_gets_too_few_batches_changes_nothing_and_a_checkpoint_goes_on(tmp_path) -> None:
    def work(model: ClusterModule) -> None:
        for _ in range(3):
            model.train(RATE)
        model.save(tmp_path / "saved")
        for _ in range(3):
            model.train(RATE)
        before = np.array(model.weights())
        with pytest.raises(dfc.EndOfData):
            model.train(RATE)
        assert model.weights().tobytes() == before.tobytes() and int(model.state["seen"]) == 24
        rest = np.sort(np.array(model.state["stream"])[12:24])
        model.restore(tmp_path / "saved")
        for _ in range(3):
            model.train(RATE)
        np.testing.assert_array_equal(np.sort(np.array(model.state["stream"])[12:24]), rest)

    on_cluster(cluster_bundle(PROGRAM, DEPLOYMENT), 3, work)
