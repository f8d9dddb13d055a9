"""Batches that are filled up to the blocks of a replicated entry: the numbers of their rows, on any number of ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.driver.loaded.partial import ClusterSpecialiser
from dfc.ir.options import CompileOptions
from dfc_runtime.errors import FeedError
from tests.support.clusters import cluster_bundle, on_cluster
from tests.support.sweeping import few

PROGRAM = """dfg 1

param w: f32[4, 3] = uniform(-1.0, 1.0)
param table: f32[7, 4] = uniform(-1.0, 1.0)
var steps: i64 = 0
var seen: f32[3] = 0.0
var dice: rng = philox(seed = 5)

entry train[B](x: f32[B, 4], ids: i32[B], y: i32[B], rate: f32) -> (loss: f32, p: f32[B, 3], most: f32, first: i32) {
  let noise: f32[4, B] = dice.uniform(f32[4, B])
  let z = (x + table[ids]) * transpose(noise)
  let p = softmax(z @ w)
  let loss = mean(cross_entropy(z @ w, y))
  seen := mean(p, axis = 0)
  steps := steps + B
  let gw, gt = grad(loss, [w, table])
  w := w - rate * gw
  table := table - rate * gt
  return loss, p, max(p), argmax(p[:, 0])
}

entry mixed[B](x: f32[B]) -> (most: f32) {
  steps += 1
  return max(cumsum(x, axis = 0))
}
"""
DEPLOYMENT = """
job worker tasks 2
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 4
replicate mixed over worker with mode = "sync", split = "B", combine = "mean", blocks = 4
"""
STATE = ("w", "table", "steps", "seen")
NUMBERS = np.random.default_rng(3)


def rows(count: int) -> dict[str, object]:
    x = NUMBERS.standard_normal((count, 4)).astype(np.float32)
    ids, y = (NUMBERS.integers(0, most, count).astype(np.int32) for most in (7, 3))
    return {"x": x, "ids": ids, "y": y, "rate": 0.5}


BATCHES = [rows(count) for count in (8, 6, 1, 8, 3)]


def trained(model):
    """All results, and the state behind them."""
    call = model.entries["train"]
    call = getattr(call, "short", call)
    results = [[np.asarray(each) for each in call(**batch)] for batch in BATCHES]
    return [*(each for made in results for each in made), *(np.asarray(model.state[name]) for name in STATE)]


def test_short_batches_have_the_numbers_of_one_rank_and_the_same_bits_on_any_number(tmp_path: Path) -> None:
    compile_source(SourceFile("model.dfg", PROGRAM), CompileOptions()).save(tmp_path / "one.bundle")
    expected = trained(dfc.load(tmp_path / "one.bundle"))
    data = cluster_bundle(PROGRAM, DEPLOYMENT)
    one, *others = (on_cluster(data, ranks, trained, jobs={"worker": ranks}) for ranks in few((1, 4, 2), 2))
    for number, (found, wanted) in enumerate(zip(one, expected, strict=True)):
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, err_msg=str(number))
        assert all(other[number].tobytes() == found.tobytes() for other in others), number


def test_a_table_that_is_sharded_gets_the_rows_that_count(tmp_path: Path) -> None:
    text = """dfg 1

param table: f32[12, 4] = uniform(-1.0, 1.0)

entry train[B](ids: i32[B], rate: f32) -> (loss: f32) {
  let loss = mean(square(table[ids]))
  table -= rate * grad(loss, table)
  return loss
}
"""
    deployment = """
job ps tasks 2
job worker tasks 2
shard "table" axis 0 over ps by modulo
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 4
"""
    ids = [np.array(each, np.int32) for each in ([1, 2, 3, 3, 11, 11], [5], [0, 0, 7])]

    def trained_on(model):
        call = getattr(model.entries["train"], "short", None) or model.train
        return [*(np.asarray(call(each, 0.5).loss) for each in ids), np.asarray(model.state["table"])]

    compile_source(SourceFile("model.dfg", text), CompileOptions()).save(tmp_path / "one.bundle")
    expected = trained_on(dfc.load(tmp_path / "one.bundle"))
    data = cluster_bundle(text, deployment)
    one, *others = (on_cluster(data, 2 + count, trained_on, jobs={"worker": count}) for count in few((1, 4, 2), 2))
    for number, (found, wanted) in enumerate(zip(one, expected, strict=True)):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        assert all(other[number].tobytes() == found.tobytes() for other in others), number


def test_ranks_that_call_along_call_the_entry_and_get_the_same_results() -> None:
    found = []

    def work(model):
        return [np.asarray(each).tobytes() for each in model.entries["train"].short(**BATCHES[1])]

    def along(model):
        found.append([np.asarray(each).tobytes() for each in model.train(**BATCHES[1])])

    assert [on_cluster(cluster_bundle(PROGRAM, DEPLOYMENT), 2, work, along)] == found


def test_the_second_program_is_compiled_once_and_only_if_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry itself refuses a short batch as ever, also when there is one."""
    made: list[str] = []
    original = ClusterSpecialiser.fill
    monkeypatch.setattr(ClusterSpecialiser, "fill", lambda self, entry: (made.append(entry), original(self, entry))[1])

    def work(model):
        short = model.entries["train"].short
        short(**BATCHES[0])
        before = list(made)
        for count in (6, 3, 1):
            short(**rows(count))
        with pytest.raises(FeedError, match="4 blocks along B, which is 6"):
            model.train(**BATCHES[1])
        return before

    assert on_cluster(cluster_bundle(PROGRAM, DEPLOYMENT), 2, work) == []
    assert made == ["train"]


def test_an_entry_that_mixes_rows_is_refused_with_its_line_and_nothing_has_run() -> None:
    def work(model):
        with pytest.raises(CompileError) as problem:
            model.entries["mixed"].short(np.ones(6, np.float32))
        return str(problem.value), int(model.state["steps"]), float(model.mixed(np.ones(8, np.float32)).most)

    text, steps, most = on_cluster(cluster_bundle(PROGRAM, DEPLOYMENT), 2, work)
    assert text.startswith("error[E0913]: a short batch of `mixed` cannot be filled up")
    assert "--> model.dfg:24:14" in text and "--last drop" in text
    assert (steps, most) == (0, 8.0)
