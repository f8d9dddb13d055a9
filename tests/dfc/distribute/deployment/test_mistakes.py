"""The likely mistakes in deployment files: each gets exactly the messages in `mistakes.cases`."""

from __future__ import annotations

from pathlib import Path

import pytest

from dfc.diagnostics.diagnostic import render
from tests.support.deploying import diagnosed
from tests.support.golden import Case, check_case, read_cases
from tests.support.one_test_for_all import one_test_for_all

CASES = read_cases(Path(__file__).with_name("mistakes.cases"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_messages_are_the_expected_ones(case: Case, bless: bool) -> None:
    found = diagnosed(case.source)
    assert found, "every case is a mistake"
    check_case(case, "\n\n".join(map(render, found)), bless)


@one_test_for_all(CASES)
def test_messages_are_short_and_plain(case: Case) -> None:
    assert case.expected.isascii()
    for line in case.expected.splitlines():
        assert len(line) <= 160, line
    for message in case.expected.split("\n\n"):
        assert sum(line.strip().startswith("= ") for line in message.splitlines()) <= 4
