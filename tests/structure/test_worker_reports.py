"""A worker keeps quiet about what is around a test, unless there is something to say."""

from typing import Any

import pytest

from tests.support.worker_reports import is_reported


def report(when: Any, outcome: Any = "passed", **more: Any) -> pytest.TestReport:
    return pytest.TestReport("test", ("test.py", 1, "test"), {}, outcome, None, when, **more)


@pytest.mark.parametrize("when", ["setup", "teardown"])
def test_what_went_well_around_a_test_is_not_said(when: str) -> None:
    assert not is_reported(report(when))


@pytest.mark.parametrize(
    "said",
    [
        report("call"),
        report("call", "skipped"),
        report("setup", "failed"),
        report("setup", "skipped"),
        report("teardown", "failed"),
        report("setup", duration=2.0),
        report("teardown", sections=[("Captured stdout teardown", "text")]),
    ],
    ids=lambda one: f"{one.when}-{one.outcome}",
)
def test_everything_else_is_said(said: pytest.TestReport) -> None:
    assert is_reported(said)
