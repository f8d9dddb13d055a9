"""Ranks that cannot write their part of a checkpoint: told once, and what was saved before stays. A disk that is full
(a small one of memory, where one may be mounted), and a limit on the size of the files of one rank, anywhere."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dfc_runtime.checkpoints import store
from tests.mpi.test_aimed_kills import Job, _words, folder
from tests.mpi.test_run_command import WITHIN, _of, _run, _start, digest, new
from tests.support.sweeping import few

pytestmark = [pytest.mark.timeout(2 * WITHIN)]
__all__ = ["folder"]

LARGEST_FILE = 100_000
"""Bytes: enough for what a rank tells its supervisor, and too few for its part of a checkpoint."""


def going_on(saved: Path) -> str:
    """What a run tells that is another one than that of the ten steps before."""
    return f"the run goes on from {saved}/step-1, the end of a run of train (10 steps)\n"


@pytest.mark.parametrize("rank", few([1, 0], 1))
def test_a_part_that_cannot_be_written_costs_no_step_and_no_earlier_checkpoint(
    folder: Path, tmp_path: Path, rank: int
) -> None:
    saved = tmp_path / "saved"
    code, _, err = _run(folder, tmp_path, *_words(saved, 10))
    assert (code, err) == (0, new(saved))
    before, names = digest(saved), {path.name for path in saved.iterdir()}

    process = _start(folder, tmp_path, *_words(saved, 30), "--max-restarts", 2)
    job = Job(process, tmp_path, saved)
    job.epoch = 2
    job.wait(lambda: job.record(rank) is not None)
    record = job.record(rank)
    assert record is not None
    resource.prlimit(int(str(record["pid"])), resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    _, err = process.communicate(timeout=WITHIN)
    assert process.returncode == 6, err
    who = f"rank {rank} (worker task {rank})"
    reason = f"cannot save a checkpoint in {saved}: File too large"
    warning = f"warning: {who}: {reason}; the run goes on\n"
    error = f"error[E0909]: {reason}\n" + f"  on {who}\n" * (rank > 0)
    assert err == going_on(saved) + warning + error
    assert digest(saved) == before
    assert {path.name for path in saved.iterdir()} == names and not store.find(saved).skipped
    assert _of(tmp_path) == []


DISK, FREE = 20 << 20, 1 << 20
"""Bytes: room for the two checkpoints that stay and the one that is written, four megabytes each, or for none."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    path = tmp_path / "disk"
    path.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", path], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no disk can be mounted here: {made.stderr.strip()}")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


def _fill(disk: Path) -> Path:
    """A file that leaves a little of the disk free."""
    path = disk / "of somebody else"
    left = os.statvfs(disk)
    path.write_bytes(bytes(left.f_bavail * left.f_frsize - FREE))
    return path


def test_ranks_on_a_full_disk_keep_what_they_have_and_go_on_when_there_is_room(
    folder: Path, disk: Path, tmp_path: Path
) -> None:
    saved = disk / "saved"
    code, _, err = _run(folder, tmp_path, *_words(saved, 10))
    assert (code, err) == (0, new(saved))
    before, names = digest(saved), {path.name for path in saved.iterdir()}
    shutil.copytree(saved, tmp_path / "aside")
    filler = _fill(disk)
    code, _, err = _run(folder, tmp_path, *_words(saved, 30), "--max-restarts", 2)
    assert code == 6, err
    where = re.escape(str(saved))
    full = f"cannot save a checkpoint in {where}: No space left on device"
    silent = f"could not save its part of a checkpoint in {where}, nor say why: the disk may be full"
    warned = rf"warning: rank [01] \(worker task [01]\)(: {full}| {silent}); the run goes on\n"
    assert re.fullmatch(
        rf"{re.escape(going_on(saved))}{warned}error\[E0909\]: {full}\n(  on rank 1 \(worker task 1\)\n)?", err
    ), err
    assert digest(saved) == before
    assert {path.name for path in saved.iterdir()} == names and not store.find(saved).skipped
    filler.unlink()
    for each in (saved, tmp_path / "aside"):
        code, _, err = _run(folder, tmp_path, *_words(each, 30))
        assert (code, err) == (0, going_on(each))
    assert digest(saved) == digest(tmp_path / "aside")
