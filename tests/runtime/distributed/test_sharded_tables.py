"""Whole tables that lie in rows: mapped, summed up, carried, written back and returned as NumPy does it."""

from __future__ import annotations

import numpy as np
import pytest

from dfc_runtime.distributed.transport.in_process import Faults
from tests.support.clusters import cluster_bundle, on_cluster, undivided
from tests.support.sweeping import few
from tests.support.table_programs import COLUMNS, ROWS, TABLES, program

RULES = ("modulo", "blocks", "hash")
PLACES = """
job ps tasks {tasks}
job worker tasks {workers}
shard "a" axis 0 over ps by {rule}
shard "b" axis 0 over ps by {rule}
shard "c" axis 0 over ps by {rule}
"""


def environment(seed):
    random = np.random.default_rng(seed)
    sizes = {**dict.fromkeys((*TABLES, "x"), (ROWS, COLUMNS)), "m": (COLUMNS, COLUMNS), "w": (COLUMNS,)}
    made = {name: random.uniform(-0.6, 0.6, size) for name, size in sizes.items()}
    return {**made, "rate": np.float64(0.1)}


def called(seed):
    """Calls the entry once from a known state: its results, and the tables behind it."""

    def work(module):
        env = environment(seed)
        for name in TABLES:
            module.state[name] = env[name]
        made = module.e(**{name: env[name] for name in ("x", "m", "w", "rate")})
        return [*map(np.array, made), *(np.array(module.state[name]) for name in TABLES)]

    return work


@pytest.mark.parametrize("seed", few(range(15), 3))
def test_random_programs_on_whole_tables_are_those_of_numpy(seed):
    """For 1, 2 and 3 owners; the seed is in the name of the test."""
    text, reference = program(seed)
    env = environment(seed)
    results = reference(env)
    wanted = [*results, *(env[name] for name in TABLES)]
    tasks = 1 + seed % 3
    data = cluster_bundle(text, PLACES.format(tasks=tasks, workers=1, rule=RULES[seed // 3 % 3]))
    found = on_cluster(data, tasks + 1, called(seed), faults=Faults(seed, delay=seed % 2))
    for number, (a, b) in enumerate(zip(wanted, found, strict=True)):
        # sums of 33 numbers near 1, in another order, through four steps with gradients of about 1
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-11, err_msg=f"{number}\n{text}")


ALIKE = f"""dfg 1
param a: f64[{ROWS}, {COLUMNS}] = normal(0, 0.5)
param b: f64[{ROWS}, {COLUMNS}] = normal(0, 0.5)
var c: f64[{ROWS}, {COLUMNS}] = 0

entry decay(rate: f64, x: f64[{ROWS}, {COLUMNS}])
    -> (whole: f64[{ROWS}, {COLUMNS}], rows: f64[{ROWS}], turned: f64[3, {ROWS}]) {{
  a := a * 0.99 - rate * softmax(b)
  b -= rate * grad(mean(square(b)), b)
  let t, v = loop t: f64[{ROWS}, {COLUMNS}] = a, v: f64[{ROWS}, {COLUMNS}] = c for k in 0..5 {{
    v = 0.9 * v + tanh(t * x)
    t = t - rate * v
  }}
  c := if max(t) > 0.1 then v else t
  return t / norm(t, axis = 1, keep_dims = true), sum(square(t), axis = 1), transpose(t)
}}

entry stack(rate: f64) -> (all: f64[4, {ROWS}, {COLUMNS}], highest: f64) {{
  let last, all = loop t: f64[{ROWS}, {COLUMNS}] = a for k in 0..4 {{
    t = sin(t) - rate
    emit t * b
  }}
  c += last
  return all, max(last)
}}
"""


def alike(module):
    x = np.random.default_rng(1).normal(size=(ROWS, COLUMNS))
    found = [*module.decay(0.1, x), *module.stack(0.2), *module.decay(0.3, x)]
    return [np.array(each) for each in (*found, *(module.state[name] for name in TABLES))]


@pytest.mark.parametrize(
    ("rule", "numbers"),
    few([("modulo", (1, 3)), ("hash", (2,)), ("blocks", (5,)), ("modulo", (2,)), ("hash", (3,))], 2),
)
def test_what_is_done_row_by_row_has_the_bits_of_one_process_for_any_number_of_owners(rule, numbers):
    wanted = [each.tobytes() for each in alike(undivided(ALIKE))]
    for tasks in numbers:
        data = cluster_bundle(ALIKE, PLACES.format(tasks=tasks, workers=1, rule=rule))
        assert [each.tobytes() for each in on_cluster(data, tasks + 1, alike)] == wanted, tasks


TYPE = f"f64[{ROWS}, {COLUMNS}]"
NESTED = f"""dfg 1
param a: {TYPE} = uniform(-0.9, 0.9)
param b: {TYPE} = uniform(-0.9, 0.9)
var c: {TYPE} = 0

entry exchanged(rate: f64) -> {TYPE} {{
  let t, u = loop t: {TYPE} = zeros({TYPE}), u: {TYPE} = b for k in 0..3 {{
    let before = t
    t = u
    u = before + rate
  }}
  return t - 2 * u
}}

entry nested(rate: f64) -> {TYPE} {{
  let t = loop t: {TYPE} = a for k in 0..4 {{
    t = if max(t) > rate {{ yield t * 0.7 }} else {{ yield t + 0.3 }}
    t = loop u: {TYPE} = t for j in 0..k {{ u = u * 0.7 + b }}
  }}
  c := t
  return t
}}

entry outer(rate: f64) -> {TYPE} {{
  let x = a * rate
  return loop t: {TYPE} = b for k in 0..2 {{ t = x }}
}}

## A vector with an element a row that each iteration needs whole.
entry vector(rate: f64) -> f64[{ROWS}] {{
  let u = loop u: f64[{ROWS}] = sum(a, axis = 1) for k in 0..3 {{ u = cumsum(u) * 0.1 + a @ (u @ b) }}
  return sort(u) * rate
}}

entry learn(ids: i32[4], rate: f64) -> (total: f64, all: f64[3, {ROWS}, {COLUMNS}]) {{
  let t, total, all = loop t: {TYPE} = a, total: f64 = 0 for k in 0..3 {{
    total = total + sum(square(t[ids])) + mean(t * b)
    t = t * t + 0.5 * b
    emit t
  }}
  let da, db = grad(total, [a, b])
  a -= rate * da
  b -= rate * db
  return total, all
}}
"""


def nested(module):
    found = [module.exchanged(0.2), module.nested(0.3), module.outer(0.4), module.vector(0.5)]
    for _ in range(2):
        found += module.learn(np.array([1, 9, 4, 1], np.int32), 0.1)
    return [np.array(each) for each in (*found, *(module.state[name] for name in TABLES))]


@pytest.mark.parametrize(("tasks", "rule"), few([(3, "hash"), (2, "modulo")], 1))
def test_rows_go_through_loops_in_loops_and_branches_and_back(tasks, rule):
    wanted = nested(undivided(NESTED))
    data = cluster_bundle(NESTED, PLACES.format(tasks=tasks, workers=1, rule=rule))
    for number, (a, b) in enumerate(zip(wanted, on_cluster(data, tasks + 1, nested), strict=True)):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-13, err_msg=str(number))


TRAINED = f"""dfg 1
param a: f64[{ROWS}, {COLUMNS}] = uniform(-0.5, 0.5)
param b: f64[{ROWS}, {COLUMNS}] = uniform(-0.5, 0.5)
var c: f64[{ROWS}, {COLUMNS}] = 0

## A batch, weight decay of all rows, and a gradient that is cut to a length.
entry train[B](ids: i32[B], rate: f64) -> (loss: f64, a: f64[{ROWS}, {COLUMNS}]) {{
  let loss = mean(square(sum(a[ids] * b[ids], axis = 1) - 0.3)) + 0.1 * mean(square(a))
  let da, db = grad(loss, [a, b])
  c := 0.9 * c + da / maximum(norm(da), 1)
  let next = a - rate * c
  a := next
  b -= rate * db
  return loss, a
}}

## Iterations in which all rows change, and those of a batch are picked.
entry rounds[B](ids: i32[B], rate: f64) -> (loss: f64) {{
  let t, total = loop t: f64[{ROWS}, {COLUMNS}] = a, total: f64 = 0 for k in 0..3 {{
    total = total + mean(square(t[ids]))
    t = t * 0.9 + rate * tanh(b)
  }}
  a -= rate * grad(total, a)
  c := t
  return total
}}
"""
LINE = 'replicate {entry} over worker with mode = "sync", split = "B", combine = "mean", blocks = 6\n'
IDS = np.random.default_rng(2).integers(0, ROWS, 24).astype(np.int32)


def trained(module):
    found = [*module.train(IDS, 0.3), module.rounds(IDS[:12], 0.2), *module.train(IDS[::-1].copy(), 0.1)]
    return [np.array(each) for each in (*found, *(module.state[name] for name in TABLES))]


def test_whole_tables_in_a_replicated_entry_have_the_bits_of_any_number_of_workers():
    wanted = trained(undivided(TRAINED))
    lines = "".join(LINE.format(entry=entry) for entry in ("train", "rounds"))
    data = cluster_bundle(TRAINED, PLACES.format(tasks=2, workers=2, rule="modulo") + lines)
    bits = []
    for workers in (1, 2, 3):
        found = on_cluster(data, 2 + workers, trained, jobs={"worker": workers})
        for number, (a, b) in enumerate(zip(wanted, found, strict=True)):
            np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-13, err_msg=str(number))
        bits.append([each.tobytes() for each in found])
    assert all(each == bits[0] for each in bits)


UNCUT = PLACES.format(tasks=2, workers=1, rule="hash") + 'step "train/next" from "ids", "rate"\n'


def test_ranks_that_call_along_get_the_whole_table():
    data = cluster_bundle(TRAINED, UNCUT)
    said = []

    def follow(module):
        said.append(np.array(module.train(IDS, 0.3).a))

    first = on_cluster(data, 3, lambda module: np.array(module.train(IDS, 0.3).a), follow)
    assert len(said) == 2
    assert all(np.array_equal(each, first) for each in said)


def test_a_part_of_an_entry_gives_a_whole_table():
    wanted = np.array(undivided(TRAINED).run("train/next", {"ids": IDS, "rate": 0.3}))
    found = on_cluster(
        cluster_bundle(TRAINED, UNCUT), 3, lambda module: np.array(module.run("train/next", {"ids": IDS, "rate": 0.3}))
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
