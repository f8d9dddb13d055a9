"""What is not what its name says, in a folder of checkpoints: links, FIFOs, files, folders. Nothing outside of the
folder is touched, and nothing waits for ever."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.checkpoints import store
from dfc_runtime.checkpoints.files import Disk
from dfc_runtime.checkpoints.format import About, Saved
from dfc_runtime.errors import CheckpointError, FileError
from dfc_runtime.formats.source import FileSource

DEAD = 2**22 + 12345


def save(folder: Path, *, step: int | None = None, disk: Disk | None = None) -> Path:
    state = [Saved("v", "f32", (2,), np.ones(2, "f4"))]
    about = About(step or 0, "p")
    return store.publish(folder, about, state, numbered=step is not None, disk=disk or Disk())


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A checkpoint elsewhere, which somebody wants to keep."""
    return save(tmp_path / "archive")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_link_with_the_name_of_a_checkpoint_goes_and_what_it_leads_to_stays(tmp_path: Path, archive: Path) -> None:
    before = contents(archive)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "step-1").symlink_to(archive)
    assert store.find(tmp_path / "state").path.name == "step-1"
    for _ in range(2):
        save(tmp_path / "state")
    assert store.steps_in(tmp_path / "state") == [3, 2]
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["step-2", "step-3"]
    assert contents(archive) == before


@pytest.mark.parametrize("process", [DEAD, None], ids=["of a dead process", "of this one"])
def test_a_link_with_the_name_of_a_leftover_goes_and_what_it_leads_to_stays(
    tmp_path: Path, archive: Path, process: int | None
) -> None:
    before = contents(archive)
    name = f"step-1.tmp-{process or os.getpid()}"
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / name).symlink_to(archive)
    save(tmp_path / "state")
    assert not os.path.lexists(tmp_path / "state" / name)
    assert contents(archive) == before


def test_a_checkpoint_that_becomes_a_link_while_it_is_removed_is_not_followed(tmp_path: Path, archive: Path) -> None:
    """Somebody puts the link there between the two calls of a removal."""
    before = contents(archive)
    for _ in range(2):
        save(tmp_path / "state")

    class Late(Disk):
        def rename_inside(self, folder: int, old: str, new: str) -> None:
            super().rename_inside(folder, old, new)
            os.rename(tmp_path / "state" / new, tmp_path / "aside")
            (tmp_path / "state" / new).symlink_to(archive)

    save(tmp_path / "state", disk=Late())
    assert contents(archive) == before and len(contents(tmp_path / "aside")) == 2
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["step-2", "step-3"]


def test_links_in_a_checkpoint_that_is_removed_are_not_followed(tmp_path: Path, archive: Path) -> None:
    before = contents(archive)
    (save(tmp_path / "state") / "more").symlink_to(archive)
    (tmp_path / "state" / "step-1" / "hard").hardlink_to(archive / "manifest.json")
    for _ in range(2):
        save(tmp_path / "state")
    assert store.steps_in(tmp_path / "state") == [3, 2]
    assert contents(archive) == before


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_what_has_the_name_of_a_checkpoint_and_is_none_goes_when_it_is_old(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    (tmp_path / "state").mkdir()
    make(tmp_path / "state" / "step-1")
    for _ in range(2):
        save(tmp_path / "state")
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["step-2", "step-3"]


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("nowhere")])
def test_a_number_that_is_taken_by_something_else_is_taken(tmp_path: Path, make: Callable[[Path], None]) -> None:
    (tmp_path / "state").mkdir()
    make(tmp_path / "state" / "step-7")
    with pytest.raises(CheckpointError, match="has a checkpoint of step 7 already"):
        save(tmp_path / "state", step=7)
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["step-7"]


@pytest.mark.parametrize("name", ["task-0.safetensors", "manifest.json"])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("make", [None, os.mkfifo, Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_a_file_of_a_checkpoint_that_is_none_is_an_error_of_the_checkpoint(
    tmp_path: Path, name: str, *, whole: bool, make: Callable[[Path], None] | None
) -> None:
    path = save(tmp_path / "state")
    (path / name).unlink()
    if make is not None:
        make(path / name)
    with pytest.raises(CheckpointError) as caught:
        store.find(tmp_path / "state" if whole else path)
    assert (caught.value.code, caught.value.exit_code) == ("E0908", 5)
    assert "\n" not in caught.value.message


def test_a_file_that_becomes_a_pipe_before_it_is_opened_blocks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    seen = os.stat(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(os, "stat", lambda *_, **__: seen)
    with pytest.raises(FileError, match="is not a regular file"):
        FileSource(tmp_path / "pipe")
