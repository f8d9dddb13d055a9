"""The likely mistakes of programs that parse: each gets exactly the message in `mistakes.cases`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.building import messages
from tests.support.golden import Case, check_case, read_cases

CASES = read_cases(Path(__file__).with_name("mistakes.cases"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_message_is_the_expected_one(case: Case, bless: bool) -> None:
    check_case(case, messages(case.source, "model.dfg"), bless)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_messages_are_short_and_plain(case: Case) -> None:
    assert case.expected.isascii()
    for line in case.expected.splitlines():
        assert len(line) <= 160, line
    assert sum(line.strip().startswith("= ") for line in case.expected.splitlines()) <= 4
