"""`dfc run --batch`: what is told is that of the whole set, or says that it is of the last batch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dfc import api
from tests.support.command_line import Command

PROGRAM = """dfg 1

param w: f32[4] = 0.5

readonly entry measure[B](x: f32[B, 4], t: f32[B])
    -> (loss: f32, hits: i32, worst: f32, spread: f32, y: f32[B]) {
  let y = x @ w
  let away = abs(y - t)
  return mean(square(away)), sum((away < 1.0) as i32), max(away), sqrt(mean(square(away))), y
}

entry train[B](x: f32[B, 4], t: f32[B]) -> (loss: f32) {
  let loss = mean(square(x @ w - t))
  w -= 0.05 * grad(loss, w)
  return loss
}
"""
RNG = np.random.default_rng(5)
X, T = RNG.normal(size=(50, 4)).astype(np.float32), RNG.normal(size=50).astype(np.float32)
FEEDS = ("--feed", "x=data.npz:x", "--feed", "t=data.npz:t")
AWAY = np.abs(X.sum(1, dtype=np.float64) * 0.5 - T)


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    api.compile(text=PROGRAM).save("p.bundle")
    np.savez("data.npz", x=X, t=T)
    return "p.bundle"


@pytest.mark.parametrize("size", [7, 25, 50, 80])
def test_metrics_are_those_of_the_whole_set(bundle: str, dfc: Command, size: int) -> None:
    told = json.loads(dfc("run", bundle, "measure", *FEEDS, "--batch", str(size), "--json").out)
    results, over = told["results"], told["over"]
    assert told["examples"] == 50
    assert over == {"loss": "mean", "hits": "sum", "worst": "max", "spread": "last batch", "y": "last batch"}
    assert results["loss"] == pytest.approx(np.mean(AWAY**2), rel=1e-5)
    assert results["hits"] == int(np.sum(AWAY < 1))
    assert results["worst"] == pytest.approx(AWAY.max(), rel=1e-5)
    last = AWAY[(50 - 1) // size * size :]
    assert results["spread"] == pytest.approx(np.sqrt(np.mean(last**2)), rel=1e-5)


def test_a_line_says_what_numbers_are_of(bundle: str, dfc: Command) -> None:
    line = dfc("run", bundle, "measure", *FEEDS, "--batch", "20").out
    assert f"of 50 examples: loss {np.mean(AWAY**2):.4f}"[:26] in line
    whole, last = line.split("; of the last batch: ")
    assert "hits" in whole and "worst" in whole
    assert last.startswith("spread ") and "  y [" in last


def test_results_of_one_call_need_no_words(bundle: str, dfc: Command) -> None:
    assert dfc("run", bundle, "measure", *FEEDS).out.startswith("loss ")
    told = json.loads(dfc("run", bundle, "measure", *FEEDS, "--json").out)
    assert "over" not in told and "examples" not in told


def test_training_tells_the_mean_of_the_last_epoch(bundle: str, dfc: Command) -> None:
    told = json.loads(dfc("run", bundle, "train", *FEEDS, "--batch", "20", "--epochs", "3", "--json").out)
    w = np.full(4, 0.5)
    for _ in range(3):
        losses = list[float]()
        for first in (0, 20, 40):
            x, t = X[first : first + 20], T[first : first + 20]
            off = x @ w - t
            losses.append(float(np.mean(off**2)))
            w -= 0.05 * 2 * (off @ x) / len(t)
    assert told["results"]["loss"] == pytest.approx(np.average(losses, weights=(20, 20, 10)), rel=1e-4)
    assert (told["steps"], told["examples"]) == (9, 50)


def test_an_epoch_that_ends_early_is_told_as_far_as_it_went(bundle: str, dfc: Command) -> None:
    told = json.loads(dfc("run", bundle, "measure", *FEEDS, "--batch", "20", "--steps", "5", "--json").out)
    assert told["examples"] == 40
    assert told["results"]["loss"] == pytest.approx(np.mean(AWAY[:40] ** 2), rel=1e-5)
