"""Parts of entries on many ranks: the values of one rank and of whole entries, on the state of the program; compiled
once, or ahead, and one message for each later call."""

from __future__ import annotations

import threading
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dfc
from dfc.partial import ClusterSpecialiser
from dfc_runtime import partial
from dfc_runtime.distributed.comm import CONTROL
from dfc_runtime.distributed.edges import Tags
from dfc_runtime.distributed.in_process import Faults, Network
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.parts import WAIT
from dfc_runtime.errors import BundleError, FeedError, RunError, UnsupportedError
from tests.support.bundles import roles_of, with_role
from tests.support.clusters import cluster_bundle, on_cluster, outcomes_of
from tests.support.ranks import run_on

PROGRAM = """dfg 1

param w: f32[4, 3] = uniform(-1.0, 1.0)
param v: f32[3, 2] = uniform(-1.0, 1.0)
var table: f32[10, 3] = uniform(0.0, 1.0)
var steps: i64 = 0

entry train[B](x: f32[B, 4], y: f32[B, 2], rate: f32) -> (loss: f32, p: f32[B, 2]) {
  let h = tanh(x @ w)
  let p = h @ v
  let loss = mean(square(p - y))
  let centre = mean(h, axis = 0)
  let most = max(h)
  let gv = grad(loss, v)
  let gw = grad(loss, w)
  w := w - rate * gw
  v := v - rate * gv
  steps := steps + 1
  let count = steps
  return loss, p
}

entry checked(n: i64) -> f32 {
  let k = n + steps
  assert k > 0, "k has to be positive"
  let rows = table[k]
  return sum(rows)
}

entry several(x: f32[3]) -> f32[3] {
  let k, a = loop k: i32 = 0, a = x while k < 3 {
    let twice = a * 2.0
    a = twice + v[:, 0]
    k = k + 1
  }
  steps := steps + 5
  return a + table[0]
}
"""
REPLICATED = """
job worker tasks 2
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 8
"""
PLACED = """
job ps tasks 2
job worker tasks 1
place "w" on worker
place "v" on ps task 1
place "steps" on ps task 1
place "table" on ps task 0
"""
RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(24, 4)).astype(np.float32)
Y = RANDOM.normal(size=(24, 2)).astype(np.float32)
TRAIN = {"x": X, "y": Y}
NAMES = ["train/h", "train/p", "train/loss", "train/centre", "train/most", "train/gv", "train/gw"]


def placed(more=""):
    return cluster_bundle(PROGRAM, PLACED + more)


def replicated(more=""):
    return cluster_bundle(PROGRAM, REPLICATED + more)


def alone():
    return dfc.loads(dfc.compile(text=PROGRAM).to_bytes(), threads=1)


def bits(values):
    return [(np.asarray(each).dtype.str, np.asarray(each).shape, np.asarray(each).tobytes()) for each in values]


# ------------------------------------------------------------------ values --


@pytest.mark.parametrize("seed", range(2))
def test_a_value_is_that_of_one_rank_wherever_it_is_computed(seed):
    def values(module):
        found = [module.run(name, TRAIN) for name in NAMES]
        found += module.run(NAMES, TRAIN)
        found += module.run(["train/loss", "train/gv"], {"train/h": np.tanh(X[:, :3]), "y": Y})
        found += [module.run("several/a", {"x": X[0, :3]}), module.run("checked/rows", {"checked/k": 7})]
        return bits(found)

    faults = Faults(seed, delay=3 * (seed % 2))
    assert on_cluster(placed(), 3, values, faults=faults, eager=32 * (seed // 2)) == values(alone())


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
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

    assert on_cluster(placed(), 3, values) == values(alone()), asked


def test_one_name_gives_one_value_and_a_list_values_by_name():
    def work(module):
        one = module.run("train/loss", TRAIN)
        several = module.run(["train/loss"], TRAIN)
        return type(one), len(several), several._asdict().keys(), module.run(["train/p", "train/p"], TRAIN)

    kind, count, names, (first, second) = on_cluster(placed(), 3, work)
    assert (kind, count, list(names)) == (np.float32, 1, ["train/loss"])
    np.testing.assert_array_equal(first, second)


# ------------------------------------------------------------------- state --


@pytest.mark.parametrize(("deployment", "ranks"), [(REPLICATED, 2), (PLACED, 3)])
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


@pytest.mark.parametrize(("shards", "workers"), [(1, 1), (2, 1), (2, 2), (3, 2)])
def test_rows_of_divided_state_are_fetched_and_fed(shards, workers):
    data = cluster_bundle(SHARDED, OVER_ROWS.format(ps=shards))

    def values(module):
        x, loss = module.run(["train/x", "train/loss"], {"ids": IDS})
        fed = module.run("train/loss", {"train/x": x, "ids": IDS})
        found = [x, loss, fed, module.run("train/s", {"ids": IDS}), module.run("scores/all", {"v": X[0, :3]})]
        assert bits([loss]) == bits([module.train(IDS, 0.0).loss]) == bits([fed])
        return found

    found = on_cluster(data, shards + workers, values, jobs={"worker": workers})
    for got, expected in zip(found, values(dfc.loads(dfc.compile(text=SHARDED).to_bytes())), strict=True):
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


@pytest.mark.parametrize("name", ["train/x/read", "train/read"])
def test_a_part_that_would_bring_a_table_or_its_slots_to_one_place_is_refused(name):
    places = '\njob ps tasks 2\njob worker tasks 1\nshard "table" axis 0 over ps\nplace "**" on worker\n'

    def work(module):
        with pytest.raises(dfc.CompileError) as caught:
            module.run(name)
        return [each.code for each in caught.value.diagnostics], module.run("train/x", {"ids": IDS}).shape

    assert on_cluster(cluster_bundle(ADAPTIVE, places), 3, work) == (["E0832"], (8, 3))


def test_what_is_colocated_with_a_divided_variable_can_be_fed():
    more = 'colocate "train/x" with "table"\ncolocate "train/s" with "weights"\n'
    data = cluster_bundle(SHARDED, OVER_ROWS.format(ps=2) + more)
    ones = np.ones((8, 3), np.float32)
    found = on_cluster(data, 4, lambda module: module.run("train/loss", {"train/x": ones, "train/s": 2 * ones}))
    assert found == 2.0


# ------------------------------------------------------------------ compiled --


def test_a_signature_is_compiled_once_and_later_calls_are_one_message(monkeypatch):
    made = []
    original = ClusterSpecialiser.specialise

    def counted(self, fetches, feeds):
        made.append((*fetches, *feeds))
        return original(self, fetches, feeds)

    monkeypatch.setattr(ClusterSpecialiser, "specialise", counted)
    network = Network(3)

    def work(comm):
        module = load_on(replicated(), comm, jobs={"worker": 3}, threads=1)
        if comm.rank:
            return module.serve()
        try:
            for _ in range(3):
                module.run("train/loss", TRAIN)
            before = dict(network.sent)
            for _ in range(5):
                module.run("train/loss", dict(reversed(TRAIN.items())))
            return [network.sent[0, rank, CONTROL] - before[0, rank, CONTROL] for rank in (1, 2)]
        finally:
            module.close()

    assert run_on(network, work)[0] == [5, 5]
    assert made == [("train/loss", "x", "y")]


def test_ranks_that_call_along_get_the_same_values():
    def work(module):
        return bits([*module.run(["train/loss", "train/p"], TRAIN), module.run("train/loss", TRAIN)])

    found = []

    def along(module):
        fed = {"y": None, "x": None}
        found.append(bits([*module.run(["train/loss", "train/p"], fed), module.run("train/loss", fed)]))

    expected = on_cluster(replicated(), 3, work, along, jobs={"worker": 3})
    assert found == [expected, expected]


def test_ranks_that_call_along_wait_for_the_compiler_however_long_it_takes(monkeypatch):
    original, asked = ClusterSpecialiser.specialise, threading.Semaphore(0)

    def slow(self, fetches, feeds):
        for _ in range(6):  # a quarter of the longest wait each
            asked.acquire()
        return original(self, fetches, feeds)

    monkeypatch.setattr(ClusterSpecialiser, "specialise", slow)
    found = []

    def work(module):
        command = module._rank.commands[WAIT]

        def noted(data, arrays):
            asked.release()
            return command(data, arrays)

        module.add_command(WAIT, noted)
        return bits([module.run("train/loss", TRAIN)])

    def along(module):
        found.append(bits([module.run("train/loss", TRAIN)]))

    expected = on_cluster(replicated(), 2, work, along, seconds=2)
    assert found == [expected]


def test_ranks_that_run_something_else_are_told():
    def work(module):
        module.run("train/loss", TRAIN)

    def along(module):
        module.run("train/p", TRAIN)

    outcomes = outcomes_of(replicated(), 2, work, along)
    words = 'rank 0 calls run\\("train/loss", .*\\), but rank 1 .* calls run\\("train/p"'
    for outcome in outcomes:
        with pytest.raises(FeedError, match=words):
            raise outcome


@pytest.mark.parametrize(
    ("fetch", "feed", "words"),
    [
        ("train/los", {}, "`train` has no value `train/los`; did you mean train/loss"),
        ("train/loss", {"x": X}, "`train/loss` needs the feed y: f32"),
        ("several/twice", {}, "`several/twice` is inside a loop, .* fetch `several/k` instead"),
        ("train/loss", {"x": X[:12], "y": Y[:12]}, "is cut into 8 blocks along B, which is 12: no multiple of it"),
        ("train/loss", {"x": X, "y": Y[:8]}, "B"),
        ("train/loss", {"x": X.astype(np.float64), "y": Y}, "astype"),
        ([], {}, "fetch wants the full name"),
    ],
)
def test_mistakes_are_told_and_nothing_is_lost(fetch, feed, words):
    def work(module):
        with pytest.raises(FeedError, match=words):
            module.run(fetch, feed)
        return float(module.run("train/loss", TRAIN)) == float(module.train(X, Y, rate=0.0).loss)

    assert on_cluster(replicated(), 2, work)


def test_without_the_compiler_it_says_so(monkeypatch):
    monkeypatch.setattr(partial, "COMPILER", "dfc.no_such_module")

    def work(module):
        with pytest.raises(UnsupportedError, match="the compiler is not installed"):
            module.run("train/loss", TRAIN)
        return float(module.train(X, Y, rate=0.0).loss) > 0

    assert on_cluster(replicated(), 2, work)


def test_a_value_of_a_size_that_only_the_run_finds_out_is_fetched():
    program = """dfg 1
    var w: f32[3] = 1.0
    entry some(x: f32[8]) -> f32 {
      let found = x[x > 0.0]
      return sum(found) * w[0]
    }
    """
    x = X.reshape(-1)[:8]
    found = on_cluster(
        cluster_bundle(program, "\njob ps tasks 2\n"), 2, lambda module: module.run("some/found", {"x": x})
    )
    np.testing.assert_array_equal(found, x[x > 0])


def test_a_part_that_fails_leaves_no_message_for_a_later_call():
    def work(module):
        found = []
        for number in (-20, 1, -20, 2):
            try:
                found.append(module.run("checked/rows", {"n": number}).tolist())
            except RunError as problem:
                found.append(problem.code)
            found.append(float(module.run("train/loss", TRAIN)))
            found.append(float(module.train(X, Y, rate=0.25).loss))
            found.append(module.run("several/a", {"x": X[0, :3]}).tolist())
        return found

    assert on_cluster(placed(), 3, work) == work(alone())


# -------------------------------------------------------------------- ahead --

STEPS = """
step "train/loss", "train/p" from "train/h", "y"
step "train/count"
step "several/k" from "x"
"""


@pytest.mark.parametrize(("deployment", "ranks"), [(REPLICATED, 1), (REPLICATED, 2), (REPLICATED, 3), (PLACED, 3)])
def test_steps_need_no_compiler(deployment, ranks, monkeypatch):
    h = np.tanh(X[:, :3])

    def values(module):
        found = [*module.run(["train/loss", "train/p"], {"train/h": h, "y": Y})]
        found += module.run(["train/p", "train/loss"], {"h": h, "train/y": Y})
        found += [module.run("train/count"), module.run(["train/count"])[0], module.run("several/k", {"x": X[0, :3]})]
        return bits(found)

    jobs = {"worker": ranks} if deployment is REPLICATED else None
    compiled = on_cluster(cluster_bundle(PROGRAM, deployment), ranks, values, jobs=jobs)
    monkeypatch.setattr(partial, "COMPILER", "dfc.no_such_module")
    assert on_cluster(cluster_bundle(PROGRAM, deployment + STEPS), ranks, values, jobs=jobs) == compiled


def test_one_task_has_steps_too(monkeypatch):
    data = cluster_bundle(PROGRAM, f"\njob worker tasks 1\n{STEPS}")
    monkeypatch.setattr(partial, "COMPILER", "dfc.no_such_module")

    def work(module):
        values = module.run(["train/loss", "train/p"], {"train/h": np.tanh(X[:, :3]), "y": Y})
        return int(module.run("train/count")), bits(values)

    h = np.tanh(X[:, :3])
    count, values = on_cluster(data, 1, work)
    monkeypatch.undo()
    assert (count, values) == (1, bits(alone().run(["train/loss", "train/p"], {"train/h": h, "y": Y})))


def test_tasks_that_do_nothing_in_an_entry_take_part_in_a_part():
    program = """dfg 1
    var a: f32[2] = 1.0
    entry f(x: f32[256, 256]) -> f32 {
      let p = x @ x
      let q = transpose(x) @ x
      let r = x @ transpose(x)
      let last = a[1]
      return last
    }
    """
    data = cluster_bundle(program, '\njob ps tasks 4\nplace "a" on ps task 1\n')
    x = RANDOM.normal(size=(256, 256)).astype(np.float32)

    def work(module):
        values = module.run(["f/p", "f/q", "f/r", "f/last"], {"x": x})
        whole, part = module._rank.plan(0), module._rank.plan(len(module._rank.plans))
        return set(part.parts) - set(whole.parts), values

    helped, values = on_cluster(data, 4, work)
    assert helped, "the three products are too much for one task"
    for got, expected in zip(values, [x @ x, x.T @ x, x @ x.T, 1.0], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-3)  # sums of 256 products in another order


def test_a_part_that_is_none_is_refused():
    steps = 'step "train/count"\n'
    data = replicated(steps)
    role = next(iter(roles_of(data).values()))
    for wrong in (role, replicated(), b"no bundle", placed(steps)):

        def work(module):
            with pytest.raises((BundleError, UnsupportedError)):
                module.run("train/count")
            return int(module.state["steps"])

        assert on_cluster(with_role(data, "part/0", wrong), 2, work) == 0


def test_a_bundle_without_its_texts_has_the_parts_that_are_in_it(monkeypatch):
    data = with_role(replicated('step "train/count"\n'), "source", b"")

    def work(module):
        with pytest.raises(UnsupportedError, match="does not carry its source"):
            module.run("train/loss", TRAIN)
        return int(module.run("train/count"))

    assert on_cluster(data, 2, work) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=30), st.integers(0, 5))
def test_tags_of_a_failed_call_never_come_again(programs, first):
    """Each call is of a program with so many edges, of which the one of that number, or none, has failed."""
    tags, generation, lost = Tags(first), 0, set()
    for edges, failed in programs:
        if tags.lacks(edges):
            generation += 1
        tags.make_room(edges)
        used = {tags.tag(generation, number) for number in range(edges)}
        assert not used & lost
        assert not {each + 1 for each in used} & lost
        if failed < edges:
            lost |= {each + half for each in used for half in (0, 1)}
            generation += 1


def test_only_what_a_step_computes_is_taken_from_it(monkeypatch):
    monkeypatch.setattr(partial, "COMPILER", "dfc.no_such_module")

    def work(module):
        for fetch in ("train/loss", ["train/loss", "train/p", "train/most"]):
            with pytest.raises(UnsupportedError, match="the compiler is not installed"):
                module.run(fetch, {"train/h": X[:, :3], "y": Y})
        with pytest.raises(UnsupportedError, match="the compiler is not installed"):
            module.run(["train/loss", "train/p"], TRAIN)
        return int(module.run("train/count"))

    assert on_cluster(replicated(STEPS), 2, work) == 1
