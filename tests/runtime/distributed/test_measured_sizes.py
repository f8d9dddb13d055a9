"""Sizes that only the run finds out, on many ranks: values of such sizes go from task to task, and are results."""

from __future__ import annotations

import numpy as np
import pytest

from dfc_runtime.distributed.transport.in_process import Faults
from dfc_runtime.errors import RunError
from tests.support.clusters import cluster_bundle, on_cluster, undivided
from tests.support.sized_programs import random_program
from tests.support.sweeping import few

PROGRAM = """dfg 1
var w: f32[3] = 2
var kept: f32[5] = 0

entry words[B](ids: i32[B]) -> (values: i32[?], inverse: i64[B], s: f32, n: i64) {
  let [N] values: i32[N], inverse, counts = unique(ids)
  let y = sin(values as f32) * w[0]
  let s = sum(y * counts as f32)
  return values, inverse, s, N
}

entry keep[B](x: f32[B]) -> (y: f32[?]) {
  let y = x[x > 0]
  let [M] z: f32[M] = y[y < 9]
  kept[:M] := z
  return z + 1
}

entry rounds[T, B](x: f32[T, B]) -> f32 {
  return loop s: f32 = 0 for t in 0..T {
    let y = x[t][x[t] > s]
    let z = y * w[1]
    s = s + sum(z)
  }
}

entry wrong(n: i64) -> f32 {
  let r = range(n, 4)
  return sum(r as f32 * w[2])
}
"""
PLACES = """
job a tasks 1
job b tasks 2
place "w" on b task 1
place "kept" on b task 0
place "words/values" on a
place "words/y" on b task 0
place "words/s" on b task 1
place "keep/y" on b task 1
place "keep/z" on a
place "rounds/y" on a
place "rounds/z" on b task 0
place "wrong/r" on b task 0
"""
X = np.array([[3, -1, 4], [1, 5, -9], [2, 6, 5]], np.float32)


def used(module):
    found = []
    for ids in ([3, 1, 3, 9], [], [7]):
        found += list(module.words(np.array(ids, np.int32)))
    for x in ([1.0, -2.0, 3.0], [-1.0], [9.0, 10.0, 4.0]):
        found.append(module.keep(np.array(x, np.float32)))
    found += [module.rounds(X), module.rounds(-X), module.rounds(X[:0]), module.wrong(3), module.wrong(0)]
    return [np.array(each) for each in (*found, module.state["kept"])]


@pytest.mark.parametrize("all_call", [False, True])
def test_values_of_such_sizes_cross_tasks(all_call):
    wanted = used(undivided(PROGRAM))
    data = cluster_bundle(PROGRAM, PLACES)
    found = on_cluster(data, 3, used, used if all_call else None, faults=Faults(1, delay=2))
    for number, (a, b) in enumerate(zip(wanted, found, strict=True)):
        np.testing.assert_array_equal(a, b, err_msg=str(number))


def test_a_size_that_cannot_be_ends_the_call_everywhere():
    def work(module):
        with pytest.raises(RunError, match="the size N is 5, but must be between 0 and 4"):
            module.wrong(5)
        return float(module.wrong(4))

    assert on_cluster(cluster_bundle(PROGRAM, PLACES), 3, work) == 12.0


@pytest.mark.parametrize("seed", few(range(8), 2))
def test_random_programs_mean_the_same_wherever_their_values_are(seed):
    rng = np.random.default_rng(seed)
    program = random_program(seed, size=int(rng.integers(0, 30)), steps=5)
    moved = [name for name in program.values if name != "x" and rng.random() < 0.5]
    places = "".join(f'place "f/{name}" on b task {rng.integers(2)}\n' for name in moved)
    data = cluster_bundle(program.text, f"job a tasks 1\njob b tasks 2\n{places}")
    found = on_cluster(data, 3, lambda module: list(module.f(program.feed)))
    for got, wanted in zip(found, program.expected, strict=True):
        np.testing.assert_array_equal(got, wanted, err_msg=f"seed {seed}")


def test_a_replicated_entry_returns_them_too():
    text = """dfg 1
    param w: f32[4] = 1
    entry f[B](ids: i32[B], x: f32[B]) -> (values: i32[?], s: f32, y: f32[B]) {
      let [NB] values: i32[NB], inverse, counts = unique(ids)
      return values, mean(x), x * w[0] + sum(counts as f32)
    }
    """
    line = 'replicate f over worker with mode = "sync", split = "B", blocks = 4\n'
    data = cluster_bundle(text, f"job worker tasks 2\n{line}")
    ids, x = np.array([4, 4, 1, 0, 1, 9, 9, 9], np.int32), np.arange(8, dtype=np.float32)
    values, s, y = on_cluster(data, 2, lambda module: list(module.f(ids, x)))
    np.testing.assert_array_equal(values, [0, 1, 4, 9])
    assert float(s) == 3.5
    np.testing.assert_array_equal(y, x + 8)


SHARDED = """dfg 1
param table: f64[11, 3] = uniform(-1, 1)

entry train[B](ids: i32[B], rate: f64) -> (loss: f64, rows: f64[?, 3]) {
  let [N] values: i32[N], inverse, counts = unique(ids)
  let rows = table[values]
  let loss = mean(square(rows[inverse]))
  table[values] -= rate * rows * (counts as f64)[:, new]
  return loss, rows
}
"""


@pytest.mark.parametrize("replicated", [False, True])
def test_rows_of_a_divided_table_are_picked_by_as_many_numbers_as_there_are(replicated):
    places = 'job ps tasks 2\njob worker tasks 2\nshard "table" axis 0 over ps by modulo\nplace "**" on worker\n'
    line = 'replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 4\n'

    def work(module):
        found = []
        for ids in ([3, 1, 3, 9, 10, 3, 0, 1], [5] * 4, [2, 4, 6, 8]):
            found += list(module.train(np.array(ids, np.int32), 0.1))
        return [np.array(each) for each in (*found, module.state["table"])]

    wanted = work(undivided(SHARDED))
    found = on_cluster(cluster_bundle(SHARDED, places + line * replicated), 4, work)
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-13, atol=1e-14)
