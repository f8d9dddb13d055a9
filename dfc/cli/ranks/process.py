"""This process as one of many ranks, from the start of MPI to the end that all of them have together.

Assumes that an MPI launcher or a supervisor has started it (`launchers`); nothing else imports this. Guarantees that
what ends a run is reported once, and that a rank which fails does not leave the others waiting.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stderr
from functools import partial
from io import StringIO
from types import FrameType
from typing import TYPE_CHECKING

import click

from dfc.cli import failures
from dfc.cli.listeners import Silent
from dfc.cli.ranks import launchers
from dfc.cli.ranks.draining import until_read
from dfc.cli.running import Report
from dfc_runtime.distributed.launch.record_files import current_epoch
from dfc_runtime.distributed.launch.records import (
    STOPS,
    Seen,
    SupervisorLink,
    accept_signals,
    unseen,
    without_foreign_folders,
)
from dfc_runtime.distributed.launch.watching import Watchdog
from dfc_runtime.distributed.transport.waiting import is_reported
from dfc_runtime.errors import DfcError, FileError, RankError, UnsupportedError

if TYPE_CHECKING:
    from mpi4py import MPI

    from dfc_runtime.distributed.calls.cluster_module import ClusterModule

STOPPED = (130, 143)
REPORTED_WITHIN = 0.5
"""Seconds that a rank has to say what was found, and to end the others."""


def communicator() -> MPI.Intracomm:
    """All ranks of this job."""
    try:
        from mpi4py import MPI  # starts MPI: only ranks pay for it
    except (ImportError, RuntimeError) as problem:
        text = f"ranks need mpi4py and an MPI: install dfc[mpich], or dfc[mpi] beside your own MPI ({problem})"
        raise UnsupportedError(text, code="E1001") from None
    return MPI.COMM_WORLD


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
    type(module).serve(module)  # which an entry of that name would hide
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
