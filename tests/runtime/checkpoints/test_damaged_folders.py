"""Some of the cases of `python -m tests.gate.checkpoints`, and that it finds what is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dfc_runtime.checkpoints import files, store
from dfc_runtime.checkpoints.files import Disk
from tests.gate import checkpoints
from tests.support import gating


def test_damaged_folders_end_in_an_error_or_a_result() -> None:
    seed = 2026  # the gate takes a new one each time
    found = list(gating.findings(checkpoints.cases(seed), 14, memory=checkpoints.MEMORY))
    assert found == [], f"seed {seed}"


def test_a_removal_that_follows_links_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(disk: Disk, folder: int, name: str) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{folder}"), name)
        for each in disk.names(path):
            (path / each).unlink()

    monkeypatch.setattr(files, "remove_tree", careless)
    monkeypatch.setattr(checkpoints, "DAMAGES", (checkpoints.leftover,))
    findings = gating.findings(checkpoints.cases(3), 40, memory=checkpoints.MEMORY)
    assert any("outside of the folder" in text for _, text in findings)


def test_a_checkpoint_that_is_not_what_was_saved_would_be_found(tmp_path: Path) -> None:
    path = store.publish(tmp_path, checkpoints.About(1, "m"), [*checkpoints.state(3)[:1], *checkpoints.state(4)[1:]])
    assert checkpoints.whole(store.find(path))
