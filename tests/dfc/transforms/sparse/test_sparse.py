"""Variables of which a loss reads rows are updated by their gradients in these rows: numbers, faults, memory."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import dfc
import dfc_runtime
from dfc.driver import pipeline
from dfc.ir.dims import Dim, dim, product
from dfc.kernels.program import BufferRole, EntryProgram
from dfc_runtime import Module
from dfc_runtime.errors import RunError
from tests.support.building import graph_of
from tests.support.word_vectors import PROGRAM, WORDS, WordVectors

ROWS, WIDTH = 50_000, 4

HEAD = f"""dfg 1
param table: f64[{ROWS}, {WIDTH}] = uniform(-1, 1)
param bias: f64[{ROWS}] = uniform(-1, 1)
"""


@cache
def module_of(body: str) -> Module:
    return dfc_runtime.loads(dfc.compile(text=HEAD + body).to_bytes(), threads=2)


def planned(text: str, entry: str = "train") -> EntryProgram:
    program = pipeline.scheduled(pipeline.optimise(graph_of(text)))
    return next(each for each in program.entries if each.name == entry)


def at_two(size: Dim) -> int:
    """A size for a batch of two."""
    return size.evaluate(dict.fromkeys(size.symbols(), 2))


def large_buffers(entry: EntryProgram, elements: int) -> list[str]:
    """The names of buffers in the arena with at least so many elements whatever the batch is."""
    found: list[str] = []
    for buffer in entry.buffers:
        if buffer.role is BufferRole.ARENA and at_two(product(buffer.shape)) >= elements:
            found.append(buffer.name)
    return found


PLAIN = """
entry train[B](ids: i32[B], rate: f64) -> (loss: f64) {
  let loss = sum(square(table[ids])) + sum(exp(bias[ids]))
  table -= rate * grad(loss, table)
  bias := bias - rate * grad(loss, bias)
  return loss
}
"""


@pytest.mark.parametrize("ids", [[], [7], [3, 3, 3], [-1, ROWS - 1, 5, -ROWS, 0], list(range(300)) * 2])
def test_rows_that_were_read_move(ids: list[int]) -> None:
    module = module_of(PLAIN)
    table, bias = module.state["table"].copy(), module.state["bias"].copy()
    slope, slopes = np.zeros_like(table), np.zeros_like(bias)
    np.add.at(slope, ids, 2 * table[ids])
    np.add.at(slopes, ids, np.exp(bias[ids]))
    loss = module.train(np.array(ids, np.int32), 0.1).loss
    assert loss == pytest.approx(np.square(table[ids]).sum() + np.exp(bias[ids]).sum(), rel=1e-12)
    np.testing.assert_allclose(module.state["table"], table - 0.1 * slope, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(module.state["bias"], bias - 0.1 * slopes, rtol=1e-12, atol=1e-14)
    untouched = np.setdiff1d(np.arange(ROWS), np.array(ids, int) % ROWS)
    np.testing.assert_array_equal(module.state["table"][untouched], table[untouched])


@pytest.mark.parametrize("bad", [ROWS, -ROWS - 1, 2**31 - 1])
def test_a_number_that_is_no_row_names_the_line_and_changes_nothing(bad: int) -> None:
    module = module_of(PLAIN)
    table, bias = module.state["table"].copy(), module.state["bias"].copy()
    with pytest.raises(RunError) as caught:
        module.train(np.array([1, bad, 2], np.int32), 0.1)
    assert caught.value.code == "E0904"
    assert "table[ids]" in str(caught.value) or ":6" in str(caught.value)
    np.testing.assert_array_equal(module.state["table"], table)
    np.testing.assert_array_equal(module.state["bias"], bias)


def test_rows_with_one_number_are_subtracted_in_their_order() -> None:
    """The rounding that is documented: as `table[ids] -= rows`, one row after the other."""
    body = """
    entry train[B](ids: i64[B], x: f64[B]) {
      let loss = sum(bias[ids] * x)
      bias -= grad(loss, bias)
    }
    """
    module = module_of(body)
    module.state["bias"] = np.full(ROWS, 1e16)
    x = np.array([1.0, 1.0, 1e16, 1.0])
    module.train(np.array([4, 4, 4, 4]), x)
    expected = 1e16
    for each in x:
        expected -= each
    assert module.state["bias"][4] == expected
    assert expected != 1e16 - x.sum()


CASES = {
    "plain": PLAIN,
    "pairs": """
entry train(ids: i32[3, 2], rate: f64) -> f64 {
  let loss = sum(square(table[ids]))
  table -= rate * grad(loss, table)
  return loss
}""",
    "slices": """
entry train[B](ids: i32[B], rate: f64) -> (loss: f64, before: f64) {
  let first = table[0:3]
  let loss = sum(square(table[2:8])) + sum(table[1] * table[5:6]) + sum(square(table[::100]))
  table -= rate * grad(loss, table)
  return loss, sum(first)
}""",
    "columns": """
entry train[B](ids: i32[B], pairs: i64[2, 3], k: i32, rate: f64) -> f64 {
  let turned = transpose(table)[1:3][:, pairs]
  let loss = sum(square(table[ids, 0])) + sum(exp(table[ids, 1:3])) + table[k, 2] + sum((table as f32)[ids] as f64)
  let more = loss + sum(square(turned)) + sum(square(bias[ids]))
  table -= rate * grad(more, table)
  return more
}""",
    "sizes found out while it runs": """
entry train[B](mask: bool[B], c: bool, rate: f64) -> f64 {
  let ids = nonzero(mask)
  let loss = sum(square(table[ids])) + sum(exp(bias[ids]))
  let y = if c {
    let others = nonzero(not mask)
    yield loss + sum(table[others])
  } else { yield loss }
  table -= rate * grad(y, table)
  bias -= rate * grad(y, bias)
  return y
}""",
    "branches": """
entry train[B](ids: i32[B], more: i32[3], c: bool) -> f64 {
  let y = if c { yield sum(square(table[ids])) } else { yield sum(exp(table[more])) + sum(table[0:2]) }
  table -= 0.1 * grad(y, table)
  return y
}""",
    "rounds": """
entry train[B](ids: i32[B], rate: f64) -> f64 {
  let y = loop s: f64 = 0 for i in 0..B { s = 0.5 * s + sum(square(table[ids[i]])) }
  table -= rate * grad(y, table)
  return y
}""",
    "training in a loop": """
entry train[B](ids: i32[B], rate: f64) -> f64 {
  let last = loop last: f64 = 0 for i in 0..5 {
    let loss = sum(square(table[ids]))
    table -= rate * grad(loss, table)
    last = loss
  }
  return last
}""",
    "clipped": """
from std.optim import Sgd, clip_by_global_norm
var optimiser = Sgd(params(program), rate = 0.1)
entry train[B](ids: i32[B]) -> f64 {
  let loss = sum(square(table[ids])) + sum(exp(bias[ids]))
  optimiser.apply(clip_by_global_norm(grad(loss, params(program)), 0.5))
  return loss
}""",
    "adagrad": """
from std.optim import AdaGrad
var optimiser = AdaGrad(params(program), rate = 0.1)
entry train[B](ids: i32[B]) -> f64 {
  let loss = sum(square(table[ids])) + sum(exp(bias[ids]))
  optimiser.step(loss)
  return loss
}""",
    "sgd": """
from std.optim import Sgd
var optimiser = Sgd(params(program), rate = 0.1)
entry train[B](ids: i32[B]) -> f64 {
  let loss = sum(square(table[ids])) + sum(exp(bias[ids]))
  optimiser.step(loss)
  return loss
}""",
}


def whole(body: str) -> str:
    imports = "".join(f"{line}\n" for line in body.splitlines() if line.startswith("from "))
    rest = "\n".join(line for line in body.splitlines() if not line.startswith("from "))
    return HEAD.replace("dfg 1\n", f"dfg 1\n{imports}") + rest


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("sizes")])
def test_nothing_of_the_size_of_the_table_is_made(name: str) -> None:
    entry = planned(whole(CASES[name]))
    assert large_buffers(entry, ROWS) == []
    assert at_two(entry.arena) < 8 * ROWS


def test_columns_of_rows_move() -> None:
    module = module_of(CASES["columns"])
    table, slope = module.state["table"].copy(), np.zeros((ROWS, WIDTH))
    ids, pairs = np.array([5, 5, -2], np.int32), np.array([[0, 5, 5], [7, -1, 0]])
    np.add.at(slope, (ids, 0), 2 * table[ids, 0])
    np.add.at(slope, (ids, slice(1, 3)), np.exp(table[ids, 1:3]))
    np.add.at(slope, ids, 1)
    slope[-3, 2] += 1
    np.add.at(slope, (pairs, slice(1, 3)), 2 * table[pairs, 1:3])
    module.train(ids, pairs, -3, 0.1)
    np.testing.assert_allclose(module.state["table"], table - 0.1 * slope, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("c", [True, False])
def test_as_many_rows_move_as_were_found(c: bool) -> None:
    module = module_of(CASES["sizes found out while it runs"])
    table, slope = module.state["table"].copy(), np.zeros((ROWS, WIDTH))
    mask = np.random.default_rng(2).random(60) < 0.4
    slope[:60][mask] = 2 * table[:60][mask]
    slope[:60][~mask] = c
    module.train(mask, c, 0.1)
    np.testing.assert_allclose(module.state["table"], table - 0.1 * slope, rtol=1e-12, atol=1e-14)


def test_the_same_table_used_densely_keeps_a_dense_gradient() -> None:
    body = """
    entry train[B](ids: i32[B]) -> f64 {
      let loss = sum(table[ids] @ transpose(table))
      table -= 0.1 * grad(loss, table)
      return loss
    }
    """
    assert large_buffers(planned(HEAD + body), ROWS)
    module = module_of(body)
    table, ids = module.state["table"].copy(), np.array([4, 4, -1, 0], np.int32)
    slope = np.broadcast_to(table[ids].sum(0), table.shape).copy()
    np.add.at(slope, ids, table.sum(0))
    module.train(ids)
    np.testing.assert_allclose(module.state["table"], table - 0.1 * slope, rtol=1e-10, atol=1e-10)


def test_momentum_and_adam_stay_dense() -> None:
    for name in ("Momentum", "Adam"):
        text = whole(CASES["sgd"].replace("Sgd", name))
        module = dfc_runtime.loads(dfc.compile(text=text).to_bytes(), threads=1)
        table = module.state["table"].copy()
        module.train(np.array([1, 2], np.int32))
        module.train(np.array([3], np.int32))
        moved = np.any(module.state["table"] != table, axis=1)
        assert list(np.nonzero(moved)[0]) == [1, 2, 3]


def test_the_norm_of_a_gradient_is_that_of_the_sums_of_its_rows() -> None:
    module = dfc_runtime.loads(dfc.compile(text=whole(CASES["clipped"])).to_bytes(), threads=2)
    table, bias = module.state["table"].copy(), module.state["bias"].copy()
    ids = np.array([4, -3, 4, 4, 9], np.int32)
    slopes = [np.zeros_like(table), np.zeros_like(bias)]
    np.add.at(slopes[0], ids, 2 * table[ids])
    np.add.at(slopes[1], ids, np.exp(bias[ids]))
    factor = 0.5 / np.sqrt(sum(np.square(slope).sum() for slope in slopes))
    assert factor < 1
    module.train(ids)
    np.testing.assert_allclose(module.state["table"], table - 0.1 * factor * slopes[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(module.state["bias"], bias - 0.1 * factor * slopes[1], rtol=1e-12, atol=1e-14)


def test_a_small_table_is_not_worth_sorting_for() -> None:
    small = whole(CASES["adagrad"]).replace(f"[{ROWS}", "[10")
    entry = planned(small)
    assert [
        buffer.name for buffer in entry.buffers if buffer.role is BufferRole.ARENA and buffer.shape[:1] == (dim(10),)
    ]
    assert not any(buffer.name.endswith("argsort") for buffer in entry.buffers)


def test_adagrad_adds_up_rows_before_it_squares_them() -> None:
    module = dfc_runtime.loads(dfc.compile(text=whole(CASES["adagrad"])).to_bytes(), threads=2)
    table, bias = module.state["table"].copy(), module.state["bias"].copy()
    sums = [np.zeros_like(table), np.zeros_like(bias)]
    rng = np.random.default_rng(3)
    for step in range(20):
        ids = rng.integers(-20, 20, rng.integers(0, 60) if step % 2 else 80).astype(np.int32)
        slopes = [np.zeros_like(table), np.zeros_like(bias)]
        np.add.at(slopes[0], ids, 2 * table[ids])
        np.add.at(slopes[1], ids, np.exp(bias[ids]))
        for value, total, slope in zip((table, bias), sums, slopes, strict=True):
            total += slope**2
            value -= 0.1 * slope / (np.sqrt(total) + 1e-10)
        module.train(ids)
        np.testing.assert_allclose(module.state["table"], table, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(module.state["bias"], bias, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("c", [True, False])
def test_only_the_rows_of_the_branch_taken_move(c: bool) -> None:
    module = module_of(CASES["branches"])
    table = module.state["table"].copy()
    ids, more = np.array([5, 5, -2], np.int32), np.array([9, 5, 9], np.int32)
    slope = np.zeros_like(table)
    if c:
        np.add.at(slope, ids, 2 * table[ids])
    else:
        np.add.at(slope, more, np.exp(table[more]))
        slope[0:2] += 1
    beyond = np.array([ROWS, 0, 0], np.int32)
    module.train(ids if c else beyond, beyond if c else more, c)
    np.testing.assert_allclose(module.state["table"], table - 0.1 * slope, rtol=1e-12, atol=1e-14)


def test_rows_read_in_the_iterations_of_a_loop_move() -> None:
    module = module_of(CASES["rounds"])
    table, ids = module.state["table"].copy(), np.array([5, 8, 5, -1, 5], np.int32)
    slope = np.zeros_like(table)
    np.add.at(slope, ids, 2 * table[ids] * 0.5 ** np.arange(4, -1, -1)[:, None])
    module.train(ids, 0.1)
    np.testing.assert_allclose(module.state["table"], table - 0.1 * slope, rtol=1e-12, atol=1e-14)


def test_a_training_loop_moves_the_rows_in_every_round() -> None:
    module = module_of(CASES["training in a loop"])
    table = module.state["table"].copy()
    module.train(np.array([5, 8], np.int32), 0.1)
    table[[5, 8]] *= 0.8**5
    np.testing.assert_allclose(module.state["table"], table, rtol=1e-12)


def test_word_vectors_follow_their_transcription_for_a_hundred_steps() -> None:
    module = dfc_runtime.loads(dfc.compile(text=PROGRAM).to_bytes(), threads=2)
    model = WordVectors(module.state["table"], module.state["output"], module.state["bias"])
    rng = np.random.default_rng(1)
    for _ in range(100):
        center, context = rng.integers(0, WORDS, (2, 7)).astype(np.int32)
        result = module.train(center, context, 0.2)
        assert result.loss == pytest.approx(model.step(center, context, result.drawn, 0.2), rel=1e-12)
    for name in ("table", "output", "bias"):
        np.testing.assert_allclose(module.state[name], getattr(model, name), rtol=1e-12, atol=1e-15)


def test_word_vectors_make_nothing_of_the_size_of_their_tables() -> None:
    larger = PROGRAM.replace(f"WORDS = {WORDS}", "WORDS = 10_000_000")
    assert large_buffers(planned(larger), 10_000) == []
