"""The likely mistakes of programs that parse: each gets exactly the message in `mistakes.cases`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.building import messages
from tests.support.golden import Case, check_case, read_cases
from tests.support.one_test_for_all import one_test_for_all

CASES = read_cases(Path(__file__).with_name("mistakes.cases"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_message_is_the_expected_one(case: Case, bless: bool) -> None:
    check_case(case, messages(case.source, "model.dfg"), bless)


@one_test_for_all(CASES)
def test_messages_are_short_and_plain(case: Case) -> None:
    assert case.expected.isascii()
    for line in case.expected.splitlines():
        assert len(line) <= 160, line
    assert sum(line.strip().startswith("= ") for line in case.expected.splitlines()) <= 4


HELPS = {
    "a conversion of a comparison is put in parentheses": (
        "fn f[N](x: f32[N], y: f32[N]) -> f32[N] = x > y",
        "convert: `(x > y) as f32`",
    ),
    "a conversion of a variable is not": ("var a: f32 = 0\nentry e(x: f64) {\n  a := x\n}", "write `x as f32`"),
    "both sides of an exact quotient are converted": (
        "fn f(x: i32, y: i32) -> f32 = x / y",
        "write `x as f32 / y as f32`",
    ),
    "a name that a loop should carry is carried, not hidden": (
        "fn f(x: f32) -> f32 {\n  let t = x\n  for i in 0..3 {\n    t = t + 1\n  }\n  return t\n}",
        "let t = loop t = t for i in 0..3 { ... }",
    ),
    "the bound that is no whole number is to blame": (
        "fn f(x: f32) -> i64[3] {\n  return for i in 0..x {\n    emit i\n  }\n}",
        "^ f32",
    ),
}


@pytest.mark.parametrize("name", HELPS)
def test_the_help_can_be_typed(name: str) -> None:
    source, help_ = HELPS[name]
    assert help_ in messages(source, "model.dfg")
