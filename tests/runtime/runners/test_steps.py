"""Steps of a pipeline that are kept, and what is told of those that are not."""

from __future__ import annotations

import pytest

from dfc_runtime.runners import steps
from dfc_runtime.runners.steps import StepLog


def test_behind_the_last_step_that_is_kept_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MOST_STEPS", 2)
    put = [0]

    def take() -> None:
        put[0] += 1

    log = StepLog(["raw"], lambda: (put[0],), lambda: 0)
    step = log.recorded(take)
    step()
    assert log.report("train")["put"] == [1]
    for _ in range(4):
        step()
    assert log.report("train")["put"] == [2]  # when the third one began
    assert [each.put for each in log.steps] == [(0,), (1,)]
