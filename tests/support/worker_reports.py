"""What a worker of several (`pytest -n`) says of each test: two messages in place of six.

To write and read those takes as long as a small test: half a millisecond, sixteen thousand times.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol

LONG = 1.0
"""Seconds from which on the phases of a test are listed at the end (`Makefile`)."""


def is_reported(report: pytest.TestReport) -> bool:
    """Whether it says how the test itself ended, or more of what is around it than that it was quick and went well."""
    return report.when == "call" or not report.passed or bool(report.sections) or report.duration >= LONG


def run(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Runs a test as pytest does, but begins and ends it without a word."""
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if is_reported(report):
            item.ihook.pytest_runtest_logreport(report=report)
