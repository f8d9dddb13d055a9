"""A job under the supervisor: every death is noticed and named, nothing is left behind, success is a record."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from dfc_runtime.distributed.launch import processes
from tests.support.job_driver import OFFSET
from tests.support.mpi import PATHS, ROOT

pytestmark = [pytest.mark.timeout(120)]

BETWEEN_LOOKS = 0.001
"""Seconds: shorter than any moment that is waited for, and the ranks have the processor meanwhile."""


@dataclass
class Ended:
    code: int
    out: str
    told: list[str]


def _start(
    folder: Path, ranks: int, *args: object, restarts: int = 0, least: int = 0, late: object = "never"
) -> subprocess.Popen[str]:
    """`late`: when the supervisor's clock is set forward by more than the silence that counts as death."""
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.support.job_driver", ranks, restarts, least, folder / "saved", late, *args]
    return subprocess.Popen(
        [str(each) for each in command],
        env={**os.environ, "PYTHONPATH": PATHS, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def _end(folder: Path, process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=100)
    told = [line.removeprefix("told: ") for line in err.splitlines() if line.startswith("told: ")]
    assert processes.of_job(-1, f"TMPDIR={folder / 'scratch'}") == [], "processes are left"
    assert list((folder / "scratch").iterdir()) == [], "files are left"
    return Ended(process.returncode, out, told)


def _run(folder: Path, ranks: int, *args: object, restarts: int = 0) -> Ended:
    return _end(folder, _start(folder, ranks, *args, restarts=restarts))


def test_a_job_that_goes_well_is_over_with_0_and_says_nothing(tmp_path: Path) -> None:
    ended = _run(tmp_path, 2, 5)
    assert (ended.code, ended.told, ended.out) == (0, [], "done after 5 steps\n")


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        ("kill", 75, "rank 1 was killed by signal 9 in step "),
        ("segv", 75, "rank 1 was killed by signal 11 in step "),
        ("exit0", 75, "rank 1 has ended with exit code 0 in step "),
        ("exit1", 75, "rank 1 has ended with exit code 1 in step "),
        ("sysexit3", 3, "rank 1: SystemExit: 3"),
        ("raise", 1, "rank 1: ValueError: a bug"),
        ("mistake", 2, "rank 1: `train` has no feed `imagse`"),
    ],
)
def test_every_kind_of_death_ends_the_job_and_names_the_rank(tmp_path: Path, fault: str, code: int, words: str) -> None:
    """A launcher ends all ranks at once when one dies, but not before the parent of the first has told of it."""
    ended = _run(tmp_path, 2, 400, f"1:60:{fault}")
    assert (ended.code, len(ended.told)) == (code, 1), ended
    assert ended.told[0].startswith(words), ended
    assert "BAD TERMINATION" not in ended.out


def test_a_rank_that_is_stopped_counts_as_dead_after_the_silence(tmp_path: Path) -> None:
    late = tmp_path / "late"
    process = _start(tmp_path, 2, 1000, "1:20:stop", late=late)
    _wait_until_stopped(_process_of(tmp_path, 1, 1, process), process)
    late.touch()
    ended = _end(tmp_path, process)
    assert ended.code == 75
    silent = re.match(r"rank 1 has been silent for (\d+) s(, in step \d+)?; it sums", ended.told[0])
    assert silent and int(silent[1]) >= OFFSET, ended


def test_a_restart_goes_on_and_its_epoch_is_higher(tmp_path: Path) -> None:
    ended = _run(tmp_path, 2, 100, "1:60:kill", restarts=2)
    assert ended.code == 0, ended
    assert ended.told[-1] == "restart 1 of 2 with 2 ranks"
    assert ended.out.endswith("done after 100 steps\n")
    assert sorted(os.listdir(tmp_path / "saved" / "epochs")) == ["1", "2"]


def test_restarts_are_counted(tmp_path: Path) -> None:
    ended = _run(tmp_path, 1, 100, "0:60:kill!", restarts=2)
    assert ended.code == 75
    assert [t for t in ended.told if t.startswith("restart")] == [
        "restart 1 of 2 with 1 rank",
        "restart 2 of 2 with 1 rank",
    ]


def _wait_for_beats(folder: Path, process: subprocess.Popen[str], ranks: int = 2) -> None:
    """All ranks have said something."""
    end = time.monotonic() + 60
    while len(list((folder / "scratch").glob("dfc-job-*/1-*.beat"))) < ranks:
        assert process.poll() is None and time.monotonic() < end
        time.sleep(BETWEEN_LOOKS)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_after_the_step(tmp_path: Path, number: signal.Signals, code: int) -> None:
    process = _start(tmp_path, 2, 100_000)
    _wait_for_beats(tmp_path, process)
    process.send_signal(number)
    ended = _end(tmp_path, process)
    assert ended.code == code, ended
    assert f"stopped by {int(number)}" in ended.out


def _process_of(folder: Path, epoch: int, rank: int, process: subprocess.Popen[str]) -> int:
    """The process of a rank of a session, as soon as it is there."""
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        for scratch in (folder / "scratch").glob(f"dfc-job-*/tmp-{epoch}"):
            ranks = processes.ranks_among(processes.of_job(-1, f"TMPDIR={scratch}"))
            if rank in ranks:
                return ranks[rank]
        time.sleep(BETWEEN_LOOKS)
    raise AssertionError("the rank did not come")


def test_a_rank_killed_while_it_starts_again_is_named_although_it_has_said_nothing(tmp_path: Path) -> None:
    process = _start(tmp_path, 2, 400, "1:20:kill", "1:0:wait?", restarts=1)
    assert process.stdout is not None and process.stdout.readline() == "waits\n"
    os.kill(_process_of(tmp_path, 2, 1, process), signal.SIGKILL)
    ended = _end(tmp_path, process)
    assert ended.code == 75
    assert ended.told[1] == "restart 1 of 1 with 2 ranks"
    assert len(ended.told) == 3 and ended.told[2] == "rank 1 was killed by signal 9 while it started", ended


@pytest.mark.parametrize("is_late", [False, True], ids=["watched", "before the supervisor knows them"])
def test_of_ranks_that_are_killed_at_once_the_first_is_named_and_the_others_with_it(
    tmp_path: Path, is_late: bool
) -> None:
    """Their parents are stopped, so that no launcher can know of the first before the second is gone."""
    process = _start(tmp_path, 3, 100_000)
    if is_late:
        _wait_for_launcher(process)
        process.send_signal(signal.SIGSTOP)
    ranks = [_process_of(tmp_path, 1, rank, process) for rank in range(3)]
    _wait_for_beats(tmp_path, process, 3)
    parents = [processes.reaper_of(pid) for pid in ranks]
    assert None not in parents
    if not is_late:
        _wait_until_followed(process, [pid for pid in [*ranks, *parents] if pid is not None])
    processes.signal_all([pid for pid in parents if pid is not None], signal.SIGSTOP)
    for rank in (2, 1):
        descriptor = os.pidfd_open(ranks[rank])
        os.kill(ranks[rank], signal.SIGKILL)
        assert select.select([descriptor], [], [], 60)[0], "all its threads have ended"
        os.close(descriptor)
    process.send_signal(signal.SIGCONT)
    for rank in (2, 1, 0):  # the record of one is there before the next may end, at which the launcher ends all
        processes.signal_all([pid for pid in parents[rank : rank + 1] if pid is not None], signal.SIGCONT)
        while rank == 2 and not list((tmp_path / "scratch").glob("dfc-job-*/1-2.ended")) and process.poll() is None:
            time.sleep(BETWEEN_LOOKS)
    ended = _end(tmp_path, process)
    assert ended.code == 75
    assert ended.told[0].startswith("rank 2 was killed by signal 9"), ended
    assert is_late or ended.told[0].startswith("rank 2 was killed by signal 9 (rank 1 died at the same time)"), ended


def _wait_for_launcher(process: subprocess.Popen[str]) -> None:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    end = time.monotonic() + 60
    while not children.read_text().strip():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(BETWEEN_LOOKS)


def _wait_until_followed(process: subprocess.Popen[str], pids: list[int]) -> None:
    """The supervisor has a descriptor of each of these processes."""
    end = time.monotonic() + 60
    while not {f"Pid:\t{pid}" for pid in pids} <= _followed_by(process.pid):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(BETWEEN_LOOKS)


def _followed_by(pid: int) -> set[str]:
    lines: set[str] = set()
    for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            lines.update(line for line in entry.read_text().splitlines() if line.startswith("Pid:"))
        except FileNotFoundError:
            continue
    return lines


def _wait_until_stopped(rank: int, process: subprocess.Popen[str]) -> None:
    while not processes.stopped(rank):
        assert process.poll() is None
        time.sleep(BETWEEN_LOOKS)


def _launcher_of(rank: int) -> int:
    """The process that leads the session of a rank's launcher."""
    pid = rank
    while processes.alive(pid):
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if "mpiexec" in Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]:
            return pid
        pid = parent
    raise AssertionError("there is no launcher")


def test_a_launcher_that_is_killed_is_told_and_not_the_ranks_that_follow_it(tmp_path: Path) -> None:
    process = _start(tmp_path, 2, 100_000, "1:60:stop")
    rank = _process_of(tmp_path, 1, 1, process)
    _wait_until_stopped(rank, process)
    os.kill(_launcher_of(rank), signal.SIGKILL)
    ended = _end(tmp_path, process)
    assert (ended.code, ended.told) == (75, ["mpiexec, which started the ranks, was killed by signal 9"])


@pytest.mark.parametrize(("steps", "code"), [(100_000, 75), (61, 0)])
def test_a_launcher_that_is_stopped_is_told_after_the_silence(tmp_path: Path, steps: int, code: int) -> None:
    """Ranks that are all done have done all: then nobody need be told. One is held up near its last step, so that it is
    not done before the launcher is stopped."""
    process = _start(tmp_path, 2, steps, "1:60:stop", late="stopped" if code else "done")
    rank = _process_of(tmp_path, 1, 1, process)
    _wait_until_stopped(rank, process)
    os.kill(_launcher_of(rank), signal.SIGSTOP)
    os.kill(rank, signal.SIGCONT)
    ended = _end(tmp_path, process)
    assert ended.code == code, ended
    if code:
        (told,) = ended.told
        halted = re.fullmatch(
            r"mpiexec, which started the ranks, was stopped by a signal (\d+) s ago and has not gone on", told
        )
        assert halted and int(halted[1]) >= OFFSET, ended
    else:
        assert ended.told == []
