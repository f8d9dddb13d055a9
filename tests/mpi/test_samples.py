"""The digits on real ranks: copies of the weights on one, two or four, or a server with them, end with one hash."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dfc import api
from tests.mpi.test_run_command import new
from tests.support.corpus import ROOT

pytestmark = [pytest.mark.xdist_group("mpi"), pytest.mark.timeout(120)]

SAMPLES = ROOT / "samples"
DATA = SAMPLES / "data" / "digits.npz"
WAYS = [("digits", 1, 1), ("digits", 2, 2), ("digits", 4, 4), ("digits_server", 3, 2), ("digits_server", 2, 1)]


def trained(folder: Path, name: str, ranks: int, workers: int) -> str:
    """The hash of the weights after some steps."""
    bundle, saved = folder / f"{name}.bundle", folder / f"{name}-{ranks}"
    if not bundle.exists():
        api.compile(SAMPLES / "digits.dfg", deploy=SAMPLES / f"{name}.deploy").save(bundle)
    words = ["-n", ranks, "--job", f"worker={workers}", bundle, "train", "--batch", 32, "--steps", 12, "--state", saved]
    words += ["--feed", f"images={DATA}:train_images", "--feed", f"labels={DATA}:train_labels", "--feed", "rate=0.3"]
    paths = os.pathsep.join(str(ROOT / each) for each in ("", "runtime", "targets"))
    done = subprocess.run(
        [sys.executable, "-m", "dfc", "run", *map(str, words)],
        env={**os.environ, "PYTHONPATH": paths, "TMPDIR": str(folder), "DFC_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, new(saved))
    (file,) = saved.glob("step-*/task-*.safetensors")
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_every_way_ends_with_the_same_weights(tmp_path: Path) -> None:
    assert len({trained(tmp_path, *way) for way in WAYS}) == 1
