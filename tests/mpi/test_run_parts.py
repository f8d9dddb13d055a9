"""`dfc run -n … --fetch`: values of an entry on many ranks, the same bits for any number of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.checkpoints import store
from tests.mpi.test_run_command import FEEDS, _run, prepared, train

pytestmark = [pytest.mark.timeout(180)]

VALUES = ["--fetch", "train/loss", "--fetch", "train/dw", "--feed", "x=x.npy", "--feed", "y=y.npy"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("parts"))


def test_values_of_trained_state_are_the_same_on_one_rank_and_on_three(folder: Path, tmp_path: Path) -> None:
    train(folder, tmp_path, 2, "saved", steps=5)
    steps = store.steps_in(tmp_path / "saved")
    found = []
    for ranks in (1, 3):
        out = tmp_path / f"on-{ranks}.npz"
        words = [*VALUES, "--state", tmp_path / "saved", "--out", out, "-n", ranks, "--job", f"worker={ranks}"]
        code, said, err = _run(folder, tmp_path, *words)
        assert (code, err) == (0, "")
        assert said.startswith("train/loss ")
        with np.load(out) as written:
            found.append({name: written[name].tobytes() for name in written.files})
    assert found[0] == found[1] and found[0].keys() == {"train/loss", "train/dw"}
    assert store.steps_in(tmp_path / "saved") == steps, "to look at values saves nothing"


def test_what_is_wrong_is_told_once(folder: Path, tmp_path: Path) -> None:
    code, said, err = _run(folder, tmp_path, "--fetch", "train/los", *FEEDS, "-n", 2)
    assert (code, said) == (2, "")
    assert err == "error[E0901]: `train` has no value `train/los`; did you mean train/loss?\n"


def test_json_is_one_object(folder: Path, tmp_path: Path) -> None:
    code, said, err = _run(folder, tmp_path, "--fetch", "train/loss", *VALUES[4:], "--json", "-n", 2)
    assert (code, err) == (0, "")
    assert list(json.loads(said)) == ["fetch", "results"]
