"""`dfc run -n --profile`: one profile of all ranks, by which programs are placed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dfc.diagnostics.source import SourceFile
from dfc.driver import profiles
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions
from tests.support.mpi import PATHS
from tests.support.rank_launcher import forked_job

pytestmark = [pytest.mark.timeout(180)]

PROGRAM = """dfg 1

param w: f32[4, 3] = uniform(-0.5, 0.5)

entry train[B](x: f32[B, 4], y: i32[B]) -> (loss: f32) {
  let loss = mean(cross_entropy(x @ w, y))
  w -= 0.1 * grad(loss, w)
  return loss
}
"""
DEPLOYMENT = """deploy 1 for "model.dfg"

job worker tasks 2

replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 8
"""


def ended(folder: Path, bundle: str) -> subprocess.CompletedProcess[str]:
    feeds = ["--feed", "x=x.npy", "--feed", "y=y.npy", "--steps", "3", "--profile", "p.json"]
    environment = {**os.environ, "PYTHONPATH": PATHS, "DFC_THREADS": "1"}
    words = ("run", "-n", "2", bundle, "train", *feeds)
    return forked_job(*words, folder=folder, environment=environment, timeout=150)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    program, deployment = SourceFile("model.dfg", PROGRAM), SourceFile("model.deploy", DEPLOYMENT)
    for name, timed in (("timed", True), ("plain", False)):
        compile_source(program, CompileOptions(timed=timed), deployment).save(tmp_path / f"{name}.bundle")
    rng = np.random.default_rng(7)
    np.save(tmp_path / "x.npy", rng.normal(size=(64, 4)).astype(np.float32))
    np.save(tmp_path / "y.npy", rng.integers(0, 3, 64).astype(np.int32))
    return tmp_path


def test_all_ranks_measure_into_one_file(folder: Path) -> None:
    found = ended(folder, "timed.bundle")
    assert found.returncode == 0, found.stderr
    profile = profiles.read(folder / "p.json")
    assert profile.blocks == {"train": 8}
    launches = {name: each.launches for each in profile.kernels for name in each.names}
    assert launches["train/loss/matmul"] == 3 * 8


def test_a_bundle_without_clocks_is_one_message(folder: Path) -> None:
    found = ended(folder, "plain.bundle")
    assert found.returncode == 2
    assert "model has no clocks: compile it with --timed" in found.stderr
    assert not (folder / "p.json").exists()
