"""A job on two hosts whose link is cut: it ends in time with one message, leaves nobody behind, and goes on later."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dfc_runtime.distributed.launch.supervisor import permissions
from tests.mpi.test_run_command import DEPLOYMENT, FEEDS, digest, new, prepared, train
from tests.support.mpi import MPIEXEC, PATHS
from tests.support.two_hosts import Hosts, obstacle

pytestmark = [pytest.mark.timeout(500)]

DEADLINE = 8
"""Seconds: more than ranks need to start on a busy machine."""
STEPS = 200


def _start(hosts: Hosts, folder: Path, scratch: Path, temporary: Path | None = None) -> subprocess.Popen[str]:
    environment = {"PYTHONPATH": PATHS, "TMPDIR": str(temporary or scratch), "DFC_THREADS": "1"}
    words = [*FEEDS, "--steps", STEPS, "--state", scratch / "saved", "--save-every", 40, "--deadline", DEADLINE]
    command = [sys.executable, "-m", "dfc", "run", "model.bundle", "train", *words, "-n", 2]
    return hosts.start("hosta", list(map(str, command)), {**os.environ, **hosts.environment(), **environment}, folder)


def _started(job: subprocess.Popen[str]) -> tuple[str, str]:
    """What a job that has ended, or will, has said. Where MPI itself could not start over this link, which happens to
    MPICH's library for networks now and then, there is nothing to look at."""
    out, err = job.communicate(timeout=100)
    if "Fatal error in internal_Init_thread" in err:
        pytest.skip(f"MPI does not start on two hosts here: {err[err.find('OFI call') :].splitlines()[0]}")
    return out, err


def test_a_link_that_is_cut_ends_the_job_in_time_and_a_restart_goes_on(tmp_path: Path) -> None:
    if obstacle():
        pytest.skip(obstacle())
    assert "tasks 2" in DEPLOYMENT
    folder = prepared(tmp_path / "program")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    whole = train(folder, tmp_path, 1, "whole", steps=STEPS)
    with Hosts(scratch) as hosts:
        job = _start(hosts, folder, scratch)
        begun = time.monotonic()
        while not (scratch / "saved" / "step-1").exists():
            assert time.monotonic() < begun + 100
            if job.poll() is not None:
                raise AssertionError(_started(job))
            time.sleep(0.02)  # the ranks need the processor
        hosts.link(up=False)
        cut = time.monotonic()
        _, err = job.communicate(timeout=100)
        assert job.returncode == 75
        assert time.monotonic() < cut + DEADLINE + 40, "long after the deadline"
        assert err.count("error") == 1 and f"has waited {DEADLINE} s for " in err, err
        assert "rank 1 (worker task 1): does not answer: it lives, and does not compute" in err, err
        assert hosts.processes("hosta") == []

        hosts.link(up=True)
        again = _start(hosts, folder, scratch)
        _, err = _started(again)
        assert again.returncode == 0, err
        assert err.startswith("the run goes on behind step ") and err.count("\n") == 1, err
        assert digest(scratch / "saved") == whole
        end = cut + DEADLINE + 60
        while (left := hosts.processes("hostb")) or hosts.processes("hosta"):
            assert time.monotonic() < end, left
            time.sleep(0.1)
    assert not list(scratch.glob("dfc-job-*"))


def test_hosts_need_not_share_the_folder_for_temporary_files(tmp_path: Path) -> None:
    """What a rank tells goes over the network then: also that it is gone, which is noticed after its silence only."""
    if obstacle():
        pytest.skip(obstacle())
    folder = prepared(tmp_path / "program")
    scratch, local = tmp_path / "scratch", tmp_path / "local"
    scratch.mkdir()
    local.mkdir()
    whole = train(folder, tmp_path, 1, "whole", steps=STEPS)
    with Hosts(scratch) as hosts:
        hosts.hide("hostb", local)
        job = _start(hosts, folder, scratch, local)
        out, err = _started(job)
        assert (job.returncode, err) == (0, new(scratch / "saved")), out
        assert digest(scratch / "saved") == whole
        assert hosts.processes("hosta") == hosts.processes("hostb") == []
    assert list(local.iterdir()) == []


def test_ranks_that_nobody_can_hear_are_named_by_the_first_one(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "program")
    lost = {"DFC_JOB": str(tmp_path / "elsewhere"), "DFC_EPOCH": "1", "PYTHONPATH": PATHS, "DFC_THREADS": "1"}
    command = [str(MPIEXEC), "-n", "2", sys.executable, "-m", "mpi4py", "-m", "dfc", "run", "model.bundle", "train"]
    environment = {**os.environ, **permissions(), **lost}
    done = subprocess.run([*command, *FEEDS], env=environment, capture_output=True, text=True, timeout=100, cwd=folder)
    assert done.returncode == 6, done.stderr
    told = f"error[E0909]: ranks 0, 1 on {os.uname().nodename} cannot be watched: there is no folder {lost['DFC_JOB']}"
    assert done.stderr.count("error") == 1 and told in done.stderr
