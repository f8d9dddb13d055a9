"""The parent of one rank: forks it, waits for it, and tells the supervisor how it ended before the launcher can know.

    launcher -> python -m dfc_runtime.distributed.launch.reaper MODULE ... -> a fork that runs MODULE ... (the rank)

A launcher ends all ranks as soon as one has died, and tells at most which it saw first. What the kernel knows, how a
process ended, it tells only its parent: so each rank has one of its own. Assumes the environment of a supervised rank.
Guarantees that the record of an end is written before this process ends, and that it ends as the rank did: whatever the
launcher does about it comes later than the record. Needs neither NumPy nor MPI, and little of Python: as many of these
start as ranks do, and a rank begins as its fork, which is the start of one interpreter instead of two.
"""

from __future__ import annotations

import os
import resource
import runpy
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from dfc_runtime.distributed.launch.processes import LAUNCHERS, name_rank, signal_all
from dfc_runtime.distributed.launch.record_files import (
    ALIVE,
    EPOCH_VARIABLE,
    JOB_VARIABLE,
    current_epoch,
    host,
    put,
)

STOPS = (signal.SIGINT, signal.SIGTERM)


def main(command: Sequence[str]) -> None:
    """Runs a module with arguments as `python -m` would, in a child, and ends as that does. In the child it returns, or
    raises what the module does."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # until there is somebody to pass them on to
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        name_rank()
        sys.argv = list(command)
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
        return
    for number in STOPS:  # a launcher may signal only those that it has started itself
        signal.signal(number, lambda which, _frame: signal_all([child], which))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    rank = _rank_to_report(code)
    if rank is not None:
        _report(rank, child, code)
        _hold_descriptors()
    if code < 0:
        _end_by(-code)
    os._exit(code if code >= 0 else 128 - code)


def _rank_to_report(code: int) -> int | None:
    """The rank whose end is to be told; None if it has said itself that it is done, or the launcher has no numbers."""
    rank = next((int(text) for name, _ in LAUNCHERS if (text := os.environ.get(name, "")).isdigit()), None)
    folder, epoch = Path(os.environ.get(JOB_VARIABLE, "")), os.environ.get(EPOCH_VARIABLE, "")
    return None if not code and (folder / f"{epoch}-{rank}.done").exists() else rank


def _report(rank: int, pid: int, code: int) -> None:
    """Leaves the record of how a rank's process has ended: its exit code, below zero the signal that killed it."""
    epoch = current_epoch()
    if epoch is None:
        return
    folder, about = Path(os.environ[JOB_VARIABLE]), {"rank": rank, "host": host(), "pid": pid}
    data = {**about, **({"signal": -code} if code < 0 else {"code": code})}
    if (folder / ALIVE).exists():
        with suppress(OSError):  # the supervisor has gone just now
            put(folder, epoch, rank, "ended", data)
        return
    from dfc_runtime.distributed.launch.post import Line  # only for hosts that do not share the folder

    if (line := Line.to_supervisor()) is not None:
        line.send(epoch, rank, "ended", data)


def _hold_descriptors() -> None:
    """Starts a process that has the same open files, and ends after this one. A process that ends closes its files
    before the kernel says that it has ended; a launcher that saw them closed would end other ranks in between, and they
    would seem to have died on their own."""
    try:
        descriptor = os.pidfd_open(os.getpid())
        is_holder = os.fork() == 0
    except OSError:  # not allowed here, or no process to be had: then the order of ends is a guess
        return
    if is_holder:
        watched = select.poll()
        watched.register(descriptor, select.POLLIN)
        watched.poll()
        os._exit(0)


def _end_by(number: int) -> None:
    """Ends this process by a signal, without another dump of its memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    main(sys.argv[1:])
