"""The digits on real ranks: copies of the weights on one, two or four, or a server with them, end with one hash, and
tell the same means."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import dfc_runtime
from dfc.driver import api
from tests.mpi.test_run_command import new
from tests.support.corpus import ROOT
from tests.support.forked import forked_command
from tests.support.sweeping import few

pytestmark = [pytest.mark.timeout(120)]

SAMPLES = ROOT / "samples"
DATA = SAMPLES / "data" / "digits.npz"
FEEDS = ("--feed", f"images={DATA}:train_images", "--feed", f"labels={DATA}:train_labels", "--feed", "rate=0.3")
WAYS = [("digits", 1, 1), ("digits", 2, 2), ("digits", 4, 4), ("digits_server", 3, 2), ("digits_server", 2, 1)]


def run(folder: Path, name: str, ranks: int, workers: int, *words: object) -> subprocess.CompletedProcess[str]:
    """`dfc run … train` on so many ranks with the images to train on."""
    bundle = folder / f"{name}.bundle"
    if not bundle.exists():
        api.compile(SAMPLES / "digits.dfg", deploy=SAMPLES / f"{name}.deploy").save(bundle)
    first = ("-n", ranks, "--job", f"worker={workers}", bundle, "train", *FEEDS)
    paths = os.pathsep.join(str(ROOT / each) for each in ("", "runtime", "targets"))
    environment = {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(folder), "DFC_THREADS": "1"}
    return forked_command("run", *first, *words, folder=folder, environment=environment, timeout=60)


def trained(folder: Path, name: str, ranks: int, workers: int) -> str:
    """The hash of the weights after some steps."""
    saved = folder / f"{name}-{ranks}"
    done = run(folder, name, ranks, workers, "--batch", 32, "--steps", 12, "--state", saved)
    assert (done.returncode, done.stderr) == (0, new(saved))
    (file,) = saved.glob("step-*/task-*.safetensors")
    return hashlib.sha256(file.read_bytes()).hexdigest()


def told(folder: Path, name: str, ranks: int, workers: int) -> tuple[int, dict[str, float], int, dict[str, str]]:
    """What an epoch is said to have come to."""
    done = run(folder, name, ranks, workers, "--batch", 160, "--last", "drop", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    return found["steps"], found["results"], found["examples"], found["over"]


def test_every_way_ends_with_the_same_weights(tmp_path: Path) -> None:
    assert len({trained(tmp_path, *way) for way in few(WAYS, 3)}) == 1


def test_every_way_tells_the_same_means_of_an_epoch(tmp_path: Path) -> None:
    first, *others = [told(tmp_path, *way) for way in (WAYS[0], WAYS[1], WAYS[3])]
    assert others == [first] * 2
    steps, results, examples, over = first
    assert (steps, examples, over) == (8, 1280, {"loss": "mean", "accuracy": "mean"})
    api.compile(SAMPLES / "digits.dfg").save(tmp_path / "alone.bundle")
    alone = dfc_runtime.load(tmp_path / "alone.bundle")
    with np.load(DATA) as data:
        images, labels = data["train_images"], data["train_labels"]
    parts = [slice(at, at + 160) for at in range(0, 1280, 160)]
    batches = [alone.train(images[part], labels[part], 0.3) for part in parts]
    assert results["loss"] == pytest.approx(np.mean([each.loss for each in batches]), rel=1e-4)
    assert results["accuracy"] == pytest.approx(np.mean([each.accuracy for each in batches]), abs=1 / 1280)
