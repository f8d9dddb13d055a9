"""Rows of divided tables that are picked, changed and summed up inside of loops and branches: the results of one
process, and the same bits for any number of workers."""

from __future__ import annotations

import numpy as np
import pytest

from dfc_runtime.distributed.transport.in_process import Faults
from dfc_runtime.errors import RunError
from tests.support.clusters import cluster_bundle, on_cluster, undivided
from tests.support.sweeping import few

ROWS = 11
PROGRAM = f"""dfg 1
param table: f64[{ROWS}, 3] = uniform(-0.5, 0.5)
param w: f64[3, 3] = uniform(-0.5, 0.5)
var counts: f64[{ROWS}] = 0

## Which row comes next depends on the iterations before.
entry walk[B](ids: i32[B]) -> (h: f64[B, 3], at: i32[B]) {{
  let h, at = loop h: f64[B, 3] = zeros(f64[B, 3]), at: i32[B] = ids for t in 0..5 {{
    h = tanh(h @ w + table[at])
    at = (at * 7 + argmax(h, axis = 1) as i32) % {ROWS}
  }}
  return h, at
}}

## A number of iterations that only the iterations find out.
entry chase(first: i32, most: f64) -> (at: i32, total: f64) {{
  let at, total = loop at: i32 = first, total: f64 = 0 while total < most {{
    total = total + sum(square(table[at])) + 0.01
    at = (at + 3) % {ROWS}
  }}
  return at, total
}}

entry either(c: bool, i: i32) -> (x: f64[3], s: f64) {{
  let x, s = if c {{
    yield table[i], sum(table)
  }} else {{
    yield table[i + 1] * 2, max(table[2:7])
  }}
  return x, s
}}

## Rows that an iteration changes are what the next one finds.
entry learn[T, B](ids: i32[T, B], rate: f64) -> (loss: f64) {{
  let total = loop total: f64 = 0 for t in 0..T {{
    let loss = mean(square(table[ids[t]] @ w - 0.3))
    let dt, dw = grad(loss, [table, w])
    table -= rate * dt
    counts[ids[t]] += 1
    w -= rate * dw
    total = total + loss
  }}
  return total
}}

## All rows in every iteration, each task with its own.
entry power(v: f64[3], k: i64) -> (v: f64[3], s: f64[{ROWS}]) {{
  let v = loop v = v for t in 0..k {{
    let u = (table @ v) @ table
    v = u / norm(u)
  }}
  return v, table @ v
}}

entry nested[T, B](ids: i32[T, B]) -> (x: f64[3]) {{
  return loop x: f64[3] = zeros(f64[3]) for t in 0..T {{
    x = loop y: f64[3] = x for b in 0..B {{
      if ids[t, b] > 4 {{
        y = y * 0.5 + table[ids[t, b]]
      }}
    }}
  }}
}}

## The backward pass through iterations that pick rows: of known numbers, and of those that iterations find out.
entry train[T, B](ids: i32[T, B], rate: f64) -> (loss: f64) {{
  let h, _ = loop h: f64[B, 3] = zeros(f64[B, 3]), at: i32[B] = ids[0] for t in 0..T {{
    h = tanh(h @ w + table[ids[t]] * table[at])
    at = (at + ids[t] + t as i32) % {ROWS}
  }}
  let loss = mean(square(h - 0.2))
  let dt, dw = grad(loss, [table, w])
  table -= rate * dt
  w -= rate * dw
  return loss
}}

entry train_while(first: i32, most: f64, rate: f64) -> (loss: f64) {{
  let _, x = loop at: i32 = first, x: f64[3] = zeros(f64[3]) while sum(square(x)) < most {{
    x = x * 0.7 + tanh(table[at]) + 0.2
    at = (at + 4) % {ROWS}
  }}
  let loss = sum(square(x - 1))
  table -= rate * grad(loss, table)
  return loss
}}
"""
DEPLOYMENT = """
job ps tasks {shards}
job worker tasks 1
shard "table" axis 0 over ps by {rule}
shard "counts" axis 0 over ps by {rule}
place "**" on worker
"""
RANDOM = np.random.default_rng(4)
IDS = RANDOM.integers(0, ROWS, (6, 4)).astype(np.int32)
VECTOR = RANDOM.normal(size=3)


def used(module):
    found = [*module.walk(IDS[0]), *module.chase(2, 1.5), *module.chase(2, -1.0)]
    found += [*module.either(True, 3), *module.either(False, 3)]
    found += [module.learn(IDS, 0.2), module.learn(IDS[:0], 0.2)]
    found += [*module.power(VECTOR, 4), *module.power(VECTOR, 0), module.nested(IDS)]
    found += [module.train(IDS[:k], 0.3) for k in (6, 1, 4)]
    found += [module.train_while(1, most, 0.05) for most in (2.0, 0.5, -1.0)]
    return [*found, *(np.array(module.state[name]) for name in ("table", "w", "counts"))]


@pytest.mark.parametrize(("shards", "rule"), few([(2, "modulo"), (1, "blocks"), (3, "hash")], 1))
def test_iterations_use_rows_where_they_lie(shards, rule):
    wanted = used(undivided(PROGRAM))
    data = cluster_bundle(PROGRAM, DEPLOYMENT.format(shards=shards, rule=rule))
    found = on_cluster(data, shards + 1, used, faults=Faults(shards, delay=2))
    for number, (a, b) in enumerate(zip(wanted, found, strict=True)):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-13, err_msg=str(number))


def test_an_iteration_that_asks_for_a_row_that_is_not_there_ends_the_call():
    wrong = IDS.copy()
    wrong[3, 1] = ROWS

    def work(module):
        for call in (lambda: module.learn(wrong, 0.1), lambda: module.train(wrong, 0.1)):
            with pytest.raises(RunError, match=f"index {ROWS} is out of range for axis of size {ROWS}"):
                call()
            module.init()
        return module.learn(IDS, 0.2)

    data = cluster_bundle(PROGRAM, DEPLOYMENT.format(shards=2, rule="modulo"))
    assert on_cluster(data, 3, work) == pytest.approx(undivided(PROGRAM).learn(IDS, 0.2))


# ---------------------------------------------------------------- replicated --

TRAINED = f"""dfg 1
param table: f64[{ROWS}, 3] = uniform(-0.5, 0.5)
param output: f64[{ROWS}, 3] = uniform(-0.5, 0.5)
param w: f64[3, 3] = uniform(-0.5, 0.5)

entry known[T, B](ids: i32[T, B], rate: f64) -> (loss: f64, h: f64[B, 3]) {{
  let h = loop h: f64[B, 3] = zeros(f64[B, 3]) for t in 0..T {{
    h = tanh(h @ w + table[ids[t]])
  }}
  let loss = mean(square(h - 0.2))
  let dt, dw = grad(loss, [table, w])
  table -= rate * dt
  w -= rate * dw
  return loss, h
}}

entry found[B](ids: i32[B], rate: f64) -> (loss: f64, at: i32[B]) {{
  let h, at = loop h: f64[B, 3] = zeros(f64[B, 3]), at: i32[B] = ids for t in 0..4 {{
    h = tanh(h @ w + table[at] + table[t as i32])
    at = (at * 7 + argmax(h @ transpose(output), axis = 1) as i32) % {ROWS}
  }}
  let loss = mean(square(h - 0.2))
  let dt, dw = grad(loss, [table, w])
  table -= rate * dt
  w -= rate * dw
  return loss, at
}}

entry steps[T, B](ids: i32[T, B], truth: i32[T, B], rate: f64) -> (loss: f64) {{
  return loop total: f64 = 0 for t in 0..T {{
    let loss = mean(cross_entropy(table[ids[t]] @ w @ transpose(output), truth[t]))
    let dt, dw, doutput = grad(loss, [table, w, output])
    table -= rate * dt
    w -= rate * dw
    output -= rate * doutput
    total = total + loss
  }}
}}
"""
SPREAD = """
job ps tasks {shards}
job worker tasks {workers}
shard "table" axis 0 over ps by modulo
shard "output" axis 0 over ps by {rule}
place "**" on worker
"""
LINE = 'replicate {entry} over worker with mode = "sync", split = "B", combine = "mean", blocks = 6\n'
LONG = RANDOM.integers(0, ROWS, (3, 12)).astype(np.int32)


def trained(module):
    found = []
    for _ in range(2):
        found += [*module.known(LONG, 0.3), *module.found(LONG[1], 0.2), module.steps(LONG, LONG[::-1].copy(), 0.1)]
    return [np.array(each) for each in (*found, *(module.state[name] for name in ("table", "output", "w")))]


@pytest.mark.parametrize(("shards", "rule", "numbers"), few([(2, "modulo", (3, 1, 2)), (1, "hash", (2,))], 1))
def test_iterations_of_a_batch_in_blocks_give_the_bits_of_any_number_of_workers(shards, rule, numbers):
    wanted = trained(undivided(TRAINED))
    lines = "".join(LINE.format(entry=entry) for entry in ("known", "found", "steps"))
    data = cluster_bundle(TRAINED, SPREAD.format(shards=shards, workers=numbers[0], rule=rule) + lines)
    bits = []
    for workers in numbers:
        faults = Faults(workers, delay=workers % 2)
        found = on_cluster(data, shards + workers, trained, jobs={"worker": workers}, faults=faults)
        for number, (a, b) in enumerate(zip(wanted, found, strict=True)):
            np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-12, err_msg=str(number))
        bits.append([each.tobytes() for each in found])
    assert all(each == bits[0] for each in bits)


def test_workers_that_have_the_rows_themselves_go_through_iterations_together():
    wanted = trained(undivided(TRAINED))
    places = 'job worker tasks 2\nshard "table" axis 0 over worker\nshard "output" axis 0 over worker by blocks\n'
    lines = "".join(LINE.format(entry=entry) for entry in ("known", "found", "steps"))
    found = on_cluster(cluster_bundle(TRAINED, places + lines), 2, trained)
    for number, (a, b) in enumerate(zip(wanted, found, strict=True)):
        np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-12, err_msg=str(number))
