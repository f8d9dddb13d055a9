"""A rank that cannot write its part of a checkpoint, as on a full disk: told once, and what was saved before stays."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from dfc_runtime.checkpoints import store
from tests.mpi.test_aimed_kills import Job, _words, folder
from tests.mpi.test_run_command import _of, _run, _start, digest

pytestmark = [pytest.mark.xdist_group("mpi"), pytest.mark.timeout(150)]
__all__ = ["folder"]

LARGEST_FILE = 100_000
"""Bytes: enough for what a rank tells its supervisor, and too few for its part of a checkpoint."""


@pytest.mark.parametrize("rank", [0, 1])
def test_a_part_that_cannot_be_written_costs_no_step_and_no_earlier_checkpoint(
    folder: Path, tmp_path: Path, rank: int
) -> None:
    saved = tmp_path / "saved"
    code, _, err = _run(folder, tmp_path, *_words(saved, 10))
    assert (code, err) == (0, "")
    before, names = digest(saved), {path.name for path in saved.iterdir()}

    process = _start(folder, tmp_path, *_words(saved, 30), "--max-restarts", 2)
    job = Job(process, tmp_path, saved)
    job.epoch = 2
    job.wait(lambda: job.record(rank) is not None)
    record = job.record(rank)
    assert record is not None
    resource.prlimit(int(str(record["pid"])), resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 6, err
    who = f"rank {rank} (worker task {rank})"
    reason = f"cannot save a checkpoint in {saved}: File too large"
    warning = f"warning: {who}: {reason}; the run goes on\n"
    error = f"error[E0909]: {reason}\n" + f"  on {who}\n" * (rank > 0)
    assert err == warning + error
    assert digest(saved) == before
    assert {path.name for path in saved.iterdir()} == names and not store.find(saved).skipped
    assert _of(tmp_path) == []
