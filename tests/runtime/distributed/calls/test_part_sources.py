"""How parts of entries are called on many ranks: compiled once, or ahead, then one message a call; what is told."""

from __future__ import annotations

import threading
from random import Random

import numpy as np
import pytest

from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.driver.loaded.partial import ClusterSpecialiser
from dfc.ir.options import CompileOptions
from dfc_runtime.calls.compiling import partial
from dfc_runtime.distributed.calls.edges import Tags
from dfc_runtime.distributed.calls.parts import WAIT
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.comm import CONTROL
from dfc_runtime.distributed.transport.in_process import Network
from dfc_runtime.errors import BundleError, FeedError, RunError, UnsupportedError
from dfc_runtime.observe.kernel_times import TICK, Meter
from tests.support.bundles import roles_of, with_role
from tests.support.cluster_parts import (
    PARTITIONED,
    PROGRAM,
    RANDOM,
    REPLICATED,
    TRAIN,
    X,
    Y,
    alone,
    bits,
    partitioned,
    replicated,
)
from tests.support.clusters import cluster_bundle, on_cluster, outcomes_of
from tests.support.ranks import run_on
from tests.support.sweeping import few

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


MISTAKES = [
    ("train/los", {}, "`train` has no value `train/los`; did you mean train/loss"),
    ("train/loss", {"x": X}, "`train/loss` needs the feed y: f32"),
    ("several/twice", {}, "`several/twice` is inside a loop, .* fetch `several/k` instead"),
    ("train/loss", {"x": X[:12], "y": Y[:12]}, "is cut into 8 blocks along B, which is 12: no multiple of it"),
    ("train/loss", {"x": X, "y": Y[:8]}, "B"),
    ("train/loss", {"x": X.astype(np.float64), "y": Y}, "astype"),
    ([], {}, "fetch wants the full name"),
]


def test_mistakes_are_told_and_nothing_is_lost():
    def work(module):
        for fetch, feed, words in MISTAKES:
            with pytest.raises(FeedError, match=words):
                module.run(fetch, feed)
            assert float(module.run("train/loss", TRAIN)) == float(module.train(X, Y, rate=0.0).loss), words

    on_cluster(replicated(), 2, work)


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

    assert on_cluster(partitioned(), 3, work) == work(alone())


# -------------------------------------------------------------------- ahead --

STEPS = """
step "train/loss", "train/p" from "train/h", "y"
step "train/count"
step "several/k" from "x"
"""


@pytest.mark.parametrize(
    ("deployment", "ranks"), few([(REPLICATED, 2), (REPLICATED, 1), (PARTITIONED, 3), (REPLICATED, 3)], 2)
)
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
    data = replicated(STEPS)
    role = next(iter(roles_of(data).values()))
    # when it is loaded, or at the latest when it runs
    for wrong in (role, replicated(), b"no bundle", partitioned()):
        with pytest.raises((BundleError, UnsupportedError)):
            on_cluster(with_role(data, "part/1", wrong), 2, lambda module: module.run("train/count"))


def test_a_bundle_without_its_texts_has_the_parts_that_are_in_it(monkeypatch):
    data = with_role(replicated(STEPS), "source", b"")

    def work(module):
        with pytest.raises(UnsupportedError, match="does not carry its source"):
            module.run("train/loss", TRAIN)
        return int(module.run("train/count"))

    assert on_cluster(data, 2, work) == 1


@pytest.mark.parametrize("seed", range(20))
def test_tags_of_a_failed_call_never_come_again(seed):
    """Calls are of programs with some edges; in some of them messages are lost, of any of these."""
    random = Random(seed)
    tags, generation, lost = Tags(random.randrange(6)), 0, set()
    for _ in range(30):
        edges = random.randrange(12)
        tags.make_room(edges)
        used = {tags.tag(generation, number) + half for number in range(edges) for half in (0, 1)}
        assert not used & lost, f"seed {seed}"
        if random.random() < 0.4:
            lost |= used
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


# --------------------------------------------------------- as it was compiled --


def compiled(options):
    deploy = SourceFile("model.deploy", f'deploy 1 for "model.dfg"\n{REPLICATED}')
    return compile_source(SourceFile("model.dfg", PROGRAM), options, deploy).to_bytes()


@pytest.mark.parametrize("timed", [False, True])
def test_parts_have_the_clocks_of_their_program(timed):
    data, measured = compiled(CompileOptions(timed=True)) if timed else replicated(), []

    def run(comm):
        meter = Meter()
        module = load_on(data, comm, seconds=20, threads=1, handlers={TICK: meter.tick})
        try:
            return module.serve() if comm.rank else module.run("train/loss", TRAIN)
        finally:
            module.close()
            measured.append("train" in {site.entry for site, _, _ in meter.kernels()})

    run_on(Network(2), run)
    assert measured == [timed, timed]


def test_parts_have_the_checks_of_their_program():
    infinite = {"train/p": np.full((24, 2), np.inf, np.float32), "y": Y}

    def work(module):
        with pytest.raises(RunError) as caught:
            module.run("train/loss", infinite)
        return caught.value.code

    assert on_cluster(compiled(CompileOptions(check_finite=True)), 2, work) == "E0910"
    assert not np.isfinite(on_cluster(replicated(), 2, lambda m: m.run("train/loss", infinite)))
