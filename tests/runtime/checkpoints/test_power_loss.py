"""After a loss of power at any moment, the newest checkpoint that was reported as saved, or a newer one, is found."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.checkpoints import store
from dfc_runtime.checkpoints.files import Disk
from dfc_runtime.checkpoints.format import About, Saved
from dfc_runtime.errors import CheckpointError
from tests.support.disk_model import Outcome, Recorder, states

SCORES = [0.5, 0.3, 0.1, 0.4, 0.2, 0.6, 0.7]


def state(number: int) -> list[Saved]:
    return [Saved("v", "i64", (3,), np.full(3, number)), Saved("w", "f32", (40,), np.full(40, number, "f4"))]


def save(disk: Disk, folder: Path, number: int, *, keep: int = 2, score: float | None = None) -> None:
    store.publish(folder, About(number, "p", score), state(number), numbered=True, keep=keep, disk=disk)


def check(outcome: Outcome, folder: str) -> None:
    """What is found is whole and at least as new as the last one reported."""
    expected = max((number for number, _ in outcome.reported), default=None)
    try:
        found = store.find(outcome.path / folder)
    except CheckpointError:
        assert expected is None, outcome.what
        return
    step = found.checkpoint.about.step
    assert expected is None or step >= expected, outcome.what
    np.testing.assert_array_equal(found.checkpoint.state["v"].array, np.full(3, step))


def run(tmp_path: Path, folder: str, numbers: Sequence[int], *, keep: int = 2, scored: bool = False) -> Recorder:
    root = tmp_path / "disk"
    root.mkdir()
    disk = Recorder(root)
    for number in numbers:
        score = SCORES[number - 1] if scored else None
        save(disk, root / folder, number, keep=keep, score=score)
        disk.reported((number, score))
    return disk


@pytest.mark.parametrize(("folder", "keep"), [("", 2), ("runs/first", 2), ("", 3)])
def test_a_checkpoint_that_was_reported_is_found(tmp_path: Path, folder: str, keep: int) -> None:
    disk = run(tmp_path, folder, range(1, 6), keep=keep)
    count = 0
    for outcome in states(disk.log, tmp_path):
        check(outcome, folder)
        shutil.rmtree(outcome.path)
        count += 1
    assert count >= 100


def test_the_best_checkpoint_that_was_reported_is_found(tmp_path: Path) -> None:
    disk = run(tmp_path, "", range(1, 8), scored=True)
    count = 0
    for outcome in states(disk.log, tmp_path):
        check(outcome, "")
        known = [score for _, score in outcome.reported]
        if known:
            found = store.find(outcome.path, best=True).checkpoint.about.score
            assert found is not None and found <= min(known), outcome.what
        shutil.rmtree(outcome.path)
        count += 1
    assert count >= 100


def test_saving_goes_on_after_a_loss_of_power(tmp_path: Path) -> None:
    disk = run(tmp_path, "", range(1, 4))
    for outcome in states(disk.log, tmp_path):
        save(Disk(), outcome.path, 10)
        assert store.find(outcome.path).checkpoint.about.step == 10, outcome.what
        assert set(store.steps_in(outcome.path)) <= {10, *range(1, 4)}
        shutil.rmtree(outcome.path)


@pytest.mark.parametrize("planted", ["sync", "sync_folder"])
def test_a_save_without_syncs_would_be_caught(tmp_path: Path, planted: str) -> None:
    """The model has teeth: leave out what makes a save durable, and some outcome loses it."""
    disk = run(tmp_path, "", range(1, 4))
    log = [entry for entry in disk.log if entry[0] != planted]
    with pytest.raises(AssertionError):
        for outcome in states(log, tmp_path):
            check(outcome, "")
