"""Programs whose state lies in different tasks: the results of one rank, errors told everywhere, ranks that go on."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest

import dfc
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.in_process import Faults, Network
from dfc_runtime.errors import FeedError, RankCountError, RankError, RunError, UnsupportedError
from tests.support.clusters import cluster_bundle, on_cluster, outcomes_of, undivided
from tests.support.ranks import run_on

PROGRAM = """dfg 1

param w: f32[4, 5] = uniform(-1.0, 1.0)
param v: f32[5, 2] = uniform(-1.0, 1.0)
var table: f32[10, 3] = zeros(f32[10, 3])

entry train[B](x: f32[B, 4], y: f32[B, 2]) -> (loss: f32) {
  let h = tanh(x @ w)
  let loss = mean(square(h @ v - y))
  let gw = grad(loss, w)
  let gv = grad(loss, v)
  w := w - 0.1 * gw
  v := v - 0.1 * gv
  return loss
}

entry rows[K](ids: i64[K]) -> f32[K, 3] {
  return table[ids]
}

entry positive(x: f32[3]) -> f32 {
  assert all(x > 0.0), "x has to be positive"
  let m = sum(x) * sum(w)
  return m
}
"""
DEPLOYMENT = """
job ps tasks 1
job worker tasks 2
place "w" on worker task 0
place "v" on worker task 1
place "table" on ps
"""
RANDOM = np.random.default_rng(1)
X = RANDOM.normal(size=(6, 4)).astype(np.float32)
Y = RANDOM.normal(size=(6, 2)).astype(np.float32)


def bundle(more=""):
    return cluster_bundle(PROGRAM, DEPLOYMENT + more)


def trained(module):
    losses = np.array([module.train(X, Y).loss for _ in range(4)])
    return losses.tobytes(), module.state["w"].tobytes(), module.state["v"].tobytes()


def alone():
    return trained(undivided(PROGRAM))


@pytest.mark.parametrize("seed", range(4))
def test_a_program_cut_in_parts_computes_what_it_does_alone(seed):
    faults = Faults(seed, delay=3 * (seed % 2))
    assert on_cluster(bundle(), 3, trained, faults=faults, eager=32 * (seed // 2)) == alone()


def test_state_lies_where_it_was_placed():
    def work(module):
        module.state["table"] = np.arange(30, dtype=np.float32).reshape(10, 3)
        found = module.rows(np.array([3, 0, 9]))
        return [list(module.state.owners(name)) for name in ("w", "v", "table")], found.tolist()

    places, found = on_cluster(bundle(), 3, work)
    assert places == [[1], [2], [0]]
    assert found == [[9, 10, 11], [0, 1, 2], [27, 28, 29]]


def test_a_failure_is_raised_with_its_line_and_its_rank_and_the_program_goes_on():
    def work(module):
        with pytest.raises(RunError) as caught:
            module.positive(np.float32([1, -1, 1]))
        assert caught.value.code == "E0903"
        assert "x has to be positive" in str(caught.value)
        assert "  on rank " in str(caught.value)
        assert caught.value.line == 22
        with pytest.raises(RunError, match="index 10 is out of range for axis of size 10") as caught:
            module.rows(np.array([1, 10]))
        assert caught.value.code == "E0904"
        return trained(module)

    assert on_cluster(bundle(), 3, work) == alone()


def test_ranks_that_call_along_get_the_same_error():
    bad = np.float32([1, -1, 1])
    seen = []

    def call(module):
        with pytest.raises(RunError, match="x has to be positive") as caught:
            module.positive(bad)
        seen.append(str(caught.value))
        with pytest.raises(FeedError, match="misses the feed y"):
            module.train(X)
        return trained(module)

    def along(module):
        assert call(module) == alone()

    assert on_cluster(bundle(), 3, call, along) == alone()
    assert len(seen) == 3
    assert len(set(seen)) == 1


def test_ranks_that_call_something_else_are_told_so_everywhere():
    def work(module):
        return module.train(X, Y)

    def along(module):
        return module.rows(None) if module.rank == 2 else module.train()

    outcomes = outcomes_of(bundle(), 3, work, along)
    assert all(isinstance(each, FeedError) for each in outcomes)
    (text,) = {str(each) for each in outcomes}
    assert text.startswith("[E0901] rank 0 calls `train`, but rank 2 (worker task 1) calls `rows`: all ranks call")


HALF = """dfg 1

var a: f32 = 0.0
var b: f32 = 0.0

entry step(x: f32) -> f32 {
  a := a + x
  assert x < 10.0, "too much"
  b := b + x
  return b
}

entry look() -> f32 {
  return a - b
}
"""
TWO = """
job ps tasks 1
job worker tasks 1
place "a" on ps
place "b" on worker
"""


def test_state_that_may_be_half_changed_is_not_used_before_it_is_set_again():
    def work(module):
        assert module.step(1.0) == 1.0
        with pytest.raises(RunError, match="too much"):
            module.step(11.0)
        with pytest.raises(RunError, match="`step` was stopped, and may have changed a part") as caught:
            module.look()
        assert "init or restore" in str(caught.value)
        module.init()
        return float(module.look()), float(module.step(2.0)), float(module.look())

    assert on_cluster(cluster_bundle(HALF, TWO), 2, work) == (0.0, 2.0, 0.0)


def test_a_wrong_number_of_ranks_is_told_by_rank_0_alone():
    first, second = outcomes_of(bundle(), 2, trained)
    assert isinstance(first, RankCountError)
    assert first.exit_code == 2
    assert "model is for ps 1 + worker 2 = 3 ranks, but there are 2" in str(first)
    assert isinstance(second, SystemExit)
    assert second.code == 0


def test_load_wants_a_communicator_for_programs_on_many_ranks(tmp_path):
    path = tmp_path / "model.bundle"
    path.write_bytes(bundle())
    with pytest.raises(RankCountError, match=r"model is for many ranks \(ps 1, worker 2\).*comm=") as caught:
        dfc.load(path)
    assert caught.value.exit_code == 2
    with pytest.raises(RankCountError, match="many ranks"):
        dfc.loads(bundle())
    plain = tmp_path / "plain.bundle"
    plain.write_bytes(dfc.compile(text=PROGRAM).to_bytes())
    module = dfc.load(plain, comm=Network(1).comm(0), threads=1)
    assert trained(module) == alone()
    with pytest.raises(RankCountError, match="compiled for one rank, but there are 2"):
        dfc.load(plain, comm=Network(2).comm(0))
    assert [outcome[0] for outcome in on_path(path)] == [alone()[0]] * 3


def on_path(path):
    def work(comm):
        module = dfc.load(path, comm=comm, deadline=20, threads=1)
        try:
            return trained(module)
        finally:
            module.close()

    return run_on(Network(3), work)


def test_what_jobs_may_be():
    for jobs, message in [
        ({"worker": 3}, "the job `worker` has 2 tasks: something is placed on a task of it or divided"),
        ({"worker": 3}, "write `job worker tasks 3` in the deployment file"),
        ({"nobody": 3}, "there is no job `nobody`; there are ps, worker"),
        ({"ps": 0}, "needs at least one task"),
    ]:
        (first, *_) = outcomes_of(bundle(), 3, trained, jobs=jobs)
        assert isinstance(first, RankCountError)
        assert message in str(first)


def test_what_is_no_communicator_and_no_number_of_tasks_is_told():
    data = bundle()
    with pytest.raises(FeedError, match=r"comm is a communicator of mpi4py, such as MPI.COMM_WORLD, not .* type int"):
        load_on(data, 3)
    with pytest.raises(FeedError, match=r"jobs says how many tasks each job has, .* not a value of type str"):
        load_on(data, Network(1).comm(0), jobs="worker=1")


def test_a_lost_message_ends_in_a_report_on_every_rank():
    lost = Faults(lost=lambda route, number: route[2] >= 16 and number == 2)
    outcomes = outcomes_of(bundle(), 3, trained, seconds=0.5, faults=lost)
    assert all(isinstance(each, RankError) for each in outcomes)
    text = str(outcomes[0])
    assert "has waited 0.5 s for `" in text
    assert "(model.dfg:" in text
    for name in ("rank 0 (ps task 0)", "rank 1 (worker task 0)", "rank 2 (worker task 1)"):
        assert f"{name}: " in text
    assert "it runs `train`, and has waited" in text
    assert {each.exit_code for each in outcomes} == {75}


def test_a_cut_link_ends_in_an_error_on_both_sides():
    outcomes = outcomes_of(bundle(), 3, trained, seconds=0.5, faults=Faults(severed={frozenset({1, 2})}))
    assert all(isinstance(each, RankError) for each in outcomes)


LOOPS = """dfg 1

param w: f32[4] = uniform(0.0, 1.0)
param v: f32[4] = uniform(0.0, 1.0)

entry turns(most: i64) -> (s: f32, k: i64) {
  let s, k = loop s = 0.0, k = 0 while k < most and s < 100.0 {
    s = s * 1.5 + sum(w)
    s = s + sum(v) * 0.5
    k = k + 1
  }
  w := w * s
  return s, k
}

entry either(up: bool) -> f32 {
  let x = if up {
    yield sum(w)
  } else {
    yield sum(v) * 2.0
  }
  return x
}
"""


def test_loops_and_branches_that_span_ranks_end_everywhere():
    deployment = """
job a tasks 1
job b tasks 2
place "w" on b task 0
place "v" on b task 1
"""

    def work(module):
        turns = [module.turns(most) for most in (0, 1, 5, 1000)]
        values = [float(each.s) for each in turns], [int(each.k) for each in turns]
        return values, float(module.either(True)), float(module.either(False)), module.state["w"].tobytes()

    expected = work(undivided(LOOPS))
    assert on_cluster(cluster_bundle(LOOPS, deployment), 3, work) == expected


@pytest.mark.parametrize("size", [2, 300_000])
def test_compressed_edges_lose_the_lower_half_of_numbers_and_nothing_else(size):
    text = f"""dfg 1

var a: f32[{size}] = zeros(f32[{size}])
var b: f32[{size}] = zeros(f32[{size}])
var c: i32[2] = zeros(i32[2])
var d: i32[2] = zeros(i32[2])

entry move() {{
  b := a
  d := c
}}
"""
    deployment = """
job ps tasks 1
job worker tasks 1
place "a" on ps
place "c" on ps
place "b" on worker
place "d" on worker
"""
    given = RANDOM.normal(size=size).astype(np.float32)
    given[:2] = np.array([0x7F800001, 0xFF80FFFF], np.uint32).view(np.float32)

    def work(module):
        module.state["a"] = given
        module.state["c"] = np.int32([2**31 - 1, -5])
        module.move()
        return module.state["b"], module.state["d"]

    plain, numbers = on_cluster(cluster_bundle(text, deployment), 2, work)
    assert plain.tobytes() == given.tobytes()
    short, numbers = on_cluster(
        cluster_bundle(text, deployment + 'compress ps to worker with format = "bf16"\n'), 2, work
    )
    assert list(numbers) == [2**31 - 1, -5]
    assert (short[2:].view(np.uint32) == given[2:].view(np.uint32) & 0xFFFF0000).all()
    assert np.isnan(short[:2]).all()
    assert list(np.signbit(short[:2])) == [False, True]


@pytest.mark.parametrize("seed", range(8))
def test_whatever_message_is_lost_ranks_end_with_the_right_bits_or_an_error(seed):
    def lost(route, number):
        return crc32(repr((seed, route, number)).encode()) % 60 == 0

    outcomes = outcomes_of(bundle(), 3, trained, seconds=0.3, faults=Faults(seed, delay=2, lost=lost), eager=4096)
    assert isinstance(outcomes[0], RankError) or outcomes[0] == alone()
    if isinstance(outcomes[0], RankError):
        assert "has waited 0.3 s for" in str(outcomes[0])
    assert all(each is None or isinstance(each, RankError) for each in outcomes[1:])


def test_a_program_that_is_closed_says_so_at_once():
    def work(module):
        module.close()
        with pytest.raises(RunError, match="cannot run: the module was closed"):
            getattr(module, next(iter(module.entries)))()

    on_cluster(bundle(), 3, work)


def test_who_waits_for_others_to_call_too_says_what_it_calls():
    first, *_ = outcomes_of(bundle(), 3, trained, follow=lambda module: None, seconds=0.5)
    assert isinstance(first, RankError)
    assert "rank 0 (ps task 0): it calls `train`, and has waited" in str(first)


def test_a_wrong_number_of_ranks_is_answered_with_a_number_of_tasks_that_fits():
    two_jobs = """
    job ps tasks 1
    job worker tasks 2
    place "**" on worker
    place "n" on ps
    """
    program = "dfg 1\nvar n: i32 = 0\nvar m: i32 = 0\nentry count() { n += 1\n m += n }\n"
    data = cluster_bundle(program, two_jobs)
    with pytest.raises(RankCountError, match=r"or say how many tasks a job has: --job worker=1$"):
        on_cluster(data, 2, lambda module: None)

    with pytest.raises(RankCountError, match=r"has: --job worker=3$"):  # there is no program for a second `ps`
        load_on(data, Network(4).comm(0))
    assert on_cluster(data, 2, lambda module: module.count(), jobs={"worker": 1}) is None


def test_calls_are_made_one_after_the_other_and_none_is_started():
    def work(module):
        with pytest.raises(UnsupportedError, match=r"`train.start\(..\)` is for programs on one rank") as caught:
            module.train.start(X, Y)
        with pytest.raises(UnsupportedError):
            module.entries["rows"].start([1])
        return caught.value.code, module.rank

    assert outcomes_of(bundle(), 3, work, work) == [("E1001", rank) for rank in range(3)]
