"""What launchers really print when ranks die: read, and kept back; everything else is passed on as it was."""

from __future__ import annotations

import pytest

from dfc_runtime.distributed.launch.launcher_output import Account, Filter

MPICH = b"""
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 4242 RUNNING AT host
=   EXIT CODE: 9
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
===================================================================================
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)
This typically refers to a problem with your application.
Please see the FAQ page for debugging suggestions
"""
OPEN_MPI = b"""--------------------------------------------------------------------------
prterun noticed that process rank 1 with PID 4242 on node host exited on
signal 9 (Killed).
--------------------------------------------------------------------------
\0"""
ABORTED = b"""--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD
Proc: [[62249,1],0]
Errorcode: 143

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
You may or may not see output from other processes, depending on
exactly when Open MPI kills them.
--------------------------------------------------------------------------
[host:17195] PMIX ERROR: PMIX_ERR_UNREACH in file /src/server/pmix_server.c at line 3110
"""


def filtered(data: bytes) -> tuple[bytes, Account]:
    passed: list[bytes] = []
    account = Account()
    made = Filter(account, passed.append)
    for line in data.splitlines(keepends=True):
        made.line(line)
    made.flush()
    return b"".join(passed), account


@pytest.mark.parametrize(
    ("told", "account"),
    [
        (MPICH, Account(pid=4242, signal=9)),
        (OPEN_MPI, Account(rank=1, signal=9)),
        (ABORTED, Account()),
    ],
)
def test_an_account_of_a_death_is_read_and_kept_back(told: bytes, account: Account) -> None:
    passed, found = filtered(b"one\ntwo\n" + told)
    assert passed.split() == [b"one", b"two"]
    assert (found.pid, found.rank, found.signal) == (account.pid, account.rank, account.signal)


def test_lines_of_ranks_pass_as_they_are() -> None:
    lines = b"a\n\n----\n" + b"-" * 30 + b"\n a  table\n" + b"-" * 30 + b"\n  b \n\0\x01\n" + b"=" * 30 + b"\nno end"
    assert filtered(lines) == (lines, Account())
