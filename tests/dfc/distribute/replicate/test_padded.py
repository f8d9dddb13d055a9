"""Entries for batches that are filled up: what the entry gives for the rows that count, whatever is behind them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from dfc.diagnostics.source import SourceFile
from dfc.distribute.replicate.padded import Padded, padded
from dfc.distribute.replicate.short import CannotPadError
from dfc.driver.pipeline import check, optimise
from dfc.elaborate.build import build
from dfc.ir.dims import Symbol
from dfc.ir.graph import Graph
from dfc.ops.evaluate import evaluate, initial_state
from tests.support.random_programs import BATCH, Generator
from tests.support.sweeping import examples

BLOCKS = 4
SAMPLES = Path(__file__).parents[4] / "samples"


def filled(array: Any, axis: int, rows: int) -> Any:
    """Copies of the last row up to whole blocks."""
    places = np.minimum(np.arange(-(-rows // BLOCKS) * BLOCKS), rows - 1)
    return np.take(np.asarray(array), places, axis)


def counted(array: Any, axis: int, outer: int, like: Any) -> Any:
    """The rows that count, of each run along an axis."""
    apart = array.reshape(*array.shape[:axis], outer, array.shape[axis] // outer, *array.shape[axis + 1 :])
    return np.take(apart, np.arange(like.shape[axis] // outer), axis + 1).reshape(like.shape)


def agrees(graph: Graph, made: Padded, feeds: dict[str, Any], state: dict[str, Any], rows: int, bound: float) -> None:
    """Both give the same, and leave the same state."""
    (name,) = (each for each in graph.entries if each != "init")
    entry = graph.entries[name]
    given_ = {key: filled(v, made.feeds[key].axis, rows) if key in made.feeds else v for key, v in feeds.items()}
    expected = evaluate(graph, name, feeds, state)
    found = evaluate(made.graph, name, {**given_, made.valid: np.int64(rows)}, state)
    for key, wanted, value in zip(entry.result_names, expected.results, found.results, strict=False):
        piece = made.results.get(key)
        if piece is not None:
            value = counted(value, piece.axis, piece.outer.evaluate({}), wanted)
        assert value.dtype == wanted.dtype
        np.testing.assert_allclose(value, wanted, rtol=bound, atol=bound, err_msg=key)
    for key, wanted in expected.state.items():
        np.testing.assert_allclose(found.state[key], wanted, rtol=bound, atol=bound, err_msg=key)


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 10**6), nodes=st.sampled_from([3, 6, 10]))
def test_random_programs_give_what_the_short_batch_gives(seed: int, nodes: int) -> None:
    note(f"Generator({seed}, {nodes}, batches=(1, 2, 3, 5))")
    program = Generator(seed, nodes, batches=(1, 2, 3, 5)).program()
    (name,) = program.graph.entries
    try:
        made = padded(program.graph, name, BATCH, BLOCKS)
    except CannotPadError:
        return
    check(made.graph, "padded")
    agrees(program.graph, made, program.feeds, program.state, program.batch, 1e-9)


def test_most_small_random_programs_can_be_filled_up() -> None:
    made = 0
    for seed in range(40):
        program = Generator(seed, 4).program()
        try:
            made += bool(padded(program.graph, next(iter(program.graph.entries)), BATCH, BLOCKS))
        except CannotPadError:
            continue
    assert made > 25


def of(text: str) -> Graph:
    return optimise(build(SourceFile("model.dfg", text)))


def expressed(expression: str, result: str = "f32", *, state: str = "") -> Graph:
    """An entry with one result that is an expression of x: f32[B, 3] and k: i32[B]."""
    text = f"entry e[B](x: f32[B, 3], k: i32[B]) -> (r: {result}) {{\n  return {expression}\n}}\n"
    return of(f"dfg 1\n\n{state}\n\n{text}")


FEEDS = {"x": np.linspace(-1.0, 2.0, 15, dtype=np.float32).reshape(5, 3), "k": np.array([3, 1, 0, 2, 3], np.int32)}


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("sum(x)", "f32"),
        ("mean(x, axis = 0)", "f32[3]"),
        ("prod(x + 1.5)", "f32"),
        ("max(x) + min(x)", "f32"),
        ("variance(x, axis = 0)", "f32[3]"),
        ("softmax(x, axis = 0)", "f32[B, 3]"),
        ("transpose(x) @ x", "f32[3, 3]"),
        ("sum(x) / ((B * B) as f32)", "f32"),
        ("mean(x as f16)", "f16"),
        ("mean(reshape(x, [3 * B]))", "f32"),
        ("sum(iota(f32[B]))", "f32"),
        ("all(x > -2.0) and any(x > 1.9)", "bool"),
        ("argmax(x[:, 1])", "i32"),
        ("x[0]", "f32[3]"),
        ("one_hot(k, 4)", "f32[B, 4]"),
        ("sum(broadcast(2.0, [B]))", "f32"),
        ("select(k > 1, x[:, 0], 0.0)", "f32[B]"),
    ],
)
def test_what_is_made_of_all_rows_leaves_out_what_is_behind(expression: str, result: str) -> None:
    graph = expressed(expression, result)
    made = padded(graph, "e", Symbol("B"), BLOCKS)
    check(made.graph, "padded")
    agrees(graph, made, FEEDS, {}, 5, 1e-6 if "f16" not in result else 1e-3)


@pytest.mark.parametrize(
    ("expression", "result", "reason"),
    [
        ("cumsum(x, axis = 0)", "f32[B, 3]", "runs along the axis"),
        ("sort(x, axis = 0)", "f32[B, 3]", "each row picks from itself alone"),
        ("sort(x, axis = 1)", "f32[B, 3]", "each row picks from itself alone"),
        ("x @ transpose(x)", "f32[B, B]", "rows of the one matrix meet columns"),
        ("x[B - 1]", "f32[3]", "depends on how many rows"),
        ("x[::-1]", "f32[B, 3]", "depends on how many rows"),
    ],
)
def test_what_mixes_rows_is_refused_with_its_line(expression: str, result: str, reason: str) -> None:
    graph = expressed(expression, result)
    with pytest.raises(CannotPadError, match=reason) as problem:
        padded(graph, "e", Symbol("B"), BLOCKS)
    assert problem.value.span.line == 6, problem.value.span


def test_rows_that_are_added_to_a_variable_are_added_once() -> None:
    text = """dfg 1

var table: f32[4, 3] = 0.25
entry e[B](x: f32[B, 3], k: i32[B]) {
  table[k] += x
}
"""
    graph = of(text)
    made = padded(graph, "e", Symbol("B"), BLOCKS)
    agrees(graph, made, FEEDS, {"table": np.full((4, 3), 0.25, np.float32)}, 5, 1e-6)


def test_programs_with_normalisation_loops_and_rows_of_tables_take_the_step_of_the_short_batch() -> None:
    numbers = np.random.default_rng(1)
    images = {"images": numbers.random((5, 64)).astype(np.float32), "labels": numbers.integers(0, 10, 5, np.int32)}
    texts = {name: numbers.integers(0, 27, (5, 5), np.int32) for name in ("text", "following")}
    words = {"centre": np.array([3, 4, 4, 9, 3], np.int32), "near": np.array([1, 4, 2, 9, 3], np.int32)}
    for name, constants, feeds in (
        ("convnet", {"CHANNELS": 2}, {**images, "steps": 10}),
        ("lstm", {"WIDTH": 8}, texts),
        ("word_vectors", {}, words),
    ):
        built = build(SourceFile(f"{name}.dfg", (SAMPLES / f"{name}.dfg").read_text()), constants)
        graph = optimise(built)
        made = padded(graph, "train", Symbol("B"), BLOCKS)
        agrees(replace(graph, entries={"train": graph.entries["train"]}), made, feeds, initial_state(built), 5, 2e-4)


def test_a_draw_has_the_numbers_of_the_short_batch_on_every_axis() -> None:
    text = """dfg 1

var dice: rng = philox(seed = 5)
entry e[B](x: f32[B, 3], k: i32[B]) -> (r: f32[2, B]) {
  return dice.uniform(f32[2, B])
}
"""
    graph = of(text)
    made = padded(graph, "e", Symbol("B"), BLOCKS)
    state = initial_state(build(SourceFile("model.dfg", text)))
    agrees(graph, made, FEEDS, state, 5, 0)
