"""The hooks of pytest: the option `--workers`, and a loop that runs tests in forks."""

from __future__ import annotations

import pytest

from .supervisor import Supervisor

WAITING = ("tests/mpi/", "tests/runtime/distributed/launch/", "tests/runtime/calls/test_interrupting.py")
"""Tests of processes that start, wait for each other, sleep, and are killed."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=1, metavar="N", help="run tests in N forks of this process")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """In workers where there are to be several, else pytest's own."""
    count: int = session.config.getoption("workers")
    if count < 2 or session.config.option.collectonly or session.testsfailed or not session.items:
        return None
    Supervisor(session, count, [item.nodeid.startswith(WAITING) for item in session.items]).run()
    return True
