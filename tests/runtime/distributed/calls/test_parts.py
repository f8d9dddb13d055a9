"""Parts of entries on many ranks: the values of one rank and of whole entries, on the state of the program."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from dfc_runtime.distributed.transport.in_process import Faults
from dfc_runtime.errors import RunError, UnsupportedError
from tests.support.cluster_parts import (
    NAMES,
    PARTITIONED,
    PROGRAM,
    REPLICATED,
    TRAIN,
    X,
    Y,
    alone,
    bits,
    partitioned,
    replicated,
)
from tests.support.clusters import cluster_bundle, on_cluster, undivided
from tests.support.sweeping import few

# ------------------------------------------------------------------ values --


@pytest.mark.parametrize("seed", few(range(2), 1))
def test_a_value_is_that_of_one_rank_wherever_it_is_computed(seed):
    def values(module):
        found = [module.run(name, TRAIN) for name in NAMES]
        found += module.run(NAMES, TRAIN)
        found += module.run(["train/loss", "train/gv"], {"train/h": np.tanh(X[:, :3]), "y": Y})
        found += module.run(["train/v", "train/steps"], {**TRAIN, "rate": 0.1})
        found += [module.run("several/a", {"x": X[0, :3]}), module.run("checked/rows", {"checked/k": 7})]
        return bits(found)

    faults = Faults(seed, delay=3 * (seed % 2))
    assert on_cluster(partitioned(), 3, values, faults=faults, eager=32 * (seed // 2)) == values(alone())


@pytest.mark.parametrize("ranks", few([3, 8, 2, 1, 5], 1))
def test_values_of_a_replicated_entry_are_those_of_a_call_on_any_number_of_ranks(ranks):
    def values(module):
        found = module.run(NAMES, TRAIN)
        loss, p = module.train(X, Y, rate=0.0)
        assert bits([found[2], found[1]]) == bits([loss, p])
        fed = module.run(["train/loss", "train/h"], {"train/h": found[0], "y": Y})
        assert bits([fed[0], fed[1]]) == bits([loss, found[0]])
        return bits(found)

    expected = on_cluster(replicated(), 1, values, jobs={"worker": 1})
    assert on_cluster(replicated(), ranks, values, jobs={"worker": ranks}) == expected
    for found, value in zip(expected, alone().run(NAMES, TRAIN), strict=True):
        array = np.frombuffer(found[2], found[0]).reshape(found[1])
        # a mean over 24 examples is added up in another order
        np.testing.assert_allclose(array, value, rtol=1e-5, atol=1e-6)


def test_any_values_may_be_fed_and_fetched_together():
    whole = dict(zip(NAMES, alone().run(NAMES, TRAIN), strict=True))
    inner = {name: whole[name] for name in NAMES[:5]}
    random = Random(7)
    asked = []
    for _ in range(8):
        fetched = random.sample(NAMES, random.randint(1, 3))
        fed = [name for name in random.sample(list(inner), random.randint(0, 2)) if name not in fetched]
        asked.append((fetched, {**TRAIN, **{name: inner[name] * 2 for name in fed}}))

    def values(module):
        return [bits(module.run(*each)) for each in asked]

    assert on_cluster(partitioned(), 3, values) == values(alone()), asked


def test_one_name_gives_one_value_a_list_values_by_name_and_an_entry_nothing():
    def work(module):
        one = module.run("train/loss", TRAIN)
        several = module.run(["train/loss"], TRAIN)
        both = module.run(["train/p", "train/p"], TRAIN)
        before = module.state["steps"]
        assert module.run("train", {**TRAIN, "rate": 0.1}) is None
        assert module.state["steps"] == before + 1
        return type(one), len(several), several._asdict().keys(), both

    kind, count, names, (first, second) = on_cluster(partitioned(), 3, work)
    assert (kind, count, list(names)) == (np.float32, 1, ["train/loss"])
    np.testing.assert_array_equal(first, second)


# ------------------------------------------------------------------- state --


@pytest.mark.parametrize(("deployment", "ranks"), [(REPLICATED, 2), (PARTITIONED, 3)])
def test_a_part_works_on_the_state_of_the_program_and_does_only_what_is_needed(deployment, ranks):
    def work(module):
        w = np.array(module.state["w"])
        counts = [int(module.run("train/count")), int(module.run("train/count"))]
        module.run("train/loss", TRAIN)
        assert np.array_equal(w, module.state["w"])
        module.train(X, Y, rate=0.5)
        assert not np.array_equal(w, module.state["w"])
        module.state["w"] = np.zeros((4, 3), np.float32)
        return counts, int(module.state["steps"]), float(np.abs(module.run("train/h", TRAIN)).max())

    assert on_cluster(cluster_bundle(PROGRAM, deployment), ranks, work) == ([1, 2], 3, 0.0)


def test_every_copy_of_the_state_is_written():
    seen = []

    def work(module):
        module.run("train/count")
        module.run("train/count")

    def along(module):
        module.run("train/count")
        module.run("train/count")
        seen.append(int(module.inner.state["steps"]))

    on_cluster(replicated(), 3, work, along, jobs={"worker": 3})
    assert seen == [2, 2]


def test_a_part_that_failed_between_writes_lets_nobody_use_the_state():
    program = """dfg 1
    var a: i64 = 1
    var b: i64 = 1
    entry step(n: i64) -> i64 {
      a := a + n
      assert n > 0, "n has to be positive"
      b := b + n
      let both = a + b
      return both
    }
    """
    data = cluster_bundle(program, '\njob ps tasks 2\nplace "a" on ps task 0\nplace "b" on ps task 1\n')

    def work(module):
        assert module.run("step/both", {"n": 1}) == 4
        with pytest.raises(RunError, match="n has to be positive"):
            module.step(-1)
        with pytest.raises(RunError, match=r"`step` was stopped, .* `run\(step/both\)` finds"):
            module.run("step/both", {"n": 1})
        module.init()
        return int(module.run("step/both", {"n": 2}))

    assert on_cluster(data, 2, work) == 6


# ------------------------------------------------------------ rows of tables --

SHARDED = """dfg 1
param table: f32[11, 3] = uniform(-1.0, 1.0)
var weights: f32[11, 3] = uniform(0.0, 1.0)
entry train[B](ids: i32[B], rate: f32) -> (loss: f32) {
  let x = table[ids]
  let s = weights[ids]
  let loss = mean(square(x) * s)
  table -= rate * grad(loss, table)
  return loss
}
readonly entry scores(v: f32[3]) -> f32[11] {
  let all = table @ v
  return all
}
"""
OVER_ROWS = """
job ps tasks {ps}
job worker tasks 2
shard "table" axis 0 over ps by modulo
shard "weights" axis 0 over ps by blocks
place "**" on worker
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 4
"""
IDS = np.array([3, 9, 0, 10, 3, 1, 7, 7], np.int32)


@pytest.mark.parametrize(("shards", "workers"), few([(2, 2), (1, 1), (2, 1), (3, 2)], 1))
def test_rows_of_divided_state_are_fetched_and_fed(shards, workers):
    data = cluster_bundle(SHARDED, OVER_ROWS.format(ps=shards))

    def values(module):
        x, loss = module.run(["train/x", "train/loss"], {"ids": IDS})
        fed = module.run("train/loss", {"train/x": x, "ids": IDS})
        found = [x, loss, fed, module.run("train/s", {"ids": IDS}), module.run("scores/all", {"v": X[0, :3]})]
        assert bits([loss]) == bits([module.train(IDS, 0.0).loss]) == bits([fed])
        return found

    found = on_cluster(data, shards + workers, values, jobs={"worker": workers})
    for got, expected in zip(found, values(undivided(SHARDED)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)  # the mean is added up in another order


ADAPTIVE = """dfg 1
from std.optim import AdaGrad
param table: f32[11, 3] = uniform(-1.0, 1.0)
var slopes = AdaGrad([table], rate = 0.3)
entry train[B](ids: i32[B]) -> (loss: f32) {
  let x = table[ids]
  let loss = mean(square(x))
  slopes.step(loss)
  return loss
}
"""


def test_a_part_gives_a_table_and_its_slots_whole():
    places = '\njob ps tasks 2\njob worker tasks 1\nshard "table" axis 0 over ps\nplace "**" on worker\n'

    def work(module):
        module.train(IDS)
        slot = next(name for name in module.state if name != "table")
        parts = [module.run(name) for name in ("train/x/read", "train/read")]
        return parts, [module.state["table"], module.state[slot]], module.run("train/x", {"ids": IDS})

    parts, state, x = on_cluster(cluster_bundle(ADAPTIVE, places), 3, work)
    assert [each.tobytes() for each in parts] == [each.tobytes() for each in state]
    assert np.array_equal(x, state[0][IDS])
    assert len({each.tobytes() for each in parts}) == 2


def test_what_is_colocated_with_a_divided_variable_can_be_fed():
    more = 'colocate "train/x" with "table"\ncolocate "train/s" with "weights"\n'
    data = cluster_bundle(SHARDED, OVER_ROWS.format(ps=2) + more)
    ones = np.ones((8, 3), np.float32)
    found = on_cluster(data, 4, lambda module: module.run("train/loss", {"train/x": ones, "train/s": 2 * ones}))
    assert found == 2.0


def test_a_program_on_many_ranks_is_not_extended():
    def refused(module):
        with pytest.raises(UnsupportedError, match="cannot be extended"):
            module.extend("fn f(x: f32) -> f32 = x")

    on_cluster(replicated(), 1, refused, jobs={"worker": 1})
