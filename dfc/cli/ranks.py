"""Runs on many ranks: starting them under a supervisor, or being one of them.

A process is a rank if an MPI launcher or a supervisor has started it (`launchers`). Assumes nothing of MPI where there
is one rank: mpi4py is imported by ranks only.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from functools import partial
from io import StringIO
from types import FrameType
from typing import TYPE_CHECKING

import click

from dfc.cli import failures, launchers
from dfc.cli.bundles import cluster_of
from dfc.cli.draining import until_read
from dfc.cli.listeners import Silent
from dfc.cli.running import Feeds, Report, Schedule, batching_of
from dfc.cli.saving import Plan
from dfc.deferred.dataclasses import dataclass
from dfc_runtime.checkpoints import store
from dfc_runtime.distributed.launch.records import (
    STOPS,
    Seen,
    SupervisorLink,
    accept_signals,
    current_epoch,
    unseen,
    without_foreign_folders,
)
from dfc_runtime.errors import DfcError, FeedError, FileError, RankError, UnsupportedError
from dfc_runtime.formats.manifest import Entry

if TYPE_CHECKING:
    from mpi4py import MPI

    from dfc_runtime.distributed.calls.cluster_module import ClusterModule
    from dfc_runtime.distributed.calls.short_batches import ShortBatches

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


def supervise(launch: Launch, arguments: Sequence[str], plan: Plan, *, claims: bool) -> int:
    """Starts ranks with this command line of `dfc`, sees to them, and gives the exit code of the job. `plan` says where
    its checkpoints lie; if it `claims` the folder, other runs that save there end."""
    # Ranks themselves, and runs on one rank, supervise nobody.
    from dfc_runtime.distributed.launch.coordinator import Policy
    from dfc_runtime.distributed.launch.supervisor import Job, supervise

    policy = Policy(launch.ranks, launch.restarts, launch.least, launch.silence)
    environment = {FITS: "1"} if launch.least else {}
    deaths: list[str] = []

    def log(text: str) -> None:
        deaths.append(text)
        click.echo(f"dfc: {text}", err=True)

    job = Job(["dfc", *arguments], policy, plan.folder if claims else None, environment)
    code = supervise(job, log, lambda text: click.echo(text, err=True, nl=False))
    if code == RankError.exit_code and deaths:
        click.echo(f"  {_next(launch, plan)}", err=True)
    return code


def _next(launch: Launch, plan: Plan) -> str:
    """What to type after a rank has died for the last time: of the options that help, those that were not given."""
    again = "" if launch.restarts else "; with --max-restarts N it does so by itself"
    if plan.folder is not None and plan.folder.is_dir() and not store.holds_nothing(plan.folder):
        return f"the same command goes on from the newest checkpoint in {plan.folder}{again}"
    if plan.folder is None:
        return f"nothing was saved: the same command starts over{again}; --state DIR and --save-every N save on the way"
    text = f"nothing was saved in {plan.folder} yet: the same command starts over{again}"
    return text if plan.saves_on_the_way else f"{text}; --save-every N saves on the way"


def as_rank(body: Callable[[MPI.Intracomm, SupervisorLink], int]) -> int:
    """Runs one rank's part and gives its exit code. The supervisor, if there is one, is told that the rank lives and
    how it ends. A rank that fails ends all of them: the others would wait for it for ever."""
    without_foreign_folders()
    comm = communicator()
    fault = launchers.separated(comm.size)
    if fault:
        return failures.report(click.UsageError(fault)) if comm.rank == _stated_rank() else failures.USAGE
    records = SupervisorLink(comm.rank)
    _heed_signals(records, comm.rank)
    with records:
        code = _unwatched(comm, records)
        if code:
            records.end(code)
        else:
            code = _reported(records, partial(_report_once, partial(body, comm, records), comm))
    if records.is_interrupted or code not in (0, *STOPPED):
        until_read()
        comm.Abort(code)
    _leave_together(comm)
    return code


def _leave_together(comm: MPI.Intracomm) -> None:
    """Waits until all have told how they ended: a launcher ends the others as soon as one has ended with the code of a
    signal, rank 0 too, which may be about to say that it has saved."""
    everyone = comm.Ibarrier()
    while not everyone.Test():
        time.sleep(0.001)


def _reported(records: SupervisorLink, work: Callable[[], int]) -> int:
    """Works, and gives the exit code. What is to be said of a failure goes to the supervisor with it, as launchers may
    lose what was printed just before the end; without a supervisor it is printed."""
    failure: BaseException | None = None
    code, output = 0, StringIO()
    try:
        accept_signals()
        code = work()
    except BaseException as problem:
        failure = problem
    if failure is not None:
        with redirect_stderr(output):
            code = failures.guarded(partial(_fail, failure))
    if records.signal and (code == 0 or records.is_interrupted):
        code = 128 + records.signal
    _end(records, code, output.getvalue())
    return code


def _fail(problem: BaseException) -> int:
    raise problem


def _end(records: SupervisorLink, code: int, report: str) -> None:
    """The last record; from here on a signal changes nothing."""
    if threading.current_thread() is threading.main_thread():
        for number in STOPS:
            signal.signal(number, signal.SIG_IGN)
    if not records.end(code, report=report):
        click.echo(report, err=True, nl=False)


def _unwatched(comm: MPI.Intracomm, records: SupervisorLink) -> int:
    """An exit code, if the supervisor cannot hear how some of the ranks are: rank 0 has reported it."""
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
    launcher = launchers.launched()
    return launcher.rank if launcher is not None else 0


def _heed_signals(records: SupervisorLink, rank: int) -> None:
    """Rank 0 alone decides what a signal means: the others pass it on to rank 0, and to the supervisor. As long as
    there is no step to finish, it means the end of rank 0; after the last step, what follows is done in any case."""

    def stop(number: int, _frame: FrameType | None) -> None:
        records.on_stop(number)
        if rank == 0 and not records.has_stepped and not records.is_interrupted:
            records.is_interrupted = True
            raise KeyboardInterrupt

    for number in STOPS:
        signal.signal(number, stop)


def _report_once(body: Callable[[], int], comm: MPI.Intracomm) -> int:
    """What ends a run is reported once, by rank 0 if it can: it hears of what another rank has found, and what is wrong
    with a file all of them find. The others wait for the end, and speak, or end it, only if rank 0 is prevented."""
    from dfc_runtime.distributed.transport.waiting import is_reported  # ranks alone wait for messages

    try:
        return body()
    except (DfcError, click.ClickException) as problem:
        if comm.rank == 0:
            raise
        time.sleep(REPORTED_WITHIN)
        if not is_reported(problem):
            raise
        time.sleep(REPORTED_WITHIN)
        return problem.exit_code


@contextmanager
def watched(module: ClusterModule, records: SupervisorLink) -> Generator[None]:
    """While the block runs, the supervisor is told what this rank computes; and if that is more than the deadline
    allows, the rank says so and ends all of them, as it cannot be asked to stop."""
    from dfc_runtime.distributed.launch.watching import Watchdog  # ranks alone are watched

    def end(text: str) -> None:
        failure = RankError(f"{text}\n  if it is no endless loop: --deadline SECONDS allows for more", code="E0911")
        output = StringIO()
        with redirect_stderr(output):
            code = failures.report(failure)
        _end(records, code, output.getvalue())
        until_read()
        os._exit(code)

    def asked(number: int, origin: int) -> None:
        if not records.signal:
            records.origin = origin
            os.kill(os.getpid(), number)  # the main thread hears of it, whichever thread this is

    records.doing = lambda: (0, module.waiting.busy()[1])
    module.waiting.stopped_by = lambda: records.signal
    module.waiting.on_stop = asked
    with Watchdog(module.waiting, end):
        yield


def follow(module: ClusterModule) -> int:
    """Serves rank 0."""
    module.serve()
    return 0


class Pulse(Silent):
    """A listener that lets the supervisor know how far the run is."""

    def __init__(self, records: SupervisorLink) -> None:
        self._records = records
        self._step = 0
        before = records.doing
        records.doing = lambda: (self._step, before()[1])

    def step(self, report: Report) -> None:
        self._step = report.steps
        self._records.has_stepped = True


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


def check_batches(module: ClusterModule, entry: Entry, schedule: Schedule, feed_values: Feeds) -> None:
    """Refuses batches that cannot be cut into the blocks of an entry before the first of them runs."""
    from dfc_runtime.distributed.calls.entry_plan import split_fault  # only programs for ranks are cut

    cluster = module.manifest.cluster
    split = next((each for each in cluster.entries if each.name == entry.name), None) if cluster else None
    if split is None or schedule.batch is None:
        return
    batching = batching_of(entry, feed_values, schedule)
    if batching.dim != split.split:
        return
    reached = schedule.steps is None or schedule.steps >= batching.batches(schedule.batch)
    first, last = min(schedule.batch, batching.total), batching.short(schedule.batch) if reached else 0
    short = module.entries[entry.name].short
    for size in (first, last):
        fault = split_fault(split, size)
        if not fault:
            continue
        is_short = size == last
        if is_short and schedule.last == "pad" and short is not None:
            short.compile()  # what is wrong with it is reported before the first step
            continue
        can_drop = is_short and not split_fault(split, first) and batching.total > schedule.batch
        remedies = ["leave it out of every epoch: --last drop"] if can_drop else []
        if is_short and schedule.last != "pad" and short is not None and _can_fill(short):
            remedies.append("fill it up with rows that count for nothing: --last pad")
        remedy = "\n  " + "\n  or ".join(remedies) if remedies else ""
        reason = fault.partition("\n")[0] if remedies else fault  # which sizes could be cut is no help here
        text = f"{batching.total} rows in batches of {schedule.batch} make one of {size}: {reason}"
        raise FeedError(text + remedy, code="E0901", spans=[entry.location])


def _can_fill(short: ShortBatches) -> bool:
    """Whether a short batch can be filled up, here and now."""
    try:
        short.compile()
    except DfcError:
        return False
    return True


def job_counts(pairs: Sequence[str]) -> Mapping[str, int]:
    """`worker=2` as numbers of tasks by job."""
    counts: dict[str, int] = {}
    for pair in pairs:
        name, equals, number = pair.partition("=")
        if not equals or not name or not number.isascii() or not number.isdigit() or int(number) < 1:
            raise click.UsageError(f"--job wants NAME=TASKS, such as worker=2, not {pair!r}")
        counts[name] = int(number)
    return counts
