"""Kills of ranks at chosen moments: while a program is loaded, initialised or saved, and when all is done but the end.

Nothing in the product helps to aim: moments are seen from outside, in the records of the job and the folder of its
checkpoints. A state of two megabytes a rank makes them long enough.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc_runtime.checkpoints import format, store
from dfc_runtime.errors import FileError
from tests.mpi.test_run_command import FEEDS, WITHIN, _run, _start, digest, new
from tests.support.sweeping import few

pytestmark = [pytest.mark.timeout(2 * WITHIN)]

PROGRAM = """dfg 1

param w: f32[4, 3] = uniform(-0.5, 0.5)
var large: f32[500, 1000] = normal(0.0, 1.0)
var wide: f32[500, 1000] = normal(0.0, 1.0)
var steps: i64 = 0

entry train[B](x: f32[B, 4], y: i32[B], rate: f32) -> (loss: f32) {
  let loss = mean(cross_entropy(x @ w, y))
  w -= rate * grad(loss, w)
  large := large + sum(w)
  steps += 1
  return loss
}
"""
DEPLOYMENT = """deploy 1 for "model.dfg"

job worker tasks 2

place "wide" on worker task 1
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 8
"""
STEPS, EVERY = 30, 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the bundle, its feeds, and what an undisturbed run leaves."""
    made = tmp_path_factory.mktemp("aimed")
    (made / "model.dfg").write_text(PROGRAM)
    (made / "model.deploy").write_text(DEPLOYMENT)
    dfc.compile(made / "model.dfg", deploy=made / "model.deploy").save(made / "model.bundle")
    rng = np.random.default_rng(7)
    np.save(made / "x.npy", rng.normal(size=(64, 4)).astype(np.float32))
    np.save(made / "y.npy", rng.integers(0, 3, 64).astype(np.int32))
    (made / "scratch").mkdir()
    code, _, err = _run(made, made / "scratch", *_words(made / "whole"))
    assert (code, err) == (0, new(made / "whole"))
    return made


def _words(saved: Path, steps: int = STEPS) -> list[object]:
    return ["train", *FEEDS, "--steps", steps, "--state", saved, "--save-every", EVERY, "-n", 2]


class Job:
    """A job in which one rank after the other is killed."""

    def __init__(self, process: subprocess.Popen[str], scratch: Path, saved: Path) -> None:
        self.process = process
        self.saved = saved
        self._scratch = scratch
        self.epoch = 1

    def record(self, rank: int, kind: str = "beat") -> dict[str, object] | None:
        """What a rank of this session has told."""
        for path in self._scratch.glob(f"dfc-job-*/{self.epoch}-{rank}.{kind}"):
            try:
                return json.loads(path.read_text())
            except (OSError, ValueError):
                return None
        return None

    def being_saved(self) -> bool:
        """Whether a rank writes its part of a checkpoint just now."""
        return any(self.saved.glob("step-*.tmp-*/task-*"))

    def saved_steps(self) -> int:
        """How far the newest checkpoint is."""
        for step in store.steps_in(self.saved):
            try:
                return int(format.about(self.saved / f"step-{step}").progress["steps"])
            except (OSError, ValueError, FileError):
                continue
        return 0

    def wait(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + WITHIN
        while not condition():
            assert time.monotonic() < end and self.process.poll() is None, "the moment did not come"
            time.sleep(0.001)  # shorter than any of the moments; the ranks need the processor

    def kill(self, rank: int) -> None:
        """The session is over, and the next one begins."""
        record = self.record(rank) or self.record(rank, "done")
        assert record is not None
        os.kill(int(str(record["pid"])), signal.SIGKILL)
        self.epoch += 1


def at_load(job: Job, rank: int) -> None:
    job.wait(lambda: job.record(rank) is not None)  # told before the bundle is opened


def at_init(job: Job, rank: int) -> None:
    job.wait(lambda: job.record(rank) is not None and _maps(job, rank))


def _maps(job: Job, rank: int) -> bool:
    """Whether the rank has mapped native code that is in no file: what comes next is to initialise."""
    record = job.record(rank)
    try:
        lines = Path(f"/proc/{record['pid'] if record else 0}/maps").read_text().splitlines()
    except OSError:
        return False
    return any(line.split()[1] == "r-xp" and len(line.split()) == 5 for line in lines)


def at_save(job: Job, rank: int) -> None:
    job.wait(lambda: job.record(rank) is not None and job.being_saved())


def at_the_end(job: Job, rank: int) -> None:
    """The last checkpoint has just got its name."""
    job.wait(lambda: job.record(rank) is not None and job.saved_steps() == STEPS)


@pytest.mark.parametrize(
    "kills",
    few([((at_load, 1), (at_init, 0), (at_save, 1), (at_the_end, 0)), ((at_save, 0), (at_the_end, 1))], 1),
)
def test_a_kill_at_any_of_these_moments_changes_nothing(
    folder: Path, tmp_path: Path, kills: tuple[tuple[Callable[[Job, int], None], int], ...]
) -> None:
    saved = tmp_path / "saved"
    process = _start(folder, tmp_path, *_words(saved), "--max-restarts", len(kills))
    job = Job(process, tmp_path, saved)
    for moment, rank in kills:
        moment(job, rank)
        job.kill(rank)
    out, err = process.communicate(timeout=WITHIN)
    assert process.returncode == 0, err
    assert digest(saved) == digest(folder / "whole")
    restarts = [line for line in err.splitlines() if line.startswith("dfc: restart ")]
    assert len(kills) - 1 <= len(restarts) <= len(kills), err  # the last one may have been done already
    assert "Traceback" not in out + err


def test_a_single_call_is_not_made_again_when_its_state_was_saved(folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    process = _start(folder, tmp_path, "train", *FEEDS, "--state", saved, "-n", 2, "--max-restarts", 1)
    job = Job(process, tmp_path, saved)
    job.wait(lambda: job.record(0) is not None and job.saved_steps() == 1)
    job.kill(0)
    _, err = process.communicate(timeout=WITHIN)
    assert process.returncode == 0, err
    assert int(store.find(saved).checkpoint.state["steps"].array) == 1


def test_after_a_death_it_is_told_how_to_go_on(folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    process = _start(folder, tmp_path, *_words(saved, 10**6))
    job = Job(process, tmp_path, saved)
    job.wait(lambda: bool(store.steps_in(saved)))
    job.kill(1)
    _, err = process.communicate(timeout=WITHIN)
    assert process.returncode == 75
    first, second = err.splitlines()[-2:]
    assert first.startswith("dfc: rank 1 ")
    assert second.startswith(f"  the same command goes on from the newest checkpoint in {saved}; with --max-restarts N")


def test_of_two_jobs_in_one_folder_the_older_one_ends_with_one_message(folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    older = _start(folder, tmp_path, *_words(saved, 10**6))
    Job(older, tmp_path, saved).wait(lambda: bool(store.steps_in(saved)))
    (tmp_path / "newer").mkdir()
    code, _, err = _run(folder, tmp_path / "newer", *_words(saved, 20))
    assert code == 0, err
    _, err = older.communicate(timeout=WITHIN)
    assert older.returncode == 75
    told = f"error[E0911]: another run saves in {saved} now: this one (session 1, the other is 2) ends\n"
    assert err == new(saved) + told
