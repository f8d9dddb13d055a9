"""Epochs: each is taken once, they only rise, and nothing outside of the folder is touched."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dfc_runtime.distributed.launch import epochs
from dfc_runtime.errors import FileError


def test_each_is_taken_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: epochs.take(tmp_path / "state"), range(40)))
    assert sorted(taken) == list(range(1, 41)) and epochs.newest(tmp_path / "state") == 40
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["epochs"]


def test_they_rise_above_whatever_is_there(tmp_path: Path) -> None:
    (tmp_path / "epochs").mkdir()
    for name in ("7", "12", "x", "9" * 40, "-99", "\u00b2"):
        (tmp_path / "epochs" / name).touch()
    assert epochs.take(tmp_path) == 13


def test_the_newest_of_nothing_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    for name in ("absent", "file", "loop", "."):
        assert epochs.newest(tmp_path / name) == 0


@pytest.mark.parametrize("name", ["epochs", "state"])
def test_what_is_no_folder_is_told_with_its_reason(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "state"
    if name == "epochs":
        folder.mkdir()
        (tmp_path / "elsewhere").mkdir()
        (folder / "epochs").symlink_to(tmp_path / "elsewhere")
    else:
        folder.touch()
    with pytest.raises(FileError, match=f"cannot save checkpoints in {folder}: "):
        epochs.take(folder)
    assert not (tmp_path / "elsewhere").exists() or not os.listdir(tmp_path / "elsewhere")


def test_a_folder_in_which_no_checkpoint_can_be_made_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that may not be written, which a test of root cannot make."""
    (tmp_path / "epochs").mkdir()
    real = os.mkdir

    def refused(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        if dir_fd is not None:
            raise PermissionError(13, "Permission denied")
        real(path, mode)

    monkeypatch.setattr(os, "mkdir", refused)
    with pytest.raises(FileError, match="Permission denied"):
        epochs.take(tmp_path)
    assert epochs.newest(tmp_path) == 0


def test_one_who_has_been_replaced_is_told(tmp_path: Path) -> None:
    mine = epochs.take(tmp_path)
    epochs.check(tmp_path, mine)
    epochs.check(tmp_path, None)
    theirs = epochs.take(tmp_path)
    epochs.check(tmp_path, theirs)
    with pytest.raises(epochs.ReplacedError, match=r"session 1, the other is 2"):
        epochs.check(tmp_path, mine)


def test_a_folder_is_given_back_only_if_nothing_else_is_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    epochs.release(folder, epochs.take(folder))
    assert not folder.exists()
    mine = epochs.take(folder)
    epochs.take(folder)
    epochs.release(folder, mine)
    assert sorted(os.listdir(folder / "epochs")) == ["1", "2"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes").touch()
    epochs.release(tmp_path / "other", epochs.take(tmp_path / "other"))
    assert os.listdir(tmp_path / "other") == ["notes"]
