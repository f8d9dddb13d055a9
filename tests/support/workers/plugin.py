"""The hooks of pytest: the option `--workers`, and a loop that runs tests in forks."""

from __future__ import annotations

import pytest

from .supervisor import Supervisor

WAITING = ("tests/mpi/", "tests/runtime/distributed/launch/", "tests/runtime/calls/test_interrupting.py")
"""Tests of processes that start, wait for each other, sleep, and are killed."""
LONG = (
    *("tests/bench/", "tests/dfc/syntax/", "tests/dfc/test_helps.py", "tests/dfc/transforms/", "tests/distributions/"),
    *("tests/docs/", "tests/plugins/", "tests/runtime/", "tests/samples/", "tests/targets/"),
)
"""Tests to begin with: some of their modules take ten seconds. All that come behind take one or two, so that no worker
is left alone at the end with a long one."""
ENDS = pytest.StashKey[list[float]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=1, metavar="N", help="run tests in N forks of this process")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """In workers where there are to be several, else pytest's own."""
    count: int = session.config.getoption("workers")
    if count < 2 or session.config.option.collectonly or session.testsfailed or not session.items:
        return None
    waiting, long = ([item.nodeid.startswith(names) for item in session.items] for names in (WAITING, LONG))
    session.config.stash[ENDS] = Supervisor(session, count, waiting, long).run()
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    ends = config.stash.get(ENDS, [])
    if ends:
        terminalreporter.write_line(f"workers ended after {', '.join(f'{end:.1f}' for end in ends)} s of tests")
