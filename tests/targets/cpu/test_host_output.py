"""Summaries, printed lines and the clock in compiled programs."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc_runtime.module import Module
from dfc_runtime.observe.summaries import Histogram, Summary


def module(text: str, **options: object) -> Module:
    return dfc.loads(dfc.compile(text=f"dfg 1\n{text}\n").to_bytes(), **options)


def test_a_summary_without_a_step_gets_the_number_of_calls_before() -> None:
    model = module(
        """
var n: i64 = 0
entry train(x: f32) {
  n += 1
  if n % 2 == 0 {
    summary.scalar("even", x)
  }
  summary.scalar("all", n)
}
entry other(x: f32) { summary.scalar("other", x) }"""
    )
    for number in range(5):
        model.train(10.0 * number)
    model.other(1.0)
    assert [(e.step, e.value) for e in model.summaries if e.tag == "even"] == [(1, 10.0), (3, 30.0)]
    assert [(e.step, e.value) for e in model.summaries if e.tag == "all"] == [(n, n + 1) for n in range(5)]
    assert [(e.step, e.value) for e in model.summaries if e.tag == "other"] == [(0, 1.0)]


def test_a_stated_step_counts_and_may_be_of_any_whole_type() -> None:
    model = module(
        """
entry f[N](x: f32[N], at: u8) {
  summary.histogram("x", x, step = at)
  for i in 0..3 {
    summary.scalar("round", 2 * i, step = i)
  }
}"""
    )
    model.f(np.array([0, 1, 3], np.float32), 200)
    first, *rounds = model.summaries
    assert (first.step, first.tag) == (200, "x")
    assert isinstance(first.value, Histogram)
    assert (first.value.count, first.value.maximum, first.value.sum) == (3, 3.0, 4.0)
    assert rounds == [Summary(i, "round", 2 * i) for i in range(3)]


@pytest.mark.parametrize(
    ("type_", "value", "told"),
    [("bool", True, True), ("i8", -3, -3), ("u64", 2**64 - 1, 2**64 - 1), ("f64", 0.1, 0.1), ("bf16", 1.5, 1.5)],
)
def test_every_kind_of_number_is_recorded_as_python_has_it(type_: str, value: object, told: object) -> None:
    model = module(f'entry f(x: {type_}) {{ summary.scalar("x", x) }}')
    model.f(value)
    (event,) = model.summaries
    assert event.value == told and type(event.value) is type(told)


def test_summaries_go_where_the_user_says(tmp_path: Path) -> None:
    text = 'entry f(x: f32) { summary.scalar("x", x) }'
    seen: list[Summary] = []
    model = module(text, summaries=seen.append)
    model.f(2.0)
    assert seen == [Summary(0, "x", 2.0)]
    path = tmp_path / "run.jsonl"
    model = module(text, summaries=path)
    model.f(3.0)
    assert '"tag": "x"' in path.read_text()
    model.close()
    with pytest.raises((ValueError, dfc.RunError), match="closed"):
        model.f(4.0)


def test_what_a_sink_raises_stops_the_call() -> None:
    def refuse(event: Summary) -> None:
        raise OverflowError(event.tag)

    model = module('var n: i64 = 0\nentry f() {\n  summary.scalar("x", n)\n  n += 1\n}', summaries=refuse)
    with pytest.raises(OverflowError, match="x"):
        model.f()
    assert model.state["n"] == 0


@pytest.mark.parametrize("rounds", ["3", "n"])
def test_gradients_through_a_loop_tell_each_round_once(rounds: str, capsys: pytest.CaptureFixture[str]) -> None:
    """However often the way back runs them again."""
    model = module(
        """
param w: f64 = 0.5
entry f(x: f64[4], n: i64) -> (loss: f64, slope: f64) {
  let h = loop h = x for i in 0..ROUNDS {
    h = tanh(h * w)
    summary.scalar("h", sum(h), step = i)
    debug.print("round {}: {}", i, h[0])
  }
  let loss = sum(h)
  return loss, grad(loss, w)
}""".replace("ROUNDS", rounds)
    )
    x = np.linspace(0.1, 1, 4)
    loss, slope = model.f(x, 3)
    h, told = x, []
    for _ in range(3):
        h = np.tanh(h * 0.5)
        told.append(h)
    np.testing.assert_allclose(model.summaries.values("h"), [each.sum() for each in told], rtol=1e-14)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["round 0", "round 1", "round 2"]
    np.testing.assert_allclose([float(line.split()[-1]) for line in lines], [each[0] for each in told], rtol=1e-14)
    step = 1e-6
    around = []
    for w in (0.5 + step, 0.5 - step):
        h = x
        for _ in range(3):
            h = np.tanh(h * w)
        around.append(h.sum())
    np.testing.assert_allclose(slope, (around[0] - around[1]) / (2 * step), rtol=1e-7)
    np.testing.assert_allclose(loss, told[-1].sum(), rtol=1e-14)


def test_lines_go_to_the_standard_error_in_the_order_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    model = module(
        """
entry f[N](x: f32[N], flag: bool) -> f32 {
  debug.print("N = {}, x = {}", N, x)
  if flag {
    debug.print("yes {{}}")
  } else {
    debug.print("no, {} {}", sum(x), flag)
  }
  debug.print("last")
  return sum(x)
}"""
    )
    assert model.f(np.array([1, 2.5], np.float32), True) == 3.5
    assert model.f(np.array([1], np.float32), False) == 1.0
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [
        "N = 2, x = [1.  2.5]", "yes {}", "last", "N = 1, x = [1.]", "no, 1.0 False", "last",
    ]  # fmt: skip


def test_the_clock_counts_nanoseconds_between_what_it_stands_after() -> None:
    model = module(
        """
entry f[N](a: f32[N, N], rounds: i64) -> (first: i64, second: i64, p: f32[N, N]) {
  let first = clock() after a
  let p = loop p = a for i in 0..rounds {
    p = p @ a
  }
  let second = clock() after p
  return first, second, p
}"""
    )
    a = np.eye(64, dtype=np.float32)
    before = time.monotonic_ns()
    first, second, _ = model.f(a, 200)
    after = time.monotonic_ns()
    assert before <= first <= second <= after
    assert second - first > 20_000  # 200 products of 64 x 64 matrices cannot be done in 20 us


def test_a_part_of_an_entry_tells_nothing_but_reads_the_clock_it_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    model = module(
        """
entry f(x: f32) -> f32 {
  let y = x * 2.0
  debug.print("y = {}", y)
  summary.scalar("y", y)
  let t = clock() after y
  debug.print("t = {}", t)
  return y
}"""
    )
    assert model.run("f/y", {"x": 4.0}) == 8.0
    before = time.monotonic_ns()
    assert model.run("f/t", {"x": 4.0}) >= before
    assert len(model.summaries) == 0 and capsys.readouterr().err == ""


def test_concurrent_calls_record_all_their_events() -> None:
    model = module('entry f(x: i64) with concurrent = true {\n  summary.scalar("x", x)\n}')
    threads = [threading.Thread(target=lambda k=k: [model.f(100 * k + n) for n in range(100)]) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(event.value for event in model.summaries) == list(range(400))
    assert sorted(event.step for event in model.summaries) == list(range(400))


def test_checks_of_finite_values_leave_what_is_told_alone(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ['debug.print("x = {}", x)', "let y = log(x)", 'debug.print("y = {}", y)', "return y"]
    text = "dfg 1\nentry f(x: f32) -> f32 {\n  " + "\n  ".join(lines) + "\n}\n"
    model = dfc.loads(dfc.compile(text=text, check_finite=True).to_bytes())
    assert model.f(1.0) == 0.0
    with pytest.raises(dfc.RunError, match="is nan"):
        model.f(-1.0)
    assert capsys.readouterr().err.splitlines() == ["x = 1.0", "y = 0.0", "x = -1.0"]
