"""The parent of a rank ends as the rank did, and has told before."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dfc_runtime.distributed.launch import processes, record_files, records
from tests.support.mpi import ROOT


@pytest.mark.parametrize(
    ("end", "code", "told"),
    [
        ("os.kill(os.getpid(), 9)", -9, (9, 0)),
        ("os.kill(os.getpid(), 11)", -11, (11, 0)),
        ("os._exit(3)", 3, (0, 3)),
        ("os._exit(0)", 0, (0, 0)),
    ],
)
def test_an_end_is_told_and_passed_on(tmp_path: Path, end: str, code: int, told: tuple[int, int]) -> None:
    ended, _ = _ended(tmp_path, end)
    assert ended.returncode == code
    (record,) = records.read_records(tmp_path, 4)
    assert (record.kind, record.rank, record.signal, record.code) == ("ended", 1, *told)


def test_a_rank_that_is_done_has_told_so_itself(tmp_path: Path) -> None:
    (tmp_path / "4-1.done").write_text("")
    ended, _ = _ended(tmp_path, "os._exit(0)")
    assert ended.returncode == 0
    assert records.read_records(tmp_path, 4) == []


def test_a_signal_to_the_parent_alone_reaches_the_rank(tmp_path: Path) -> None:
    ended, out = _ended(tmp_path, "os.kill(os.getppid(), 15); signal.pause()")
    assert (ended.returncode, out) == (5, "asked\n")


def test_the_parent_of_a_rank_is_none(tmp_path: Path) -> None:
    with records.watch_over(tmp_path):
        process = _start(tmp_path, "print(os.getpid(), flush=True); time.sleep(60)")
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            assert processes.ranks_among([process.pid, child]) == {1: child}
            assert processes.reaper_of(child) == process.pid
        finally:
            os.kill(child, signal.SIGKILL)
            process.communicate()


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(3)"])
def test_the_files_of_a_parent_are_closed_after_its_end_is_known(tmp_path: Path, end: str) -> None:
    """A launcher ends other ranks as soon as it sees them closed: the kernel must have told of the first end then."""
    with records.watch_over(tmp_path):
        process = _start(tmp_path, f"sys.stdin.read(); {end}", stdin=subprocess.PIPE)
        assert process.stdin is not None and process.stdout is not None
        events = select.epoll()
        pidfd = os.pidfd_open(process.pid)
        events.register(pidfd, select.EPOLLIN)
        events.register(process.stdout.fileno(), 0)  # that nobody can write to it any more is always told
        process.stdin.close()
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)
        assert process.stdout.read() == ""
        assert [descriptor for descriptor, _ in events.poll(60)] == [pidfd, process.stdout.fileno()]
        process.stdout.close()
        process.wait()
        os.close(pidfd)
        events.close()


def _start(folder: Path, text: str, stdin: int | None = None) -> subprocess.Popen[str]:
    """A rank that can be asked to stop, and then ends as it is told. It is a module as the parent's own."""
    begin = "import os, signal, sys, time\n"
    asked = "signal.signal(15, lambda *_: (print('asked', flush=True), os._exit(5)))\n"
    (folder / "rank_module.py").write_text(begin + asked + text)
    paths = os.pathsep.join([str(folder), *(str(ROOT / each) for each in ("", "runtime"))])
    job = {record_files.JOB_VARIABLE: str(folder), record_files.EPOCH_VARIABLE: "4", "PMI_RANK": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", processes.REAPER, "rank_module"],
        env={**os.environ, **job, "PYTHONPATH": paths},
        stdin=stdin,
        stdout=subprocess.PIPE,
        text=True,
    )


def _ended(folder: Path, text: str) -> tuple[subprocess.Popen[str], str]:
    with records.watch_over(folder):
        process = _start(folder, text)
        out, _ = process.communicate(timeout=60)
    return process, out
