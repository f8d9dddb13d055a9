"""`dfc run --batch`: what is told is that of the whole set, or says that it is of the last batch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import dfc_runtime
from dfc.driver import api
from tests.support.command_line import Command
from tests.support.corpus import ROOT

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


DEPLOYMENT = """job worker tasks 1
replicate measure over worker with mode = "sync", split = "B", blocks = 5
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 5
"""


def test_blocks_of_ranks_are_no_batches(bundle: str, dfc: Command) -> None:
    """A program with a deployment tells what it tells without one."""
    Path("p.deploy").write_text(f'deploy 1 for "p.dfg"\n{DEPLOYMENT}')
    Path("p.dfg").write_text(PROGRAM)
    assert dfc("compile", "p.dfg", "--deploy", "p.deploy", "-o", "ranks.bundle").code == 0
    for words in (("measure",), ("train", "--epochs", "2")):
        alone, in_blocks = (
            json.loads(dfc("run", file, *words, *FEEDS, "--batch", "15", "--last", "drop", "--json").out)
            for file in (bundle, "ranks.bundle")
        )
        assert (in_blocks["over"], in_blocks["examples"]) == (alone["over"], 45)
        whole = [name for name, how in alone["over"].items() if how != "last batch"]
        assert whole and [in_blocks["results"][name] for name in whole] == pytest.approx(
            [alone["results"][name] for name in whole], rel=1e-5
        )


SAMPLES = ROOT / "samples"
DIGITS = SAMPLES / "data" / "digits.npz"


def _digits(part: str) -> tuple[str, ...]:
    return ("--feed", f"images={DIGITS}:{part}_images", "--feed", f"labels={DIGITS}:{part}_labels")


def test_digits_are_counted_over_all_held_out_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dfc: Command
) -> None:
    """360 images in batches of 100: the mean of four hit rates is not the share of hits."""
    monkeypatch.chdir(tmp_path)
    model = api.compile(SAMPLES / "digits.dfg")
    model.save("digits.bundle")
    words = ("train", "--batch", "32", "--steps", "60", "--feed", "rate=0.3", *_digits("train"), "--state", "trained")
    assert dfc("run", "digits.bundle", *words).code == 0
    evaluate = ("run", "digits.bundle", "evaluate", "--state", "trained", *_digits("test"), "--json")
    told, once = json.loads(dfc(*evaluate, "--batch", "100").out), json.loads(dfc(*evaluate).out)
    accuracy, loss = _measured(np.load(DIGITS))
    assert 0.5 < accuracy < 1
    assert told["examples"] == 360 and told["over"] == {"loss": "mean", "accuracy": "mean"}
    assert told["results"] == pytest.approx({"loss": loss, "accuracy": accuracy}, rel=1e-6, abs=1e-6)
    assert told["results"] == pytest.approx(once["results"], rel=1e-6, abs=1e-6)


def _measured(data: Mapping[str, np.ndarray]) -> tuple[float, float]:
    """Accuracy and loss by NumPy, in double precision."""
    model = dfc_runtime.load("digits.bundle")
    model.restore("trained")
    hidden, hidden_bias, output, output_bias = (
        np.asarray(model.state[f"{layer}.{part}"], np.float64) for layer in ("hidden", "output") for part in ("w", "b")
    )
    images, labels = data["test_images"].astype(np.float64), data["test_labels"]
    scores = np.maximum(images @ hidden + hidden_bias, 0) @ output + output_bias
    losses = np.log(np.exp(scores).sum(1)) - scores[np.arange(len(labels)), labels]
    return float(np.mean(scores.argmax(1) == labels)), float(losses.mean())
