"""Programs whose tables lie in rows over several tasks: the same results as in one process, the same bits for any
number of workers and shards, and nothing but rows and their numbers on the wire."""

from __future__ import annotations

import numpy as np
import pytest

import dfc
from dfc_runtime.distributed.transport.in_process import Faults
from dfc_runtime.errors import RunError
from tests.support.clusters import cluster_bundle, on_cluster, outcomes_of, undivided
from tests.support.sweeping import few

ROWS = 11
PROGRAM = f"""dfg 1
param table: f64[{ROWS}, 3] = uniform(-0.1, 0.1)
var wide: f64[2, {ROWS}] = normal(0, 1)

entry rows[B](ids: i32[B]) -> f64[B, 3] {{ return table[ids] }}
entry pairs[A, B](ids: i32[A, B]) -> f64[A, B, 3] {{ return table[ids] }}
entry columns[B](ids: i32[B]) -> f64[2, B] {{ return wide[:, ids] }}
entry some() -> (a: f64[3, 3], b: f64[4, 2]) {{ return table[2:5], table[1:9:2, 1:] }}
entry subtract[B](ids: i32[B], rows: f64[B, 3]) {{ table[ids] -= rows }}
entry set_columns[B](ids: i32[B], rows: f64[2, B]) {{ wide[:, ids] := rows }}
entry set_range(rows: f64[3, 3]) {{ table[2:5] := rows }}
entry set_one(id: i32, x: f64) {{ table[id] += x }}
entry scale(k: f64) {{ table *= k
  table[:, 1] += 1.0 }}
entry dots(v: f64[3]) -> f64[{ROWS}] {{ return table @ v }}
entry totals() -> (a: f64, b: f64, c: f64, d: f64[3], e: f64[2]) {{
  return sum(table), mean(table), max(table), min(table, axis = 0), mean(square(wide), axis = 1)
}}
entry best(v: f64[3]) -> (at: i32, words: i32[3]) {{
  let scores = table @ v / norm(table, axis = 1)
  let values, words = top_k(scores, 3)
  return argmax(scores), words
}}
entry shifted(x: f64[{ROWS}, 3], v: f64[{ROWS}]) -> f64[3] {{
  table := table + x * v[:, new]
  return sum(table * v[:, new], axis = 0)
}}
"""
DEPLOYMENT = """
job ps tasks {shards}
job worker tasks 1
shard "table" axis 0 over ps by {rule}
shard "wide" axis 1 over ps by {rule}
place "**" on worker
"""
RANDOM = np.random.default_rng(2)
X, V = RANDOM.normal(size=(ROWS, 3)), RANDOM.normal(size=ROWS)
IDS = np.array([3, 9, 0, -1, 3, -11], np.int32)


def used(module):
    found = [np.array(module.state["table"]), np.array(module.state["wide"])]
    found += [module.rows(IDS), module.pairs(IDS.reshape(2, 3)), module.rows(np.zeros(0, np.int32))]
    found += [module.rows(np.full(7, 4, np.int32)), module.columns(IDS), *module.some()]
    module.subtract(IDS, X[:6])
    module.set_columns(np.array([7, 0, 10], np.int32), X[:2])
    module.set_range(X[:3])
    module.set_one(5, 2.5)
    module.scale(1.5)
    found += [np.array(module.state["table"]), np.array(module.state["wide"])]
    found += [module.dots(X[0]), *module.totals(), *module.best(X[1]), module.shifted(X, V)]
    module.state["table"] = X
    return [*found, np.array(module.state["table"]), module.rows(IDS)]


@pytest.mark.parametrize(("shards", "rule"), few([(2, "hash"), (2, "modulo"), (1, "blocks"), (3, "blocks")], 2))
def test_rows_are_used_where_they_lie(shards, rule):
    data = cluster_bundle(PROGRAM, DEPLOYMENT.format(shards=shards, rule=rule))
    wanted = used(undivided(PROGRAM))
    found = on_cluster(data, shards + 1, used, faults=Faults(shards, delay=2))
    for number, (a, b) in enumerate(zip(wanted, found, strict=True)):
        np.testing.assert_allclose(b, a, rtol=1e-14, atol=1e-15, err_msg=str(number))


def test_a_row_that_does_not_exist_is_told_with_its_line():
    def work(module):
        with pytest.raises(RunError, match=r"index 11 is out of range for axis of size 11 at model\.dfg:5:\d+") as told:
            module.rows(np.array([1, 11], np.int32))
        with pytest.raises(RunError, match="index -12 is out of range"):
            module.subtract(np.array([-12], np.int32), X[:1])
        module.init()
        return told.value.code, module.rows(np.array([1], np.int32)).shape

    data = cluster_bundle(PROGRAM, DEPLOYMENT.format(shards=2, rule="hash"))
    assert on_cluster(data, 3, work) == ("E0904", (1, 3))


# ---------------------------------------------------------------- replicated --

TRAINED = """dfg 1
param table: f64[11, 3] = uniform(-0.1, 0.1)
param output: f64[11, 3] = uniform(-0.1, 0.1)
param bias: f64[11] = 0
var squares: f64[11, 3] = 0.1

entry train[B](center: i32[B], context: i32[B], noise: i32[4], rate: f64) -> (loss: f64) {
  let x = table[center]
  let good = sum(x * output[context], axis = 1) + bias[context]
  let bad = x @ transpose(output[noise]) + bias[noise]
  let loss = mean(square(1 - good)) + mean(square(bad))
  let dx, doutput, dbias, dtable = grad(loss, [x, output, bias, table])
  table[center] -= rate * dx
  squares[center] += square(dx)
  output -= rate * doutput
  bias -= rate * dbias
  table[center] -= rate * dx / sqrt(squares[center])
  return loss
}

entry dense[B](x: f64[B, 3], truth: i32[B], rate: f64) -> (loss: f64) {
  let logits = x @ transpose(output) + bias
  let loss = mean(cross_entropy(logits, truth))
  let doutput, dbias = grad(loss, [output, bias])
  output -= rate * doutput
  bias -= rate * dbias
  return loss
}
"""
SPREAD = """
job ps tasks {shards}
job worker tasks {workers}
shard "table" axis 0 over ps by {rule}
shard "output" axis 0 over ps by modulo
shard "bias" axis 0 over ps by modulo
shard "squares" axis 0 over ps by {rule}
place "**" on worker
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 6
replicate dense over worker with mode = "sync", split = "B", combine = "mean", blocks = 6
"""
CENTER = RANDOM.integers(-11, 11, (5, 12)).astype(np.int32)
CONTEXT = RANDOM.integers(0, 11, (5, 12)).astype(np.int32)
NOISE = RANDOM.integers(0, 11, (5, 4)).astype(np.int32)
INPUTS = RANDOM.normal(size=(12, 3))


def trained(module):
    losses = [module.train(c, x, n, 0.1).loss for c, x, n in zip(CENTER, CONTEXT, NOISE, strict=True)]
    losses += [module.dense(INPUTS, c % 11, 0.2).loss for c in CENTER]
    return [np.array(losses), *(np.array(module.state[name]) for name in ("table", "output", "bias", "squares"))]


@pytest.mark.parametrize(
    ("rule", "shards", "numbers"), few([("modulo", 2, (2, 1, 3)), ("hash", 1, (2,)), ("blocks", 2, (1,))], 1)
)
def test_training_gives_the_bits_of_any_number_of_workers(rule, shards, numbers):
    wanted = trained(undivided(TRAINED))
    first = None
    data = cluster_bundle(TRAINED, SPREAD.format(shards=shards, workers=numbers[0], rule=rule))
    for workers in numbers:
        faults = Faults(workers, delay=workers % 2)
        found = on_cluster(data, shards + workers, trained, jobs={"worker": workers}, faults=faults)
        for a, b in zip(wanted, found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-14)
        first = first or [each.tobytes() for each in found]
        assert [each.tobytes() for each in found] == first


def test_a_worker_that_finds_a_wrong_row_stops_all():
    wrong = CENTER[0].copy()
    wrong[9] = 77

    def work(module):
        with pytest.raises(RunError, match="index 77 is out of range for axis of size 11"):
            module.train(wrong, CONTEXT[0], NOISE[0], 0.1)
        module.init()
        return module.train(CENTER[0], CONTEXT[0], NOISE[0], 0.1).loss

    data = cluster_bundle(TRAINED, SPREAD.format(shards=2, workers=2, rule="modulo"))
    outcomes = outcomes_of(data, 4, work)
    assert outcomes[0] == pytest.approx(trained(undivided(TRAINED))[0][0])


# ---------------------------------------------------------------- a softmax over a divided vocabulary --

SOFTMAX = """dfg 1
param table: f64[11, 3] = uniform(-0.5, 0.5)
param output: f64[11, 3] = uniform(-0.5, 0.5)
param bias: f64[11] = 0

entry train[B](center: i32[B], context: i32[B], rate: f64) -> (loss: f64) {
  let x = table[center]
  let loss = LOSS(cross_entropy(x @ transpose(output) + bias, context))
  let dx, doutput, dbias = grad(loss, [x, output, bias])
  table[center] -= rate * dx
  output -= rate * doutput
  bias -= rate * dbias
  return loss
}
"""


def own_tables(workers: int, combine: str = "mean", tables: str = "table output bias") -> str:
    lines = "\n".join(f'shard "{name}" axis 0 over worker by modulo' for name in tables.split())
    return f"""
job worker tasks {workers}
{lines}
replicate train over worker with mode = "sync", split = "B", combine = "{combine}", blocks = 6
"""


def softmax_trained(module):
    losses = [module.train(c % 11, x, 0.1).loss for c, x in zip(CENTER, CONTEXT, strict=True)]
    return [np.array(losses), *(np.array(module.state[name]) for name in ("table", "output", "bias"))]


@pytest.mark.parametrize("tables", few(["table output bias", "output"], 1))
@pytest.mark.parametrize(("loss", "combine"), [("mean", "mean"), ("sum", "sum")])
def test_workers_train_a_softmax_over_their_own_tables(tables, loss, combine):
    text = SOFTMAX.replace("LOSS", loss)
    wanted = softmax_trained(undivided(text))
    for workers in few((3, 1, 2), 1):
        found = on_cluster(cluster_bundle(text, own_tables(workers, combine, tables)), workers, softmax_trained)
        for a, b in zip(wanted, found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("loss", "combine", "are"), [("mean", "sum", "a mean"), ("sum", "mean", "a sum")])
def test_a_softmax_over_a_divided_table_is_judged_by_its_loss(loss, combine, are):
    title = rf'`combine = "{combine}"`, but the gradients of `train` are {are} over'
    with pytest.raises(dfc.CompileError, match=title):
        cluster_bundle(SOFTMAX.replace("LOSS", loss), own_tables(2, combine))
