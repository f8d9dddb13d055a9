"""The digits on real ranks: copies of the weights on one, two or four, or a server with them, end with one hash, and
tell the same means."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import dfc_runtime
from dfc.driver import api
from tests.mpi.test_run_command import new
from tests.support.corpus import ROOT
from tests.support.mpi import PATHS
from tests.support.rank_launcher import forked_job
from tests.support.sweeping import few

pytestmark = [pytest.mark.timeout(120)]

SAMPLES = ROOT / "samples"
DATA = SAMPLES / "data" / "digits.npz"
FEEDS = ("--feed", f"images={DATA}:train_images", "--feed", f"labels={DATA}:train_labels", "--feed", "rate=0.3")
BATCH = 160
WAYS = [("digits_server", 3, 2), ("digits", 1, 1), ("digits", 2, 2), ("digits", 4, 4), ("digits_server", 2, 1)]


def run(folder: Path, name: str, ranks: int, workers: int, *words: object) -> subprocess.CompletedProcess[str]:
    """`dfc run … train` on so many ranks with the images to train on."""
    bundle = folder / f"{name}.bundle"
    if not bundle.exists():
        api.compile(SAMPLES / "digits.dfg", deploy=SAMPLES / f"{name}.deploy").save(bundle)
    first = ("-n", ranks, "--job", f"worker={workers}", bundle, "train", *FEEDS)
    environment = {**os.environ, "PYTHONPATH": PATHS, "TMPDIR": str(folder), "DFC_THREADS": "1"}
    return forked_job("run", *first, *words, folder=folder, environment=environment, timeout=60)


@dataclass(frozen=True)
class Epoch:
    """The hash of the weights after it, and what it is said to have come to."""

    weights: str
    steps: int
    results: dict[str, float]
    examples: int
    over: dict[str, str]


@pytest.fixture(scope="module")
def epochs(tmp_path_factory: pytest.TempPathFactory) -> list[Epoch]:
    """An epoch in each of the ways."""
    folder = tmp_path_factory.mktemp("ways")
    return [trained(folder, *way) for way in few(WAYS, 2)]


def trained(folder: Path, name: str, ranks: int, workers: int) -> Epoch:
    saved = folder / f"{name}-{ranks}"
    done = run(folder, name, ranks, workers, "--batch", BATCH, "--last", "drop", "--json", "--state", saved)
    assert (done.returncode, done.stderr) == (0, new(saved))
    (file,) = saved.glob("step-*/task-*.safetensors")
    found = json.loads(done.stdout)
    weights = hashlib.sha256(file.read_bytes()).hexdigest()
    return Epoch(weights, found["steps"], found["results"], found["examples"], found["over"])


def test_every_way_ends_with_the_same_weights(epochs: list[Epoch]) -> None:
    assert len(epochs) >= 2
    assert len({each.weights for each in epochs}) == 1


def test_every_way_tells_the_same_means_of_an_epoch(epochs: list[Epoch], tmp_path: Path) -> None:
    first, *others = epochs
    assert others == [first] * len(others)
    assert (first.steps, first.examples, first.over) == (8, 1280, {"loss": "mean", "accuracy": "mean"})
    api.compile(SAMPLES / "digits.dfg").save(tmp_path / "alone.bundle")
    alone = dfc_runtime.load(tmp_path / "alone.bundle")
    with np.load(DATA) as data:
        images, labels = data["train_images"], data["train_labels"]
    parts = [slice(at, at + BATCH) for at in range(0, 1280, BATCH)]
    batches = [alone.train(images[part], labels[part], 0.3) for part in parts]
    assert first.results["loss"] == pytest.approx(np.mean([each.loss for each in batches]), rel=1e-4)
    assert first.results["accuracy"] == pytest.approx(np.mean([each.accuracy for each in batches]), abs=1 / 1280)
