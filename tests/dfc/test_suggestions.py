"""Text to type instead of what was written."""

from __future__ import annotations

import pytest

from dfc.suggestions import converted
from tests.support.building import codes, messages


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x", "x as f64"),
        ("-x", "-x as f64"),
        ("x[0, 1]", "x[0, 1] as f64"),
        ("f(a + b)", "f(a + b) as f64"),
        ("(a + b)", "(a + b) as f64"),
        ("a + b", "(a + b) as f64"),
        ("a+b", "(a+b) as f64"),
        ("-a*b", "(-a*b) as f64"),
        ("x |> f", "(x |> f) as f64"),
        ("if a then b else c", "(if a then b else c) as f64"),
    ],
)
def test_a_conversion_stands_behind_the_whole_expression(text: str, wanted: str) -> None:
    assert converted(text, "f64") == wanted


@pytest.mark.parametrize("right", ["a + b", "a*b", "a - b", "-a", "a ** b", "if a > b then a else b", "a |> abs"])
def test_following_the_advice_gives_a_program(right: str) -> None:
    right = f"({right})" if "if" in right or "|>" in right else right
    text = "entry f(x: f64, a: f32, b: f32) -> bool {{ return {} }}"
    told = messages(text.format(f"x < {right}"))
    advice = told.partition("help: write `")[2].partition("`")[0]
    assert advice.startswith("x < ") and " as f64" in advice
    assert codes(text.format(advice)) == []
