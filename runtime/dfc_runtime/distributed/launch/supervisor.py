"""The process that starts the ranks of a job, watches them, restarts them, and owns the signals. It is no MPI process.

Each session of ranks runs under the launcher of the installed MPI, in a session of its own with a temporary folder of
its own, which is removed. Decisions are the coordinator's (`coordinator.py`); this module is its eyes and hands.
Assumes that ranks keep records (`records.py`), on other machines too: in the temporary folder, if they share it, or by
way of a connection (`post.py`).
Guarantees that when it returns no process of the job is left on this machine; on others, those that are cut off end by
themselves within seconds.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from types import FrameType
from typing import IO

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.launch import coordinator as c
from dfc_runtime.distributed.launch import epochs, processes
from dfc_runtime.distributed.launch.launcher_output import Account, Filter
from dfc_runtime.distributed.launch.post import POST_VARIABLE, Post
from dfc_runtime.distributed.launch.record_files import EPOCH_VARIABLE, JOB_VARIABLE, host
from dfc_runtime.distributed.launch.records import Record, held_back, read_records, watch_over
from dfc_runtime.errors import UnsupportedError

LOOK_EVERY = 0.05
WATCHES = 10
REPORTED_WITHIN = 20.0
"""Seconds that the parent of a rank that ended, as long as it lives, has to tell how."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to run: `command` is a module and its arguments, run in every rank as `python -m mpi4py -m ...`. `policy`
    for how many ranks, and when to give up. `folder` holds the epochs: that of the checkpoints, or None."""

    command: Sequence[str]
    policy: c.Policy
    folder: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


def supervise(job: Job, log: Callable[[str], None], report: Callable[[str], None] | None = None) -> int:
    """Runs a job to its end and returns its exit code. `log` gets a line for each thing the user should know, `report`
    (else standard error) what a rank that fails says itself."""
    with tempfile.TemporaryDirectory(prefix="dfc-job-") as name, watch_over(Path(name)), Post(Path(name)) as post:
        environment = {**job.environment, POST_VARIABLE: post.address}
        return _Supervisor(replace(job, environment=environment), Path(name), log, report or _to_errors).run()


def find_launcher() -> str:
    """The `mpiexec` that belongs to this Python, else the first on the path."""
    sibling = Path(sys.executable).with_name("mpiexec")
    launcher = str(sibling) if sibling.exists() else shutil.which("mpiexec")
    if launcher is None:
        raise UnsupportedError("there is no mpiexec: install dfc[mpich], or an MPI with its mpi4py", code="E1001")
    return launcher


def _start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A launcher in a session of its own, which it shares with all that it starts."""
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


class _Session:
    """The ranks of one epoch. `known` are the last records that were passed on; `unwritten` gets why standard output
    could not be written to."""

    def __init__(self, job: Job, ranks: int, epoch: int, folder: Path, unwritten: list[OSError]) -> None:
        self.epoch = epoch
        self._ranks = ranks
        self._unwritten = unwritten
        self._folder = folder
        self._scratch = folder / f"tmp-{epoch}"
        self._scratch.mkdir()
        self._mark = f"{JOB_VARIABLE}={folder}"
        variables = {JOB_VARIABLE: str(folder), EPOCH_VARIABLE: str(epoch), "TMPDIR": str(self._scratch)}
        rank = [sys.executable, "-m", processes.REAPER, "mpi4py", "-m", *job.command]
        command = [find_launcher(), "-n", str(ranks), *rank]
        with held_back():
            self.launcher = _start(command, {**os.environ, **permissions(), **job.environment, **variables})
        self.pids: dict[int, int] = {}
        self.ended: dict[int, Record] = {}
        self._parents: dict[int, int] = {}
        self._order_of_ends: list[int] = []
        self._is_known = False
        self.known: dict[tuple[str, int], Record] = {}
        self.gone: dict[int, float] = {}
        self._ends = processes.Ends()
        self._pipes = [self._pass_on(self.launcher.stdout, 1), self._pass_on(self.launcher.stderr, 2)]

    def _pass_on(self, pipe: IO[bytes] | None, descriptor: int) -> threading.Thread:
        """Copies what the ranks print, without the launcher's own account of their deaths."""
        assert pipe is not None

        def copy() -> None:
            filtered = Filter(Account(), lambda line: _write(descriptor, line, self._unwritten))
            for line in pipe:
                filtered.line(line)
            filtered.flush()

        thread = threading.Thread(target=copy, name="dfc-output", daemon=True)
        thread.start()
        return thread

    def records(self) -> list[Record]:
        """What is new in the folder of the job."""
        fresh: list[Record] = []
        if len(self.pids) < self._ranks and self.launcher.poll() is None:
            self.pids = {**processes.ranks_among(self.processes()), **self.pids}  # before they can say so themselves
        for record in read_records(self._folder, self.epoch):
            if record.kind == "ended":
                self._note_end(record)
                continue
            if record.host == host():  # on other machines nobody sees their processes end: they fall silent
                self.pids[record.rank] = record.pid
            if self.known.get((record.kind, record.rank)) != record:
                self.known[record.kind, record.rank] = record
                fresh.append(record)
        for pid in self.pids.values():
            if pid not in self._parents and (parent := processes.reaper_of(pid)) is not None:
                self._parents[pid] = parent
                self._ends.follow(parent)
            self._ends.follow(pid)
        return fresh

    def processes(self) -> list[int]:
        return processes.of_job(self.launcher.pid, self._mark)

    def _note_end(self, record: Record) -> None:
        """What the parent of a rank says of its end. Ends on other hosts are seen in no other way."""
        self.ended[record.rank] = record
        if record.host != host():
            self.gone.setdefault(record.rank, time.monotonic())

    def lost(self, *, is_last: bool) -> list[int] | None:
        """Ranks whose process has ended, but for those that have said so themselves, the one that was first in front;
        None until it is known how that one ended, or that nobody will tell. Without `is_last` that is looked at twice:
        others may have ended, or have told, between the two halves of a look."""
        silent = {r: at for r, at in self.gone.items() if not {("done", r), ("failed", r)} & self.known.keys()}
        ranks = sorted(silent, key=self._order)
        is_known = not ranks or ranks[0] in self.ended or not self._may_report(silent)
        is_second, self._is_known = self._is_known, is_known
        return ranks if is_last or not ranks or (is_known and is_second) else None

    def _may_report(self, silent: Mapping[int, float]) -> bool:
        """Whether a parent of these ranks lives that is to tell how its rank ended."""
        parents = [self._parents[self.pids[rank]] for rank in silent if self.pids.get(rank) in self._parents]
        return any(map(processes.alive, parents)) and time.monotonic() - min(silent.values()) <= REPORTED_WITHIN

    def _order(self, rank: int) -> tuple[bool, float]:
        """When a rank ended. The kernel keeps the order of ends on this host, however late one looks, and a launcher
        ends other ranks only when the parent of the first is gone, too. Where it does not, because a rank ended before
        this process knew of it or on another host, what parents say decides: the parent of the first has said so before
        a launcher could end any other, so that a rank of which nothing is said comes after those."""
        if self._is_order_known and all(each.host == host() for each in self.ended.values()):
            return False, self.gone[rank]
        return rank not in self.ended, self.ended[rank].time * 1e-9 if rank in self.ended else self.gone[rank]

    def watch(self) -> None:
        """Notes whose process has ended, in their order."""
        ranks = {pid: rank for rank, pid in self.pids.items()}
        for pid in self._ends.new():
            self._order_of_ends.append(pid)
            if pid in ranks:
                self.gone.setdefault(ranks[pid], time.monotonic())
        for rank, pid in self.pids.items():
            if rank not in self.gone and not self._ends.follows([pid]) and not processes.alive(pid):
                self.gone[rank] = time.monotonic()

    @property
    def _is_order_known(self) -> bool:
        """Whether the kernel tells of the end of each rank, in their order."""
        return len(self.pids) == self._ranks and self._ends.orders(self.pids.values())

    def how(self, rank: int) -> str:
        """How a rank died, and who else did before its launcher could know."""
        record = self.ended.get(rank)
        if record is None:
            text = "has died"
        else:
            killed = f"was killed by signal {record.signal}"
            text = killed if record.signal else f"has ended with exit code {record.code}"
        others = " and ".join(f"rank {each}" for each in self._at_the_same_time(rank))
        return f"{text} ({others} died at the same time)" if others else text

    def _at_the_same_time(self, rank: int) -> list[int]:
        """Ranks that ended on their own: before the first of all parents did, or while all of them live."""
        if self.pids.get(rank) not in self._parents:
            return []
        parents, ends = set(self._parents.values()), self._order_of_ends
        before = ends[: next((at for at, pid in enumerate(ends) if pid in parents), len(ends))]
        others = {other for other, pid in self.pids.items() if pid in before and ("done", other) not in self.known}
        return sorted(others - {rank})

    def send(self, number: int) -> None:
        """Passes a signal on: a request to stop to the rank that decides; where that is on another host, to those here,
        which tell it. The last one goes to all, and to the launcher, too."""
        if number == signal.SIGKILL:
            processes.signal_all(self.processes(), number)
        else:
            processes.signal_all([self.pids[0]] if 0 in self.pids else list(self.pids.values()), number)

    def close(self) -> None:
        """After the last process is gone."""
        self.launcher.wait()
        for pipe in self._pipes:
            pipe.join(timeout=5)
        self._ends.close()
        shutil.rmtree(self._scratch, ignore_errors=True)


class _Supervisor:
    def __init__(self, job: Job, folder: Path, log: Callable[[str], None], report: Callable[[str], None]) -> None:
        self._job = job
        self._folder = folder
        self._log = log
        self._report = report
        self._session: _Session | None = None
        self._interrupts: list[int] = []
        self._code: int | None = None
        self._is_launcher_signalled = False
        self._launcher_stopped = False
        self._unwritten: list[OSError] = []

    def run(self) -> int:
        before = {n: signal.signal(n, self._note) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._state, effects = c.begin(self._job.policy)
            self._carry_out(effects)
            while self._code is None:
                for _ in range(WATCHES):
                    time.sleep(LOOK_EVERY / WATCHES)
                    if self._session is not None:
                        self._session.watch()
                self._look()
            if self._code == 0 and self._unwritten:
                raise self._unwritten[0]
            return self._code
        finally:
            self._kill_rest()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._interrupts.append(number)

    def _kill_rest(self) -> None:
        """Whatever ended this process in between, nothing of the job outlives it."""
        session = self._session
        while session is not None and (left := session.processes()):
            processes.signal_all(left, signal.SIGKILL)
            time.sleep(LOOK_EVERY)

    def _feed(self, event: c.Event) -> None:
        self._state, effects = c.react(self._state, event)
        self._carry_out(effects)

    def _carry_out(self, effects: Sequence[c.Effect]) -> None:
        for effect in effects:
            match effect:
                case c.Launch(ranks):
                    self._launch(ranks)
                case c.Send(number):
                    if self._session is not None:
                        self._session.send(number)
                case c.LogLine(text):
                    self._log(text)
                case c.Report(text):
                    self._report(text)
                case c.Over(code):
                    self._code = code

    def _launch(self, ranks: int) -> None:
        epoch = epochs.take(self._job.folder if self._job.folder is not None else self._folder)
        self._session = _Session(self._job, ranks, epoch, self._folder, self._unwritten)
        self._is_launcher_signalled = self._launcher_stopped = False
        self._feed(c.Started(time.monotonic(), epoch))

    def _look(self) -> None:
        """One look at everything; records first, so that nobody is missed who has said goodbye."""
        session = self._session
        if session is None:
            self._pass_interrupts()
        else:
            session.watch()  # before the records: what ended has written all it will
            ended = session.launcher.poll()
            is_empty = ended is not None and not session.processes()
            for record in session.records():
                self._feed(_event(record, session.epoch))
            if is_empty:  # ranks that came and went since the last look are known by their records alone
                session.watch()
            self._pass_interrupts()
            if ended == -signal.SIGKILL:  # which no death of a rank leads to, but which leads to theirs
                self._report_launcher_end(session, ended)
            lost = session.lost(is_last=is_empty)
            if lost is None:
                return  # the parent of the first is about to say how it ended
            for rank in lost:
                self._feed(c.Gone(time.monotonic(), session.epoch, rank, session.how(rank)))
            stopped = processes.stopped(session.launcher.pid)
            if stopped is not self._launcher_stopped:
                self._launcher_stopped = stopped
                self._feed(c.LauncherStopped(time.monotonic(), session.epoch, stopped))
            if ended is not None:
                self._report_launcher_end(session, ended)
            if is_empty and self._session is session:
                self._session = None
                session.close()
                self._feed(c.Empty(time.monotonic(), session.epoch))
        self._feed(c.Clock(time.monotonic()))

    def _report_launcher_end(self, session: _Session, code: int) -> None:
        if not self._is_launcher_signalled:
            self._is_launcher_signalled = True
            self._feed(c.LauncherEnded(time.monotonic(), session.epoch, code))

    def _pass_interrupts(self) -> None:
        while self._interrupts:
            self._feed(c.Interrupted(time.monotonic(), self._interrupts.pop(0)))


def _event(record: Record, epoch: int) -> c.Event:
    now = time.monotonic()
    if record.kind == "done":
        return c.Completed(now, epoch, record.rank, record.signal, record.origin)
    if record.kind == "failed":
        return c.Failed(now, epoch, record.rank, record.code, record.text, record.report)
    return c.Beat(now, epoch, record.rank, record.step, record.text, record.signal, record.origin)


def permissions() -> dict[str, str]:
    """What Open MPI wants to be told before it runs as root, or with more ranks than cores; others do not look."""
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
    return {**root, "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}


def _to_errors(text: str) -> None:
    _write(2, text.encode(), [])


def _write(descriptor: int, data: bytes, unwritten: list[OSError]) -> None:
    """Writes what ranks say. That nobody reads it any more is no problem, that standard output has no room is one."""
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError as problem:
        if descriptor == 1 and not isinstance(problem, BrokenPipeError):
            unwritten.append(problem)
