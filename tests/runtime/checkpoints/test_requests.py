"""Checkpoints that entries save and restore: in branches and loops, with texts and options of the call."""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc_runtime.errors import CheckpointError, FeedError
from dfc_runtime.module import Module

PROGRAM = """
dfg 1

var steps: i64 = 0
param w: f64[3] = 1
var cache: f64 = 0 with saved = false

entry train(often: i64, folder: string) -> (steps: i64) {
  steps += 1
  w *= 2.0
  cache += 1.0
  if steps % often == 0 {
    checkpoint.save(folder, program)
  }
  w += 1.0
  return steps
}

entry many(rounds: i64, one: string, two: string) {
  for i in 0..rounds {
    steps += 1
    checkpoint.save(two, [w])
    w += 1.0
  }
  checkpoint.save(one, program)
}

entry back(folder: string) -> (old: f64[3], now: f64[3]) {
  let before = w
  checkpoint.restore(folder, program)
  return before, w
}

entry again(folder: string, times: i64) -> (sum: f64[3]) {
  let sum = loop sum = zeros(f64[3]) for i in 0..times {
    w += 5.0
    if i % 2 == 0 {
      checkpoint.restore(folder, [w])
    }
    sum = sum + w
  }
  return sum
}

readonly entry look() -> (w: f64[3]) { return w }
"""


@cache
def bundle() -> bytes:
    return dfc.compile(text=PROGRAM).to_bytes()


def model() -> Module:
    return dfc.loads(bundle(), threads=1)


def test_a_branch_saves_the_state_of_its_line(tmp_path: Path) -> None:
    first, other = model(), model()
    for _ in range(5):
        first.train(often=2, folder=str(tmp_path / "kept"))
    other.restore(tmp_path / "kept")
    assert other.state["steps"] == 4
    w = np.ones(3)
    for _ in range(4):
        w = 2 * w + 1
    np.testing.assert_array_equal(other.state["w"], w - 1)  # before the last line of the fourth step
    assert other.state["cache"] == 0


def test_a_branch_that_does_not_run_saves_nothing(tmp_path: Path) -> None:
    model().train(often=2, folder=str(tmp_path / "kept"))
    assert not (tmp_path / "kept").exists()


def test_a_loop_saves_in_every_iteration_where_its_text_says(tmp_path: Path) -> None:
    made, one, two = model(), tmp_path / "one", tmp_path / "two"
    made.many(rounds=3, two=two, one=one)
    fresh = model()
    fresh.restore(two, only="w")
    np.testing.assert_array_equal(fresh.state["w"], [3, 3, 3])
    assert fresh.state["steps"] == 0
    fresh.restore(one)
    assert fresh.state["steps"] == 3
    np.testing.assert_array_equal(fresh.state["w"], [4, 4, 4])


def test_a_restore_changes_what_is_read_after_it_and_not_before(tmp_path: Path) -> None:
    made = model()
    made.save(tmp_path / "kept")
    made.train(often=100, folder="")
    before, after = made.back(folder=tmp_path / "kept")
    np.testing.assert_array_equal(before, [3, 3, 3])
    np.testing.assert_array_equal(after, [1, 1, 1])


def test_a_loop_restores_in_its_iterations(tmp_path: Path) -> None:
    made = model()
    made.save(tmp_path / "kept")
    total, w = np.zeros(3), np.ones(3)
    for i in range(5):
        w = np.ones(3) if i % 2 == 0 else w + 5
        total += w
    np.testing.assert_array_equal(made.again(folder=tmp_path / "kept", times=5).sum, total)


def test_a_restore_takes_options_by_name(tmp_path: Path) -> None:
    made = model()
    made.train(often=1, folder=tmp_path / "kept")
    fresh = model()
    fresh.back(folder=tmp_path / "kept", only="steps")
    assert fresh.state["steps"] == 1
    np.testing.assert_array_equal(fresh.state["w"], [1, 1, 1])
    with pytest.raises(FeedError, match="has no feed only"):
        made.train(often=1, folder="", only="steps")


def test_a_checkpoint_that_is_not_there_stops_the_call_before_the_next_line(tmp_path: Path) -> None:
    made = model()
    with pytest.raises(CheckpointError) as caught:
        made.again(folder=tmp_path / "absent", times=3)
    assert caught.value.__notes__ == ["in `checkpoint_restore` at <text>:38:7"]
    np.testing.assert_array_equal(made.look().w, [6, 6, 6])


def test_a_path_that_is_no_text_is_refused_before_anything_runs() -> None:
    made = model()
    with pytest.raises(FeedError, match="a text is wanted"):
        made.train(often=2, folder=3)
    assert made.state["steps"] == 0


def test_nobody_reads_while_an_entry_saves(tmp_path: Path) -> None:
    """A reader in another thread sees the state before the call or after it."""
    made, seen, done = model(), [], threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen.append(float(made.look().w[0]))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        for number in range(5):
            made.train(often=1, folder=tmp_path / f"kept {number}")
    finally:
        done.set()
        thread.join()
    w, allowed = 1.0, {1.0}
    for _ in range(5):
        w = 2 * w + 1
        allowed.add(w)
    assert set(seen) <= allowed
