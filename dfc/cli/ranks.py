"""Runs on many ranks: starting them under a supervisor, or being one of them.

A process is a rank if an MPI launcher or a supervisor has started it (`launchers`). Assumes nothing of MPI where there
is one rank: mpi4py is imported by ranks only.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from dfc.cli import failures, launchers
from dfc.cli.bundles import cluster_of
from dfc.cli.draining import until_read
from dfc.cli.listeners import Silent
from dfc.cli.running import Feeds, Report, Schedule, batching_of
from dfc_runtime.checkpoints import store
from dfc_runtime.errors import DfcError, FeedError, FileError, RankError, UnsupportedError
from dfc_runtime.formats.manifest import Entry

if TYPE_CHECKING:
    from mpi4py import MPI

    from dfc_runtime.distributed.cluster_module import ClusterModule
    from dfc_runtime.distributed.records import Told

STOPPED = (130, 143)
FITS = "DFC_FIT_JOBS"
REPORTED_WITHIN = 0.5
"""Seconds that a rank has to say what was found, and to end the others."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How many ranks to start, how often again, with how many at least; seconds of silence that count as death."""

    ranks: int
    restarts: int
    least: int
    silence: float


def communicator() -> MPI.Intracomm:
    """All ranks of this job."""
    try:
        from mpi4py import MPI  # starts MPI: only ranks pay for it
    except (ImportError, RuntimeError) as problem:
        text = f"ranks need mpi4py and an MPI: install dfc[mpich], or dfc[mpi] beside your own MPI ({problem})"
        raise UnsupportedError(text, code="E1001") from None
    return MPI.COMM_WORLD


def supervise(launch: Launch, arguments: Sequence[str], folder: Path | None, *, claims: bool) -> int:
    """Starts ranks with this command line of `dfc`, sees to them, and gives the exit code of the job. `folder` is where
    its checkpoints lie; if it `claims` the folder, other runs that save there end."""
    from dfc_runtime.distributed.coordinator import Policy
    from dfc_runtime.distributed.supervisor import Job, supervise

    policy = Policy(launch.ranks, launch.restarts, launch.least, launch.silence)
    told = {FITS: "1"} if launch.least else {}
    deaths: list[str] = []

    def tell(text: str) -> None:
        deaths.append(text)
        click.echo(f"dfc: {text}", err=True)

    code = supervise(Job(["dfc", *arguments], policy, folder if claims else None, told), tell)
    if code == RankError.exit_code and deaths:
        click.echo(f"  {_next(launch, folder)}", err=True)
    return code


def _next(launch: Launch, folder: Path | None) -> str:
    """What to type after a rank has died for the last time."""
    if folder is None or not folder.is_dir() or store.holds_nothing(folder):
        return "nothing was saved: --state DIR and --save-every N save on the way, and --max-restarts N starts it again"
    text = f"the same command goes on from the newest checkpoint in {folder}"
    return text if launch.restarts else f"{text}; with --max-restarts N it does so by itself"


def as_rank(body: Callable[[MPI.Intracomm, Told], int]) -> int:
    """Runs one rank's part and gives its exit code. The supervisor, if there is one, is told that the rank lives and
    how it ends. A rank that fails ends all of them: the others would wait for it for ever."""
    from dfc_runtime.distributed.records import Told, without_foreign_folders

    without_foreign_folders()
    comm = communicator()
    fault = launchers.separated(comm.size)
    if fault:
        return failures.report(click.UsageError(fault)) if comm.rank == _stated_rank() else failures.USAGE
    stopped = _heed_signals(comm.rank)
    with Told(comm.rank) as records:
        code = _unwatched(comm, records)
        if not code:
            code = failures.guarded(lambda: _told_once(lambda: body(comm, records), comm.rank))
        code = 128 + stopped[0] if stopped else code
        records.end(code)
    if stopped or code not in (0, *STOPPED):
        until_read()
        comm.Abort(code)
    return code


def _unwatched(comm: MPI.Intracomm, records: Told) -> int:
    """An exit code, if the supervisor cannot hear how some of the ranks are: rank 0 has told it."""
    from dfc_runtime.distributed.records import Seen, current_epoch, unseen

    fault = unseen(comm.allgather(Seen.of(records))) if current_epoch() is not None else ""
    if not fault:
        return 0
    problem = FileError(fault, code="E0909")
    code = failures.report(problem) if comm.rank == 0 else problem.exit_code
    sys.stderr.flush()
    comm.Barrier()  # the first that ends takes the others with it
    return code


def _stated_rank() -> int:
    """The rank that the launcher has given this process; MPI gives the same number if it connects them all."""
    found = launchers.launched()
    return found.rank if found is not None else 0


def _heed_signals(rank: int) -> list[int]:
    """Rank 0 alone decides what a signal means, so the others do not hear of it. As long as there is no step to finish,
    it means the end; the list then holds its number."""
    heard: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        heard.append(number)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN if rank else stop)
    return heard


def _told_once(body: Callable[[], int], rank: int) -> int:
    """What ends a run is told once, by rank 0 if it can: it hears of what another rank has found, and what is wrong
    with a file all of them find. The others wait for the end, and speak, or end it, only if rank 0 is prevented."""
    from dfc_runtime.distributed.waiting import is_reported

    try:
        return body()
    except (DfcError, click.ClickException) as problem:
        if rank == 0:
            raise
        time.sleep(REPORTED_WITHIN)
        if not is_reported(problem):
            raise
        time.sleep(REPORTED_WITHIN)
        return problem.exit_code


@contextmanager
def watched(module: ClusterModule, records: Told) -> Generator[None]:
    """While the block runs, the supervisor is told what this rank computes; and if that is more than the deadline
    allows, the rank says so and ends all of them, as it cannot be asked to stop."""
    from dfc_runtime.distributed.watching import Watchdog

    def end(text: str) -> None:
        failure = RankError(f"{text}\n  if it is no endless loop: --deadline SECONDS allows for more", code="E0911")
        code = failures.report(failure)
        records.end(code)
        until_read()
        os._exit(code)

    records.doing = lambda: (0, module.waiting.busy()[1])
    with Watchdog(module.waiting, end):
        yield


def follow(module: ClusterModule) -> int:
    """Serves rank 0."""
    module.serve()
    return 0


class Pulse(Silent):
    """A listener that lets the supervisor know how far the run is."""

    def __init__(self, records: Told) -> None:
        self._step = 0
        before = records.doing
        records.doing = lambda: (self._step, before()[1])

    def step(self, report: Report) -> None:
        self._step = report.steps


def fitting_counts(path: str, asked: Mapping[str, int], size: int) -> Mapping[str, int]:
    """How many tasks the jobs have: as asked; and where a supervisor may go on with fewer ranks, the one job whose
    number is free gets what there is."""
    cluster = cluster_of(path)
    if cluster is None or FITS not in os.environ:
        return asked
    free = [job.name for job in cluster.jobs if job.elastic]
    if len(free) != 1:
        return asked
    others = sum(asked.get(job.name, job.tasks) for job in cluster.jobs if job.name != free[0])
    return {**asked, free[0]: size - others} if size > others else asked


def check_batches(module: ClusterModule, entry: Entry, schedule: Schedule, given: Feeds) -> None:
    """Refuses batches that cannot be cut into the blocks of an entry before the first of them runs."""
    from dfc_runtime.distributed.entry_plan import cut_fault

    cluster = module.manifest.cluster
    cut = next((each for each in cluster.entries if each.name == entry.name), None) if cluster else None
    if cut is None or schedule.batch is None:
        return
    found = batching_of(entry, given)
    reached = schedule.steps is None or schedule.steps >= found.batches(schedule.batch)
    last = found.total % schedule.batch if reached else 0
    for size in (min(schedule.batch, found.total), last):
        fault = cut_fault(cut, size) if found.dim == cut.split else ""
        if fault:
            text = f"{found.total} rows in batches of {schedule.batch} make one of {size}"
            raise FeedError(f"{text}: {fault}", code="E0901", spans=[entry.place])


def job_counts(pairs: Sequence[str]) -> Mapping[str, int]:
    """`worker=2` as numbers of tasks by job."""
    found: dict[str, int] = {}
    for pair in pairs:
        name, equals, number = pair.partition("=")
        if not equals or not name or not number.isascii() or not number.isdigit() or int(number) < 1:
            raise click.UsageError(f"--job wants NAME=TASKS, such as worker=2, not {pair!r}")
        found[name] = int(number)
    return found
