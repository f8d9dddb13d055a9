"""Programs whose sizes only the run finds out, compiled, against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.equality import difference
from dfc.ir.options import CompileOptions
from dfc.ops.evaluate import evaluate
from dfc.ops.spelling import show
from tests.support.building import graph_of
from tests.support.sized_programs import random_program
from tests.support.sweeping import few

PROGRAM = """
dfg 1

var buffer: i32[8] = 0
var stored: i64 = 0

fn positive[M](x: f32[M]) -> f32[?] = x[x > 0]

readonly entry chosen[B](x: f32[B]) -> (y: f32[?], count: i64) {
  let [N] y: f32[N] = positive(x)
  return 2 * y, N
}

readonly entry words[B](ids: i32[B, 3]) -> (values: i32[?], inverse: i64[B, 3], counts: i64[?]) {
  return unique(ids)
}

readonly entry places[B](m: bool[B, 4]) -> (rows: i64[?], columns: i64[?]) {
  return nonzero(m)
}

readonly entry rows[B](x: f64[B, 2], keep: bool[B]) -> (y: f64[?, 2], z: f64[?]) {
  return x[keep], x[x > 0]
}

readonly entry slopes[B](x: f64[B]) -> (values: f64[B], product: f64[B]) {
  let values, inverse, counts = unique(x)
  let loss = sum(square(values) * (counts as f64))
  let product = loop p: f64 = 1 for v in x[nonzero(x > 0)] { p = p * v }
  return grad(loss, x), grad(product, x)
}

readonly entry inner[B](x: f32[B]) -> (head: f32[2], middle: f32[?], first: f32, last: f32) {
  let y = x[x > 0]
  return y[:2], y[1:-1], y[0], y[-1]
}

readonly entry pair[B](x: f32[B]) -> (head: f32[2]) {
  let y = x[x > 0]
  return y[:2]
}

readonly entry both[A, B](x: f32[A], y: f32[B]) -> (z: f32[?]) {
  let [N] u: f32[N] = x[x > 0]
  let [M] v: f32[M] = y[y > 0]
  assert N == M, "as many of both"
  return u + v
}

readonly entry counted(n: i64) -> (i: i64[?]) { return range(n, 5) }

entry store[B](x: i32[B]) -> (held: i32[8]) {
  let [N] values: i32[N], _, _ = unique(x)
  assert N <= 8, "room for eight"
  buffer := 0
  buffer[:N] := values
  stored := N
  return buffer
}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> dfc.Module:
    path: Path = tmp_path_factory.mktemp("sizes") / "program.bundle"
    return dfc.load(dfc.compile(text=PROGRAM).save(path))


@pytest.mark.parametrize("size", [0, 1, 2, 50, 3000])
def test_results_have_the_size_that_was_found(model: dfc.Module, size: int) -> None:
    x = np.random.default_rng(size).normal(size=size).astype(np.float32)
    found = model.chosen(x)
    np.testing.assert_array_equal(found.y, 2 * x[x > 0])
    assert found.count == np.count_nonzero(x > 0)
    assert found.y.flags.owndata


def test_results_of_two_calls_do_not_share_memory(model: dfc.Module) -> None:
    first = model.chosen(np.array([1, 2, -1], np.float32)).y
    second = model.chosen(np.array([-1, 5, 7], np.float32)).y
    assert first.tolist() == [2, 4]
    assert second.tolist() == [10, 14]


@pytest.mark.parametrize("size", [0, 1, 40])
def test_unique_is_that_of_numpy(model: dfc.Module, size: int) -> None:
    ids = np.random.default_rng(size).integers(-5, 5, (size, 3)).astype(np.int32)
    values, inverse, counts = np.unique(ids, return_inverse=True, return_counts=True)
    found = model.words(ids)
    np.testing.assert_array_equal(found.values, values)
    np.testing.assert_array_equal(found.inverse, inverse.reshape(ids.shape))
    np.testing.assert_array_equal(found.counts, counts)


@pytest.mark.parametrize("size", [0, 1, 40])
def test_nonzero_and_masks_are_those_of_numpy(model: dfc.Module, size: int) -> None:
    rng = np.random.default_rng(size)
    mask = rng.random((size, 4)) < 0.4
    found = model.places(mask)
    np.testing.assert_array_equal(np.stack([found.rows, found.columns]), np.nonzero(mask))
    x, keep = rng.normal(size=(size, 2)), rng.random(size) < 0.5
    picked = model.rows(x, keep)
    np.testing.assert_array_equal(picked.y, x[keep])
    np.testing.assert_array_equal(picked.z, x[x > 0])


@pytest.mark.parametrize("size", [0, 1, 9])
def test_gradients_go_back_to_where_elements_came_from(model: dfc.Module, size: int) -> None:
    x = np.random.default_rng(size).normal(size=size)
    found = model.slopes(x)
    np.testing.assert_allclose(found.values, 2 * x)
    product = np.where(x > 0, np.prod(x[x > 0]) / np.where(x > 0, x, 1), 0)
    np.testing.assert_allclose(found.product, product)


def test_gradients_of_repeated_values_go_to_the_first_of_them(model: dfc.Module) -> None:
    x = np.array([2.0, 5.0, 2.0, 2.0])
    np.testing.assert_allclose(model.slopes(x).values, [12, 10, 0, 0])


def test_parts_of_what_was_found(model: dfc.Module) -> None:
    found = model.inner(np.array([-1, 1, 2, -3, 4], np.float32))
    assert found.head.tolist() == [1, 2]
    assert found.middle.tolist() == [2]
    assert (found.first, found.last) == (1, 4)


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ([-1.0], "`1:-1` of an axis of size N must be inside"),
        ([1.0], "`1:-1` of an axis of size N must be inside"),
    ],
)
def test_parts_outside_stop_the_call_at_their_line(model: dfc.Module, x: list[float], said: str) -> None:
    with pytest.raises(dfc.RunError, match="N >= 2 does not hold") as stopped:
        model.inner(np.array(x, np.float32))
    assert said in str(stopped.value)
    assert "return y[:2], y[1:-1]" in str(stopped.value)


def test_an_asserted_equality_is_checked_where_it_stands(model: dfc.Module) -> None:
    x, y = np.array([1, -1, 2], np.float32), np.array([5, 7], np.float32)
    assert model.both(x, y).z.tolist() == [6, 9]
    with pytest.raises(dfc.RunError, match="as many of both"):
        model.both(x, y[:1])


def test_a_size_beyond_its_bound_stops_the_call(model: dfc.Module) -> None:
    assert model.counted(0).i.tolist() == []
    assert model.counted(5).i.tolist() == [0, 1, 2, 3, 4]
    for n in (6, -1):
        with pytest.raises(dfc.RunError, match=f"is {n}, but must be between 0 and 5"):
            model.counted(n)


def test_a_size_that_was_found_says_how_much_of_a_variable_is_written(model: dfc.Module) -> None:
    assert model.store(np.array([7, 3, 7, 5], np.int32)).held.tolist() == [3, 5, 7, 0, 0, 0, 0, 0]
    assert model.state["stored"] == 3
    assert model.store(np.zeros(0, np.int32)).held.tolist() == [0] * 8
    with pytest.raises(dfc.RunError, match="room for eight"):
        model.store(np.arange(9, dtype=np.int32))


def test_parts_of_entries_find_out_what_they_need(model: dfc.Module) -> None:
    x = np.array([3, -1, 4], np.float32)
    assert model.run("chosen/y", {"x": x}).tolist() == [3, 4]
    assert model.run("chosen/count", {"chosen/y": np.ones(7, np.float32)}) == 7
    assert model.run("both/z", {"both/u": x[:1], "y": x[:2]}).tolist() == [6]
    with pytest.raises(dfc.RunError, match="as many of both"):
        model.run("both/z", {"both/u": x, "y": x})
    assert model.run("pair/head", {"pair/y": x}).tolist() == [3, -1]
    with pytest.raises(dfc.RunError, match="index 1 is out of range for axis of size 1"):
        model.run("pair/head", {"pair/y": x[:1]})


@pytest.mark.parametrize("seed", few(range(16), 3))
def test_random_programs_agree_with_numpy(seed: int, tmp_path: Path) -> None:
    program = random_program(seed, size=int(np.random.default_rng(seed).integers(0, 40)), steps=6)
    graph = graph_of(program.text)
    assert difference(graph, graph_of(show(graph))) is None
    source = SourceFile("random.dfg", program.text)
    model = dfc.load(compile_source(source, CompileOptions(verify_each=True)).save(tmp_path / "random.bundle"))
    for got, wanted in zip(model.f(program.feed), program.expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    for got, wanted in zip(evaluate(graph, "f", {"x": program.feed}).results, program.expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_one_bundle_serves_every_size(tmp_path: Path) -> None:
    program = random_program(3, size=10, steps=8)
    model = dfc.load(dfc.compile(text=program.text).save(tmp_path / "random.bundle"))
    for size in (0, 1, 17):
        other = random_program(3, size=size, steps=0)
        expected = evaluate(graph_of(program.text), "f", {"x": other.feed}).results
        for got, wanted in zip(model.f(other.feed), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
