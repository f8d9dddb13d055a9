"""Damaged feeds, a few of those of `tests.gate.feeds`."""

from __future__ import annotations

import os
import signal

from tests.gate import feeds
from tests.support import gating


def test_damaged_feeds_end_in_one_line() -> None:
    seed = 7
    assert list(gating.findings(feeds.cases(seed), 48, memory=feeds.MEMORY)) == [], f"seed {seed}"


def test_a_case_that_dies_hangs_or_raises_is_a_finding() -> None:
    def case(number: int) -> str:
        if number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return "odd" if number == 1 else "" if number == 0 else str(1 // (number - 2))

    found = dict(gating.findings(case, 5))
    assert sorted(found) == [1, 2, 3, 4]
    assert "ZeroDivisionError" in found[2] and "signal" in found[3]
