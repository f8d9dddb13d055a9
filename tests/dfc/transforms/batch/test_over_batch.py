"""Which results are put together from those of batches: told only where a whole set follows from its batches."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.driver import pipeline
from dfc.ir.options import CompileOptions
from dfc.ops.evaluate import evaluate, initial_state
from dfc.transforms.batch.over_batch import over_batch, results_over
from tests.support.building import graph_of

STATE = "param w: f32[3] = 0.5\nvar dice: rng = philox(seed = 3)\n"


def kinds(result: str, before: str = "", kind: str = "f32", state: str = STATE) -> str | None:
    """How the result of an entry with `x: f32[B, 3]` and `t: f32[B]` is put together."""
    text = f"{state}entry e[B](x: f32[B, 3], t: f32[B]) -> (r: {kind}) {{\n{before}\n  return {result}\n}}\n"
    graph = pipeline.optimise(graph_of(text), CompileOptions())
    entry = graph.entries["e"]
    return over_batch(entry, entry.dims[0]).get("r")


@pytest.mark.parametrize(
    ("result", "kind", "how"),
    [
        ("mean(t)", "f32", "mean"),
        ("mean(square(x @ w - t))", "f32", "mean"),
        ("mean(cross_entropy(x, (t > 0.0) as i32))", "f32", "mean"),
        ("mean((argmax(x, axis = 1) == (t as i32)) as f32)", "f32", "mean"),
        ("sum(t) / (B as f32)", "f32", "mean"),
        ("0.5 * mean(t) + mean(x)", "f32", "mean"),
        ("mean(t) + 0.1 * sum(square(w))", "f32", "mean"),
        ("sum(t)", "f32", "sum"),
        ("-sum(t) / 3.0", "f32", "sum"),
        ("sum((t > 0.0) as i32)", "i32", "sum"),
        ("max(t)", "f32", "max"),
        ("min(x)", "f32", "min"),
        ("sqrt(mean(square(t)))", "f32", None),
        ("variance(t)", "f32", None),
        ("mean(square(t - mean(t)))", "f32", None),
        ("mean(t) * mean(t)", "f32", None),
        ("sum(t) + sum(square(w))", "f32", None),
        ("sum(t) / (sum((t > 0.0) as f32) + 1.0)", "f32", None),
        ("mean(t) as i32", "i32", None),
        ("t[0]", "f32", None),
        ("mean(sort(t)[:1])", "f32", None),
        ("sum(w)", "f32", None),
        ("B as f32", "f32", None),
        ("mean(t * (iota(i64[B]) as f32))", "f32", None),
    ],
)
def test_only_what_follows_from_batches_is_put_together(result: str, kind: str, how: str | None) -> None:
    assert kinds(result, "  assert B >= 1" if "[0]" in result or "[:1]" in result else "", kind) == how


def test_what_is_drawn_for_each_example_belongs_to_it() -> None:
    assert kinds("mean(square(t + n))", "  let n = dice.normal(f32[B])") == "mean"
    assert kinds("mean(t) + n", "  let n = dice.normal(f32)") == "mean"


def test_what_was_written_by_the_batch_is_no_constant() -> None:
    assert kinds("mean(t) + w[0]", "  w += mean(x, axis = 0)") is None
    assert kinds("mean(x @ w)", "  w += mean(x, axis = 0)") is None


def test_a_loop_over_the_steps_of_each_example_is_a_mean() -> None:
    loop = "  let y = loop y = t for i in 0..3 {\n    y = tanh(y)\n  }"
    assert kinds("mean(y)", loop) == "mean"


def test_every_size_that_feeds_can_be_cut_along_is_told() -> None:
    graph = pipeline.optimise(
        graph_of("entry e[B, N](x: f32[B, N]) -> (r: f32, s: f32) {\n  return mean(x), sum(mean(x, axis = 1))\n}\n"),
        CompileOptions(),
    )
    entry = graph.entries["e"]
    told = {name: {str(size): how for size, how in each} for name, each in results_over(entry).items()}
    assert told == {"r": {"B": "mean", "N": "mean"}, "s": {"B": "sum", "N": "mean"}}


@pytest.mark.parametrize("result", ["mean(square(x @ w - t))", "sum(t)", "max(t)", "mean(t) + sum(w)"])
def test_batches_give_what_the_whole_set_gives(result: str) -> None:
    text = f"{STATE}readonly entry e[B](x: f32[B, 3], t: f32[B]) -> (r: f32) {{\n  return {result}\n}}\n"
    graph = graph_of(text)
    ready = pipeline.optimise(graph, CompileOptions()).entries["e"]
    how = over_batch(ready, ready.dims[0])["r"]
    random = np.random.default_rng(4)
    x, t = random.normal(size=(10, 3)).astype(np.float32), random.normal(size=10).astype(np.float32)
    state = initial_state(graph)

    def value(part: slice) -> float:
        return float(evaluate(graph, "e", {"x": x[part], "t": t[part]}, state).results[0])

    a, b = value(slice(0, 7)), value(slice(7, 10))
    together = {"mean": (7 * a + 3 * b) / 10, "sum": a + b, "max": max(a, b)}[how]
    assert together == pytest.approx(value(slice(0, 10)), rel=1e-5)
