"""Programs of many ranks: the same bits for any number of them, feeds in pieces, results put together, state."""

from __future__ import annotations

import numpy as np
import pytest

from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.in_process import Faults, Network
from dfc_runtime.errors import FeedError
from tests.support.clusters import cluster_bundle, on_cluster, undivided
from tests.support.ranks import run_on

PROGRAM = """dfg 1

param w: f32[4, 3] = uniform(-1.0, 1.0)
var steps: i64 = 0

entry train[B](x: f32[B, 4], y: f32[B, 3], rate: f32) -> (loss: f32, p: f32[B, 3]) {
  let p = tanh(x @ w)
  let loss = mean(square(p - y))
  let g = grad(loss, w)
  w := w - rate * g
  steps := steps + 1
  return loss, p
}

entry look[B](x: f32[B, 4]) -> f32[B, 3] {
  return x @ w
}
"""
DEPLOYMENT = """
job worker tasks 2
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 8
"""
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(24, 4)).astype(np.float32)
Y = RANDOM.normal(size=(24, 3)).astype(np.float32)


def bundle():
    return cluster_bundle(PROGRAM, DEPLOYMENT)


def trained(module, steps=5):
    """Losses, last predictions, the weights."""
    found = [module.train(X, Y, rate=0.1) for _ in range(steps)]
    return np.array([each.loss for each in found]).tobytes(), found[-1].p.tobytes(), module.state["w"].tobytes()


def one_rank():
    return on_cluster(bundle(), 1, trained, jobs={"worker": 1})


@pytest.mark.parametrize("ranks", range(2, 9))
def test_training_has_the_same_bits_on_any_number_of_ranks(ranks):
    assert on_cluster(bundle(), ranks, trained, jobs={"worker": ranks}) == one_rank()


@pytest.mark.parametrize("seed", range(4))
def test_late_messages_change_nothing(seed):
    faults = Faults(seed, delay=4)
    assert on_cluster(bundle(), 3, trained, jobs={"worker": 3}, faults=faults, eager=64 * (seed % 2)) == one_rank()


def test_training_learns_what_the_undivided_program_learns():
    module = undivided(PROGRAM)
    for _ in range(5):
        expected = module.train(X, Y, rate=0.1)
    module.state["steps"]
    loss, p, w = one_rank()
    assert np.frombuffer(loss, np.float32)[-1] == pytest.approx(expected.loss, rel=1e-5)
    np.testing.assert_allclose(np.frombuffer(p, np.float32), expected.p.reshape(-1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.frombuffer(w, np.float32), module.state["w"].reshape(-1), rtol=1e-5, atol=1e-6)


def test_an_entry_that_is_not_cut_runs_too():
    def work(module):
        w = RANDOM.normal(size=(4, 3)).astype(np.float32)
        module.state["w"] = w
        return module.look(X), w

    found, w = on_cluster(bundle(), 2, work)
    np.testing.assert_allclose(found, X @ w, rtol=1e-5, atol=1e-6)


def test_state_is_written_to_every_copy_and_counts_once():
    def work(module):
        module.state["w"] = np.ones((4, 3), np.float32)
        first = trained(module, 2)
        module.state["w"] = np.ones((4, 3), np.float32)
        second = trained(module, 2)
        return first == second, int(module.state["steps"]), sorted(module.state), module.state["w"].flags.owndata

    assert on_cluster(bundle(), 3, work, jobs={"worker": 3}) == (True, 4, ["steps", "w"], True)


def test_ranks_that_call_along_get_the_same_results_and_have_equal_copies_after_each_step():
    def trained_along(module, *feeds, **rate):
        found, copies = [], []
        for _ in range(5):
            found.append(module.train(*feeds, **rate))
            copies.append(module.inner.state["w"].tobytes())  # what this rank has in its own memory
        losses = np.array([each.loss for each in found]).tobytes()
        assert len(set(copies)) == 5
        return (losses, found[-1].p.tobytes(), module.state["w"].tobytes()), copies

    def work(module):
        return *trained_along(module, X, Y, rate=0.1), module.look(X).tobytes()

    outcomes = []

    def follow(module):
        outcomes.append((*trained_along(module), module.look(None).tobytes()))

    expected = on_cluster(bundle(), 3, work, follow, jobs={"worker": 3})
    assert expected[0] == one_rank()
    assert outcomes == [expected, expected]


def test_a_size_that_cannot_be_cut_is_refused_before_anything_runs():
    def work(module):
        with pytest.raises(FeedError, match=r"cut into 8 blocks along B, which is 12: no multiple of it"):
            module.train(X[:12], Y[:12], rate=0.1)
        few = r"which is 3: less than one for each\n  give it 8, or a multiple of it; the number of blocks is written"
        with pytest.raises(FeedError, match=few):
            module.train(X[:3], Y[:3], rate=0.1)
        with pytest.raises(FeedError, match="misses the feed rate"):
            module.train(X, Y)
        with pytest.raises(FeedError, match="astype"):
            module.train(X.astype(np.float64), Y, rate=0.1)
        with pytest.raises(FeedError, match="there is no state `v`"):
            module.state["v"]
        with pytest.raises(FeedError, match="but got float64"):
            module.state["w"] = np.ones((4, 3))
        return trained(module)

    assert on_cluster(bundle(), 2, work) == one_rank()


def test_large_feeds_and_results_travel_by_themselves():
    x = RANDOM.normal(size=(40_000, 4)).astype(np.float32)
    y = np.zeros((40_000, 3), np.float32)

    def work(module):
        return module.train(x, y, rate=0.1).p.tobytes()

    expected = on_cluster(bundle(), 1, work, jobs={"worker": 1})
    assert on_cluster(bundle(), 3, work, jobs={"worker": 3}) == expected


def test_the_module_looks_like_any_other():
    def work(module):
        shown = repr(module)
        return (
            module.name,
            module.size,
            module.rank,
            "entry train[B]" in shown and "rank 0 (worker task 0) of 2" in shown,
            "rate" in str(module.entries["train"].signature),
            "train" in dir(module),
            repr(module.state).count("worker"),
        )

    assert on_cluster(bundle(), 2, work) == ("model", 2, 0, True, True, True, 2)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_batch_of_nothing_is_what_it_is_on_one_rank(ranks):
    program = """dfg 1

    param w: f32[4] = uniform(-1.0, 1.0)

    entry train[B](x: f32[B, 4]) -> (loss: f32, p: f32[B]) {
      let p = x @ w
      let loss = sum(square(p))
      w := w - 0.1 * grad(loss, w)
      return loss, p
    }
    """
    deployment = """
    job worker tasks 3
    replicate train over worker with mode = "sync", split = "B", combine = "sum", blocks = 8
    """

    def work(module):
        before = module.state["w"].tobytes()
        made = module.train(np.empty((0, 4), np.float32))
        return made.loss.item(), made.p.shape, module.state["w"].tobytes() == before

    found = on_cluster(cluster_bundle(program, deployment), ranks, work, jobs={"worker": ranks})
    assert found == (0.0, (0,), True)


def test_feeds_that_have_to_be_converted_or_refused_after_some_that_need_nothing():
    def work(module):
        expected = module.look(X).tobytes()
        module.train(X, Y, 0.0), module.train(x=X, y=Y, rate=0.0)
        for given in (np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], memoryview(X), X[::-1].copy()[::-1]):
            assert module.look(given).tobytes() == module.look(x=given).tobytes() == expected
        refused = [
            (X.astype(np.float64), Y, 0.1),
            (X, Y, "0.1"),
            (X, Y, 1e60),
            (X[:-1], Y[:-1], 0.1),
            (X, Y),
            (X, Y[0], 0.1),
        ]
        for wrong in (*refused, (np.ma.masked_array(X), Y, 0.1)):
            with pytest.raises(FeedError):
                module.train(*wrong)
            with pytest.raises(FeedError):
                module.train(**dict(zip(("x", "y", "rate"), wrong, strict=False)))
        with pytest.raises(FeedError):
            module.train(X, y=Y, rate=0.1, other=1)
        assert module.look(X).tobytes() == expected
        return int(module.state["steps"])

    assert on_cluster(bundle(), 2, work) == 2


def test_a_server_gets_one_gradient_however_many_tasks_there_are():
    """A worker with more devices has more tasks, which add up their gradients first."""
    program = """dfg 1

    param w: f32[64, 64] = uniform(-1.0, 1.0)

    entry train[B](x: f32[B, 64]) {
      w := w - 0.1 * grad(mean(square(x @ w)), w)
    }
    """
    deployment = """
    job worker tasks 4
    job ps tasks 1
    place "w" on ps
    replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 4
    """
    data, x, steps = cluster_bundle(program, deployment), RANDOM.normal(size=(8, 64)).astype(np.float32), 3

    def bytes_to_server(tasks):
        network = Network(tasks + 1)

        def run(comm):
            module = load_on(data, comm, jobs={"worker": tasks}, seconds=100, threads=1)
            if comm.rank:
                return module.serve()
            for _ in range(steps):
                module.train(x)
            return module.close()

        run_on(network, run)
        return sum(size for (_, rank, _), size in network.bytes_sent.items() if rank == tasks)

    gradient = 4 * 64 * 64
    for tasks in (1, 4):
        assert steps * gradient <= bytes_to_server(tasks) < (steps + 0.5) * gradient
