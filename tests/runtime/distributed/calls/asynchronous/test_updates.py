"""Steps that replicas take by themselves: the recorded order, said again in NumPy, gives the same bits."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import dfc
from dfc_runtime.distributed.calls.asynchronous.updates import _not_shared_out
from dfc_runtime.distributed.transport import wire
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

    def run(self, order: list[int], bound: int = 8) -> None:
        read: dict[int, tuple[int, np.ndarray]] = {}
        blocks, done, held = {0: iter(range(4)), 1: iter(range(4, 8))}, [0, 0], set()
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
                done[task] += 1
            held.add(task)
            for each in [each for each in held if done[each] - min(done) <= bound]:
                held.remove(each)
                read[each] = version, self.w


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

        for wrong in ([0, 1, 1], [], [2**40]):
            with pytest.raises(dfc.RunError, match="the recorded order is not one of a call of `train`"):
                log.replay(wrong)
        for no_order in ([-1], "x", None, [0.5]):
            with pytest.raises(dfc.FeedError, match="numbers of tasks"):
                log.replay(no_order)
        module.train(X, RATE)  # nothing was run, so nothing is half done

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


def test_a_bound_refuses_an_order_that_goes_further_ahead() -> None:
    deployment = DEPLOYMENT.replace('"async"', '"stale", bound = 1')
    data = cluster_bundle(PROGRAM, deployment)

    def work(module: dfc.ClusterModule) -> None:
        log = module.entries["train"].updates
        order = [0, 1, 0, 0, 1, 1, 1, 0, 0, 1]
        log.replay(order)
        module.train(X, RATE)
        said = Transcription()
        said.run(order, bound=1)
        assert module.state["w"].tobytes() == said.w.tobytes()
        with pytest.raises(dfc.RunError, match="the recorded order is not one of a call"):
            log.replay([0, 1, 0, 0, 0, 1, 1, 1, 1, 0])

    on_cluster(data, 3, work, seconds=20)


def test_backups_add_up_the_first_gradients_of_each_step() -> None:
    rows = slice(PROGRAM.index(", first"), PROGRAM.index(")", PROGRAM.index("first: f32[B]")))
    program = PROGRAM.replace(PROGRAM[rows], "").replace("return loss, apart[:, 0]", "return loss")
    deployment = DEPLOYMENT.replace('"async"', '"backup", backups = 1').replace("tasks 2", "tasks 4")
    x = np.float32(0.5) * np.arange(16, dtype=np.float32).reshape(8, 2)

    def work(module: dfc.ClusterModule) -> None:
        log = module.entries["train"].updates
        order = [0, 1, 2, 3, 2, 0, 3, 0, 3, 1, 1, 2]  # task 1 is late in the first step, task 2 in the second one
        log.replay(order)
        loss = module.train(x, RATE)
        w, m = np.full(2, 8, np.float32), np.zeros(2, np.float32)
        losses = []
        for blocks in ((0, 4, 6), (1, 3, 7)):  # two blocks lie at each task
            gradients = [w - x[block] for block in blocks]
            losses += [0.5 * np.sum(np.square(each)) for each in gradients]
            m = np.float32(0.5) * m + (gradients[0] + gradients[1] + gradients[2]) / np.float32(3)
            w = w - RATE * m
        assert module.state["w"].tobytes() == w.tobytes()
        assert module.state["seen"] == 6
        updates = log.read()
        assert (updates.dropped, updates.staleness) == (2, {0: 6})
        assert str(updates) == "updates by staleness: 0: 6; dropped: 2"
        np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-6)
        module.init()
        log.replay([0, 2, 3, 0, 2, 3, 0, 2, 3, 1])  # all is over when task 1 comes
        assert module.train(x, RATE).loss > 0
        assert module.state["seen"] == 6
        module.init()
        module.train(x, RATE)  # in whichever order
        assert module.state["seen"] == 6

    on_cluster(cluster_bundle(program, deployment), 5, work, seconds=20)


def test_a_replica_that_falls_silent_ends_the_call_with_one_message() -> None:
    faults = Faults()
    faults.lost = lambda route, number: route[0] == 2 and route[1] == 0 and route[2] >= FIRST_EDGE and number > 0

    def work(module: dfc.ClusterModule) -> None:
        module.train(X, RATE)

    outcomes: list = outcomes_of(cluster_bundle(PROGRAM, DEPLOYMENT), 3, work, seconds=0.5, faults=faults)
    for outcome in (outcomes[0], outcomes[2]):  # the other one was done, and serves until rank 0 goes
        assert isinstance(outcome, dfc.RankError), outcomes
        assert " s for a step of `train` (model.dfg:6:7) from rank 2 (worker task 1)" in outcome.message


def test_what_a_call_that_failed_has_sent_is_not_waited_for_by_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "INLINE", 4)  # gradients are messages of their own, which somebody has to take

    def work(module: dfc.ClusterModule) -> None:
        module.entries["train"].updates.replay([0, *[1] * 5, *[0] * 4])  # nobody takes the first gradient of task 0
        with pytest.raises(dfc.RunError, match="broken"):
            module.train(X, RATE)
        module.init()
        module.train(X, RATE)
        assert module.state["seen"] == 8

    def follow(module: dfc.ClusterModule) -> None:
        own = module._rank.own_part(module.entries["train"].plan)
        whole = own._function

        def fails_once(*_: object, **__: object) -> object:
            own._function = whole
            raise dfc.RunError("broken", code="E0902")

        if module.rank == 2:
            own._function = fails_once
        module.serve()

    on_cluster(cluster_bundle(PROGRAM, DEPLOYMENT), 3, work, follow, seconds=5)


def test_what_no_gradient_has_a_use_for_is_given_to_nobody_and_state_that_is_only_read_to_all() -> None:
    program = """
    dfg 1
    param w: f32[2] = 8
    var kept: f32 = 3
    entry train[B](x: f32[B, 2], unused: f32) -> (twice: f32) {
      w -= grad(sum(w * x), w)
      return 2 * kept
    }
    """

    def work(module: dfc.ClusterModule) -> None:
        assert module.train(X, RATE).twice == 6
        assert module.state["w"].tolist() == (8 - X.sum(0)).tolist()

    on_cluster(cluster_bundle(program, DEPLOYMENT), 3, work, seconds=20)


@pytest.mark.parametrize(
    ("tasks", "backups", "remedy"),
    [(3, 1, "\n  as many tasks as fit: 2, 4, 8"), (2, 3, "\n  as many tasks as fit: 4, 8"), (4, 8, "")],
)
def test_tasks_that_cannot_share_blocks_out_hear_how_many_could(tasks: int, backups: int, remedy: str) -> None:
    text = f"`train` is cut into 8 blocks, with {backups} of its tasks as backups: {tasks} tasks cannot share that out"
    assert _not_shared_out("train", 8, tasks, backups) == text + remedy
