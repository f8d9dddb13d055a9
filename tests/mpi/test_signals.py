"""Signals to ranks themselves: each is a wish to stop. What was computed is saved, and the job ends with the signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dfc_runtime.checkpoints import store
from dfc_runtime.distributed.launch import processes
from dfc_runtime.distributed.launch.supervisor import permissions
from tests.mpi.test_run_command import FEEDS, WITHIN, _of, _start, _wait, digest, new, prepared, train
from tests.support.mpi import PATHS, run_ranks
from tests.support.sweeping import few

pytestmark = [pytest.mark.timeout(2 * WITHIN)]

FOR_EVER = ["train", *FEEDS, "--steps", 10**7, "-n", 2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("signals"))


def _record(scratch: Path, rank: int) -> dict[str, object]:
    """What a rank of the one session has told last; nothing yet, or no more: {}."""
    for path in scratch.glob(f"dfc-job-*/*-{rank}.beat"):
        try:
            return json.loads(path.read_text())
        except (OSError, ValueError):
            return {}
    return {}


def _in_steps(scratch: Path, process: subprocess.Popen[str]) -> None:
    """Both ranks are there, and rank 0 has made a step."""
    _wait(process, lambda: bool(_record(scratch, 0).get("step")) and bool(_record(scratch, 1)))


def _pid(scratch: Path, rank: int) -> int:
    return int(str(_record(scratch, rank)["pid"]))


def _saved_steps(saved: Path) -> int:
    return int(store.find(saved).checkpoint.state["steps"].array)


def _all_at_once(scratch: Path, process: subprocess.Popen[str]) -> None:
    """As a service manager does: the command, the launcher, all that it has started."""
    processes.signal_all([process.pid, *_of(scratch)], signal.SIGTERM)


def _rank_0(scratch: Path, _: subprocess.Popen[str]) -> None:
    os.kill(_pid(scratch, 0), signal.SIGTERM)


def _rank_1(scratch: Path, _: subprocess.Popen[str]) -> None:
    os.kill(_pid(scratch, 1), signal.SIGTERM)


@pytest.mark.parametrize("send", few([_rank_0, _all_at_once, _rank_1], 2))
def test_whoever_is_signalled_the_job_saves_and_says_with_which_signal_it_was_stopped(
    folder: Path, tmp_path: Path, send: Callable[[Path, subprocess.Popen[str]], None]
) -> None:
    saved = tmp_path / "saved"
    process = _start(folder, tmp_path, *FOR_EVER, "--state", saved, "--max-restarts", 1)
    _in_steps(tmp_path, process)
    send(tmp_path, process)
    out, err = process.communicate(timeout=WITHIN)
    assert process.returncode == 143, err
    assert ", stopped by a signal" in out
    assert _saved_steps(saved) > 0
    assert "restart" not in err and "Traceback" not in err
    if send is not _all_at_once:
        rank = 0 if send is _rank_0 else 1
        assert err == f"{new(saved)}dfc: rank {rank} was asked to stop by signal 15, so all ranks stop\n"


def test_a_run_that_was_stopped_by_a_signal_to_a_rank_goes_on_to_the_same_bits(folder: Path, tmp_path: Path) -> None:
    """The same command goes on where it was stopped, until it is stopped again."""
    saved, steps = tmp_path / "saved", 0
    for _ in range(2):
        process = _start(folder, tmp_path, *FOR_EVER, "--state", saved)
        _in_steps(tmp_path, process)
        os.kill(_pid(tmp_path, 1), signal.SIGTERM)
        _, err = process.communicate(timeout=WITHIN)
        assert process.returncode == 143, err
        begins = f"the run goes on behind step {steps} of {10**7}\n" if steps else new(saved)
        assert err.startswith(begins), err
        before, steps = steps, _saved_steps(saved)
        assert steps > before
        assert store.find(saved).checkpoint.about.progress["steps"] == steps  # of the run, not of this start of it
    assert digest(saved) == train(folder, tmp_path, 1, "whole", steps=steps)


def test_a_signal_while_all_is_saved_does_not_lose_the_save(folder: Path, tmp_path: Path) -> None:
    """Rank 0 is asked again and again until it is gone: while it finishes its step, saves, and ends."""
    saved = tmp_path / "saved"
    process = _start(folder, tmp_path, *FOR_EVER, "--state", saved)
    _in_steps(tmp_path, process)
    first = _pid(tmp_path, 0)
    while process.poll() is None:
        processes.signal_all([first] if processes.alive(first) else [], signal.SIGTERM)
        time.sleep(0.002)
    out, err = process.communicate()
    assert process.returncode == 143, err
    assert ", stopped by a signal" in out and "Traceback" not in err
    assert _saved_steps(saved) > 0


def test_under_a_plain_launcher_a_signal_to_any_rank_reaches_the_one_that_decides(folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    mark = {"DFC_TEST": str(tmp_path)}
    words = ["run", "model.bundle", "train", *FEEDS, "--steps", "10000000", "--state", str(saved), "--save-every", "50"]
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("mpiexec")), "-n", "2", sys.executable, "-m", "dfc", *words],
        env={**os.environ, **permissions(), **mark, "PYTHONPATH": PATHS, "TMPDIR": str(tmp_path), "DFC_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    _wait(process, lambda: bool(store.steps_in(saved)) if saved.is_dir() else False)
    os.kill(processes.ranks_among(_of(tmp_path))[1], signal.SIGTERM)
    out, err = process.communicate(timeout=WITHIN)
    assert process.returncode == 143, err
    assert ", stopped by a signal" in out
    assert _saved_steps(saved) > 50


def test_a_rank_that_was_signalled_does_not_end_before_rank_0_has_finished() -> None:
    """A launcher ends all ranks when one ends with the code of a signal."""
    text = """
    import os, signal, sys, time
    from dfc.cli.ranks.process import as_rank

    def body(comm, records):
        if comm.rank:
            os.kill(os.getpid(), signal.SIGTERM)
            return 0
        time.sleep(1)  # as if it saved
        print("saved", flush=True)
        return 143

    sys.exit(as_rank(body))
    """
    ended = run_ranks(2, text, check=False, with_launcher=True)
    assert (ended.code, ended.out) == (143, ["saved\n", ""])
