"""Entries taken apart: a computation and an update that together are the entry."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile, Span
from dfc.distribute.deployment.model import Replicate
from dfc.distribute.separate import take_apart, together
from dfc.driver.api import compile_source
from dfc.driver.pipeline import check, optimise
from dfc.elaborate.build import build
from dfc.ir.graph import Graph
from dfc.ir.options import CompileOptions
from dfc.ops.evaluate import evaluate, initial_state

NOWHERE = Span.nowhere()
STATEMENT = Replicate("train", "worker", "async", "B", "mean", 4, NOWHERE, NOWHERE, NOWHERE)
RECURRENT = """
dfg 1
param w: f64[2, 2] = 0.5
param table: f64[5, 2] = 0.25
var seen: i64 = 0
var usual: f64 = 0
entry train[B](ids: i32[B], rate: f64) -> (loss: f64) {
  let h = loop h = table[ids] for i in 0..3 { h = tanh(h @ w) }
  let loss = mean(square(h))
  let dw, dtable = grad(loss, [w, table])
  usual := 0.5 * usual + 0.5 * loss
  w := (1 - 0.125 * rate) * w - rate * dw
  table -= rate * dtable
  seen += B
  return loss
}
"""


def apart(text: str) -> Graph:
    return take_apart(build(SourceFile("model.dfg", dedent(text))), [STATEMENT])


def test_both_halves_one_after_the_other_are_the_entry() -> None:
    whole = optimise(build(SourceFile("model.dfg", RECURRENT)))
    halves = apart(RECURRENT)
    check(halves, "separate")
    halves = optimise(halves)
    computing, updating = halves.entries["train"], halves.entries["train_update"]
    assert computing.apart is not None and computing.apart.variables == ("w", "table")
    state = initial_state(whole)
    feeds = {"ids": np.array([0, 3, 3, 1], np.int32), "rate": np.float64(0.5)}
    expected = evaluate(whole, whole.entries["train"], feeds, state)
    variables = zip(computing.parameter_names[2:], computing.apart.variables, strict=True)
    computed = evaluate(halves, computing, {**feeds, **{name: state[variable] for name, variable in variables}}, state)
    handed = dict(zip(updating.parameter_names, computed.results[1:], strict=True))
    updated = evaluate(halves, updating, handed, state)
    assert computed.results[0] == expected.results[0]
    for name, value in expected.state.items():
        np.testing.assert_allclose(updated.state[name], value, rtol=1e-14, err_msg=name)


def test_reads_that_only_results_or_losses_use_stand_in_the_way_of_no_update() -> None:
    halves = apart(
        """
        dfg 1
        param w: f64 = 1
        var kept: f64 = 3
        entry train[B](x: f64[B], rate: f64) -> (loss: f64, kept_now: f64) {
          let loss = mean(square(w * x))
          w := rate * grad(loss, w)
          return loss, kept * 2
        }
        """
    )
    check(halves, "separate")
    update = halves.entries["train_update"]
    assert [node.op for node in update.block.nodes] == ["mul", "assign"]


def test_parts_of_entries_are_cut_out_of_what_the_author_wrote() -> None:
    built = build(SourceFile("model.dfg", RECURRENT))
    halves = take_apart(built, [STATEMENT])
    assert together(halves).entries == built.entries


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("w -= rate * grad(mean(w * x), w)\n  return w", "a result that depends on an update"),
        (
            'w -= rate * grad(mean(w * x), w)\n  debug.print("{}", rate)\n  return rate',
            "`debug_print` is not supported yet",
        ),
        ("w -= grad(mean(w * x), w) + mean(zeros(f64[B]) + w)\n  return rate", "a size that only the batch decides"),
        ("w := w + mean(x)\n  return rate", "takes no gradient of a variable"),
    ],
)
def test_what_cannot_be_two_is_refused(body: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        apart(f"dfg 1\nparam w: f64 = 1\nentry train[B](x: f64[B], rate: f64) -> (y: f64) {{\n  {body}\n}}\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-> (y: f64[B]) {\n  w -= grad(mean(w * x), w)\n  return w * x", "has a row for each example"),
        ("-> (y: f64) {\n  let h = w * x\n  w -= grad(mean(h), w) + h[0]\n  return mean(h)", "one gradient for all"),
        ("-> (y: f64) {\n  w -= grad(mean(w * x), w) + (B + 1) as f64\n  return 1", "one gradient for all"),
    ],
)
def test_backups_want_what_can_be_added_up(text: str, message: str) -> None:
    backup = replace(STATEMENT, mode="backup", backups=1)
    source = SourceFile("model.dfg", f"dfg 1\nparam w: f64 = 1\nentry train[B](x: f64[B]) {text}\n}}\n")
    with pytest.raises(CompileError, match=message):
        take_apart(build(source), [backup])


def test_backups_add_sizes_average_gradients_and_take_from_one_what_is_the_same_for_all() -> None:
    text = """
        dfg 1
        param w: f64[2] = 1
        var seen: f64 = 0
        var columns: i64 = 0
        entry train[B, K](x: f64[B, K], scale: f64) -> (loss: f64) {
          let small = 0.5 * scale
          let n = B as f64
          let shrink = small * sum(square(w))
          let loss = sum(x) * sum(w) / n + shrink
          w -= small * grad(loss, w) + shrink
          seen += n
          columns += K
          return loss
        }
        """
    backup = replace(STATEMENT, mode="backup", backups=1)
    halves = take_apart(build(SourceFile("model.dfg", dedent(text))), [backup])
    check(halves, "separate")
    apart, update = halves.entries["train"].apart, halves.entries["train_update"]
    assert apart is not None
    handed = dict(zip(update.parameter_names, apart.handed, strict=True))
    # `scale` is fed to all; all compute `shrink` from the same variables; `dim` is B, and `dim_1` K
    assert handed == {"scale_1": "first", "dim": "sum", "grad": "mean", "shrink": "first", "dim_1": "first"}


def test_a_whole_number_that_is_no_row_is_refused() -> None:
    with pytest.raises(CompileError, match="nothing says what `n` of several steps is"):
        apart(
            """
            dfg 1
            param w: f64 = 1
            entry train[B](x: f64[B]) -> (n: i64) {
              w -= grad(mean(w * x), w)
              return B
            }
            """
        )


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ("job worker tasks 2", "would both compute steps of `train` and update its state"),
        ('job ps tasks 2\njob worker tasks 2\nplace "w" on ps task 0\nplace "table" on ps task 1', "on several tasks"),
        ('job ps tasks 2\njob worker tasks 2\nshard "table" axis 0 over ps', "on several tasks"),
    ],
)
def test_state_is_kept_on_one_task_of_another_job(jobs: str, message: str) -> None:
    statement = 'replicate train over worker with mode = "async", split = "B"'
    deploy = SourceFile("model.deploy", f'deploy 1 for "model.dfg"\n{jobs}\n{statement}\n')
    with pytest.raises(CompileError, match=message):
        compile_source(SourceFile("model.dfg", RECURRENT), CompileOptions(), deploy)
