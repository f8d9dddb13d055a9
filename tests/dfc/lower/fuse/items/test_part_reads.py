"""Concurrent entries copy of a variable only the rows and slices they use, all parts of a read at one moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest

import dfc
import dfc_runtime
from dfc.driver import pipeline
from dfc.kernels.program import BufferRole, Copy, EntryProgram, Launch, Locked, walk
from dfc_runtime import Module
from dfc_runtime.errors import RunError
from tests.support.building import graph_of

ROWS = 20_000

PROGRAM = f"""dfg 1
var table: f64[{ROWS}, 3] = uniform(-1, 1)
var bias: f64[{ROWS}] = 0

entry train[B](ids: i32[B], rate: f64) -> (loss: f64) with concurrent = true {{
  let loss = sum(square(table[ids])) + sum(exp(bias[ids]))
  table -= rate * grad(loss, table)
  bias -= rate * grad(loss, bias)
  return loss
}}

entry parts(ids: i32[2, 2], k: i32) -> (a: f64[2, 2, 3], b: f64[3], c: f64[2, 3], d: f64) with concurrent = true {{
  let t = table
  return t[ids], t[-1], t[4:6], t[k, 1]
}}

entry chained(k: i32) -> f64 with concurrent = true {{
  let t = table
  let first = t[k, 0]
  return t[(first * 0) as i32 + 2, 1]
}}

entry before() -> f64[2] with concurrent = true {{
  let t = bias
  bias[0:2] := 7
  return t[0:2]
}}

entry count(ids: i32[3]) with concurrent = true {{ bias[ids] += 1 }}
"""


@cache
def planned(name: str) -> EntryProgram:
    program = pipeline.scheduled(pipeline.optimise(graph_of(PROGRAM)))
    return next(each for each in program.entries if each.name == name)


@pytest.fixture
def module() -> Module:
    return dfc_runtime.loads(bundle(), threads=2)


@cache
def bundle() -> bytes:
    return dfc.compile(text=PROGRAM).to_bytes()


def copied(name: str) -> list[str]:
    """Which variables an entry copies whole."""
    entry = planned(name)
    copies = (step for step in walk(entry.steps) if isinstance(step, Copy))
    return [b.resource for step in copies if (b := entry.buffers[step.source]).role is BufferRole.RESOURCE]


def test_only_parts_are_copied() -> None:
    assert copied("train") == []
    assert copied("parts") == []
    entry = planned("train")
    assert entry.arena.evaluate(dict.fromkeys(entry.arena.symbols(), 8)) < 8 * ROWS


def test_all_parts_of_a_read_are_taken_under_one_lock() -> None:
    (locked,) = (step for step in planned("parts").steps if isinstance(step, Locked))
    assert sum(isinstance(step, Launch) for step in locked.body) == 4
    assert not locked.exclusive


def test_a_read_is_copied_whole_where_its_parts_cannot_be_taken_at_once() -> None:
    assert copied("chained") == ["table"]
    assert copied("before") == ["bias"]


def test_parts_are_what_numpy_takes(module: Module) -> None:
    table = module.state["table"].copy()
    ids = np.array([[3, -1], [3, 9]], np.int32)
    parts = module.parts(ids, -2)
    for got, expected in zip(parts, (table[ids], table[-1], table[4:6], table[-2, 1]), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert module.chained(-1) == table[2, 1]
    np.testing.assert_array_equal(module.before(), [0, 0])
    np.testing.assert_array_equal(module.state["bias"][:3], [7, 7, 0])


def test_a_number_that_is_no_row_leaves_no_lock_behind(module: Module) -> None:
    table = module.state["table"].copy()
    with pytest.raises(RunError, match="E0904"):
        module.train(np.array([1, ROWS], np.int32), 0.1)
    np.testing.assert_array_equal(module.state["table"], table)
    with ThreadPoolExecutor(1) as pool:
        loss = pool.submit(module.train, np.array([1, 1], np.int32), 0.1).result(timeout=60).loss
    assert loss == pytest.approx(2 * np.square(table[1]).sum() + 2)


def test_updates_of_rows_from_many_threads_all_arrive(module: Module) -> None:
    ids = [np.array([k % 5, 7, -1], np.int32) for k in range(400)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(module.count, ids))
    bias = module.state["bias"]
    assert bias[7] == bias[-1] == 400
    np.testing.assert_array_equal(bias[:5], 80)
