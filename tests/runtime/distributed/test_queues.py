"""Queues and runners on one of several tasks: the stream of one rank, wherever entries put, take and train."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc_runtime.checkpoints import store
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.comm import Comm
from dfc_runtime.distributed.transport.in_process import Network
from dfc_runtime.errors import RankError, RunError
from tests.support.clusters import cluster_bundle, on_cluster, undivided
from tests.support.ranks import outcomes_on

PROGRAM = """dfg 1

queue numbers: i64 = fifo(capacity = 8)
queue pool: i64 = shuffle_queue(capacity = 8, ready = 3, seed = 5)
queue pairs: (a: f32[2], b: i64) = staging(depth = 2)
queue answers: f32[2] = fifo(capacity = 4)
var n: i64 = 0
param w: f32[2] = 1
var tries: i64 = 0
var seen: i64 = 0

runner count with copies = 2 {
  n += 1
  pool.put(n * 1)
  if n == 9 { pool.close() }
}

runner pair with copies = 2 {
  let two = pool.take(2)
  pairs.put(two as f32, sum(two))
}

entry step(rate: f32) -> (loss: f32, b: i64) {
  tries += 1
  let a, b = pairs.take()
  let loss = sum(a * w)
  w -= rate * grad(loss, w)
  return loss, b
}

entry pass_over() -> i64 {
  tries += 1
  let a, b = pairs.take()
  seen += 1
  return seen
}

entry answer(x: f32) { answers.put(w * x) }

entry answered() -> f32[2] {
  let y = answers.take()
  return y + w
}

entry drain() -> f32 {
  let k, s = loop k = 0, s = 0.0 while k < 2 {
    let y = answers.take()
    s = s + sum(y * w)
    k = k + 1
  }
  return s
}

entry finish() { answers.close() }

entry rest() -> (s: f32, takes: i64) {
  let k, s, takes = loop k: i64 = 1, s = 0.0, takes: i64 = 0 while k > 0 {
    let [K] y: f32[K, 2] = answers.take_up_to(2, least = 0)
    s = s + sum(y * w)
    takes = takes + 1
    k = K
  }
  seen += takes
  return s, takes
}

entry stuck() -> i64 { return numbers.take() }

entry unstuck(x: i64) { numbers.put(x) }
"""
DEPLOYMENT = """
job reader tasks 1
job worker tasks 2
place "**" on worker task 1
place "pairs" on reader
place "answers" on reader
place "numbers" on worker task 1
place "seen" on worker task 0
"""


def bundle() -> bytes:
    return cluster_bundle(PROGRAM, DEPLOYMENT)


def drained(model: dfc.Module) -> list[object]:
    """The stream to its end, and all state behind it; and the same stream anew."""
    found: list[object] = [int(model.pass_over())]
    with pytest.raises(dfc.EndOfData, match="the queue `pairs` is closed"):
        while True:
            found.append([np.asarray(each).tobytes() for each in model.step(0.01)])
    with pytest.raises(dfc.EndOfData):
        model.pass_over()
    found += [np.array(model.state[name]).tobytes() for name in ("w", "tries", "seen")]
    model.init()
    return [*found, [np.asarray(each).tobytes() for each in model.step(0.01)]]


def test_the_stream_and_what_is_learned_of_it_are_those_of_one_rank_to_the_end_and_anew() -> None:
    expected = drained(undivided(PROGRAM))
    assert len(expected) == 8
    assert on_cluster(bundle(), 3, drained) == expected


def test_what_others_compute_is_put_in_and_what_is_taken_goes_where_it_is_used() -> None:
    def work(model: dfc.Module) -> list[object]:
        for x in (1.0, 2.0, 3.0):
            model.answer(x)
        found: list[object] = [model.answered().tolist(), float(model.drain())]
        for x in (4.0, 5.0, 6.0):
            model.answer(x)
        model.finish()
        return [*found, *[[float(each) for each in model.rest()] for _ in range(2)], int(model.state["seen"])]

    assert work(undivided(PROGRAM)) == [[2.0, 2.0], 10.0, [30.0, 3], [0.0, 1], 4]
    assert on_cluster(bundle(), 3, work) == [[2.0, 2.0], 10.0, [30.0, 3], [0.0, 1], 4]


def test_a_wait_that_nobody_can_end_is_an_error_on_all_ranks_and_calls_go_on() -> None:
    def work(model: dfc.Module) -> int:
        with pytest.raises(RunError, match="`stuck` waits for an element in the queue `numbers`") as caught:
            model.stuck()
        assert "`unstuck` could help, but many ranks make one call after the other" in str(caught.value)
        assert "on rank 2 (worker task 1)" in str(caught.value)
        model.init()
        model.unstuck(4)
        return int(model.stuck())

    assert on_cluster(bundle(), 3, work) == 4


SLOW = """dfg 1

queue q: f32 = fifo(capacity = 4)
param w: f32 = 1

runner slow {
  debug.print("{}", 1.0)
  q.put(1.0)
}

entry step() -> f32 {
  let x = q.take()
  w := w * x
  return w
}
"""


def test_whoever_waits_in_vain_for_a_task_is_told_for_which_queue_that_one_waits() -> None:
    data = cluster_bundle(SLOW, 'job worker tasks 1\njob reader tasks 1\nplace "q" on reader\nplace "w" on worker\n')
    released = threading.Event()

    def run(comm: Comm) -> object:
        handlers = {"debug_print": lambda _: released.wait()}
        module = load_on(data, comm, seconds=0.5, threads=1, handlers=handlers)
        try:
            return module.step() if comm.rank == 0 else module.serve()
        finally:
            released.set()
            module.close()

    for outcome in outcomes_on(Network(2), run):
        assert isinstance(outcome, RankError)
        assert "rank 0 (worker task 0) has waited 0.5 s for `step/x:0` (model.dfg:12:11)" in str(outcome)
        assert "rank 1 (reader task 0): it runs `step`, and waits for an element in the queue `q`" in str(outcome)


BATCHES = """dfg 1

queue rows: (x: f32[8], y: f32) = shuffle_queue(capacity = 32, ready = 9, seed = 3)
queue batches: (x: f32[8, 8], y: f32[8], scale: f32) = staging(depth = 2)
var n: i64 = 0
param w: f32[8, 8] = uniform(-1.0, 1.0)
param v: f32[8] = 1
var seen: f32 = 0
var dice: rng = philox(seed = 4)

runner count with copies = 2 {
  n += 1
  let x = sin(iota(f32[8]) * 7 + n as f32)
  rows.put(x, sum(x))
  if n == 43 { rows.close() }
}

runner collect {
  let x, y = rows.take(8)
  batches.put(x, y, sum(y) * 0.01 + 1)
}

entry train(rate: f32) -> (loss: f32, predictions: f32[8]) {
  let x, y, scale = batches.take()
  let h = relu(x @ w + iota(f32[8]) * 0.1)
  let kept = dice.uniform(f32[8, 8])
  let normal = (h - mean(h, axis = 0)) * kept
  let predictions = normal @ v * scale
  let loss = mean(square(predictions - y)) + 0.01 * sum(square(w))
  each p in [w, v], g in grad(loss, [w, v]) { p -= rate * g }
  seen += sum(y)
  return loss, predictions + iota(f32[8])
}
"""
IN_BLOCKS = """
job worker tasks 2
replicate train over worker with mode = "sync", split = "batches", blocks = 4
"""


def trained(model: dfc.Module) -> list[np.ndarray]:
    """Results of all steps to the end of the data, and the state behind them."""
    found: list[np.ndarray] = []
    with pytest.raises(dfc.EndOfData):
        while True:
            found += [np.array(each) for each in model.train(0.01)]
    return [*found, *(np.array(model.state[name]) for name in ("w", "v", "seen"))]


def test_batches_of_a_queue_are_learned_in_blocks_with_the_same_bits_on_any_number_of_tasks() -> None:
    whole = trained(undivided(BATCHES))
    assert len(whole) == 2 * 5 + 3
    one, two, three = (
        on_cluster(cluster_bundle(BATCHES, IN_BLOCKS), tasks, trained, jobs={"worker": tasks}) for tasks in (1, 2, 3)
    )
    for each, expected in zip(two, whole, strict=True):
        np.testing.assert_allclose(each, expected, rtol=1e-4, atol=1e-5)
    assert [each.tobytes() for each in one] == [each.tobytes() for each in two] == [each.tobytes() for each in three]


def from_files(folder: Path) -> str:
    """The program whose rows come from a file: a checkpoint has positions of them, and batches in `batches`."""
    np.save(folder / "rows.npy", np.sin(np.arange(43 * 8, dtype=np.float32)).reshape(43, 8))
    text = BATCHES.replace("var n: i64 = 0\n", "")
    begin, end = text.index("runner count"), text.index("runner collect")
    body = "let row = files.next()\n  rows.put(row.x, sum(row.x))"
    reads = f'var files = array_files("{folder}/rows.npy", (x = f32[8]), shuffle = "records")\n'
    return f"{text[:begin]}{reads}runner count with copies = 2 {{\n  {body}\n}}\n\n{text[end:]}"


def test_a_checkpoint_goes_on_with_the_same_bits_on_any_number_of_ranks_and_on_one(tmp_path: Path) -> None:
    text = from_files(tmp_path)
    data = cluster_bundle(text, IN_BLOCKS)

    def saving(model: dfc.Module) -> list[bytes]:
        model.train(0.01)
        model.save(tmp_path / "at once")
        model.train(0.01)
        model.save_async(tmp_path / "aside").result()
        return [each.tobytes() for each in trained(model)]

    def going_on(model: dfc.Module) -> list[list[bytes]]:
        outcomes: list[list[bytes]] = []
        for folder in ("aside", "at once", "aside"):
            model.restore(tmp_path / folder)
            outcomes.append([each.tobytes() for each in trained(model)])
        model.save(tmp_path / "at the end")
        model.init()
        model.train(0.01)
        model.restore(tmp_path / "at the end")
        with pytest.raises(dfc.EndOfData):
            model.train(0.01)
        return outcomes

    rest = on_cluster(data, 2, saving, jobs={"worker": 2})
    assert len(rest) == 2 * 3 + 3
    assert "rows/@positions" in store.find(tmp_path / "at once").checkpoint.state
    for tasks in (1, 3):
        aside, at_once, again = on_cluster(data, tasks, going_on, jobs={"worker": tasks})
        assert aside == again == rest
        assert at_once[2:] == rest
    alone = undivided(text)
    alone.restore(tmp_path / "aside")
    for each, expected in zip(trained(alone), rest, strict=True):
        np.testing.assert_allclose(each.ravel(), np.frombuffer(expected, np.float32), rtol=1e-4, atol=1e-5)


GUARDED = """dfg 1

from std.accumulators import Accumulator

queue go: i64 = fifo(capacity = 4)
queue done: i64 = fifo(capacity = 4)
var guard: mutex = mutex()
var a: i64 = 0
var b: i64 = 0
param w: f32[3] = 1
var sums = Accumulator(w, 2)

runner work {
  let x = go.take()
  guard.acquire()
  a += x
  b += x
  guard.release()
  done.put(x)
}

entry add(x: i64) -> i64 {
  go.put(x)
  let k = done.take()
  return k
}

entry look(by: f32) -> (a: i64, b: i64, c: f32) {
  guard.acquire()
  let x = a
  let c = sum(w) * by
  let y = b
  w := w + c
  guard.release()
  return x, y, c
}

entry contribute(x: f32[3]) -> i64 {
  let value, stamp = sums.pull()
  sums.add(x * sum(value), stamp)
  return stamp
}

entry apply(rate: f32) { sums.apply(rate) }
"""
APART = """
job p tasks 1
job q tasks 1
job r tasks 1
place "go" on p
place "w" on q
place "sums.**" on r
"""


def test_mutexes_and_gradients_that_another_task_adds_up_do_what_they_do_on_one_rank() -> None:
    def work(model: dfc.Module) -> list[object]:
        found: list[object] = []
        for x in (1, 2):
            found += [int(model.add(x)), [float(each) for each in model.look(0.5)]]
        found += [int(model.contribute(np.float32([1, 2, 3]))) for _ in range(2)]
        model.apply(0.1)
        return [*found, int(model.contribute(np.float32([3, 2, 1]))), np.array(model.state["w"]).tobytes()]

    assert on_cluster(cluster_bundle(GUARDED, APART), 3, work) == work(undivided(GUARDED))
