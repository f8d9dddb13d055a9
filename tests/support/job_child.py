"""A rank of a job for tests of the supervisor: steps together with the others, and goes wrong as it is told.

Arguments: the number of steps; then `RANK:STEP:FAULT` for each fault. Faults happen in the first epoch of a folder,
those that end in `!` in each, and those that end in `?` in the second, before the rank has said anything.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

from mpi4py import MPI

from dfc_runtime.distributed.launch.record_files import current_epoch
from dfc_runtime.distributed.launch.records import SupervisorLink, accept_signals
from dfc_runtime.errors import FeedError


def _go_wrong(fault: str) -> None:
    match fault:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segv":
            ctypes.string_at(0)
        case "exit0":
            os._exit(0)
        case "exit1":
            os._exit(1)
        case "sysexit3":
            sys.exit(3)
        case "raise":
            raise ValueError("a bug")
        case "mistake":
            raise FeedError("`train` has no feed `imagse`", code="E0901")
        case "wait":
            print("waits", flush=True)
            signal.pause()
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case _:
            raise AssertionError(fault)


def main(steps: int, faults: list[list[str]]) -> int:
    comm = MPI.COMM_WORLD
    signals: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda n, _frame: signals.append(n))
    accept_signals()
    at = 0
    for rank, _, fault in faults:
        if int(rank) == comm.rank and fault.endswith("?") and current_epoch() == 2:
            _go_wrong(fault.rstrip("?"))
    with SupervisorLink(comm.rank, lambda: (at, "it sums")):
        for at in range(1, steps + 1):
            for rank, step, fault in faults:
                again = fault.endswith("!") or (current_epoch() == 1 and not fault.endswith("?"))
                if (int(rank), int(step)) == (comm.rank, at) and again:
                    _go_wrong(fault.rstrip("!"))
            stop = comm.bcast(signals[0] if signals else 0)
            if stop:
                if comm.rank == 0:
                    print(f"stopped by {stop} in step {at}", flush=True)
                return 128 + stop
            time.sleep(0.01)
    if comm.rank == 0:
        print(f"done after {steps} steps", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), [text.split(":") for text in sys.argv[2:]]))
