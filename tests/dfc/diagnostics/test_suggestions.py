"""Text to type instead of what was written."""

from __future__ import annotations

import pytest

from dfc.diagnostics.suggestions import closest, converted, grouped
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


@pytest.mark.parametrize(
    ("name", "known", "wanted"),
    [
        ("hiden", ["hidden", "widen_"], "hidden"),
        ("soft_max", ["softmax"], "softmax"),
        ("mxa", ["max"], "max"),
        ("tahn", ["tan", "tanh"], "tanh"),
        ("cross_entrpy", ["cross_entropy"], "cross_entropy"),
        ("BatchNormalization", ["BatchNorm", "Dense"], "BatchNorm"),
        ("pss", ["ps", "worker"], "ps"),
        ("rand", ["grad", "round"], ""),
        ("map", ["max", "min"], ""),
        ("avg_pool", ["max_pool"], ""),
        ("conv3d", ["conv1d", "conv2d"], ""),
        ("w3", ["w1", "w2"], ""),
        ("binary_cross_entropy", ["cross_entropy"], ""),
        ("erfc", ["exp"], ""),
    ],
)
def test_only_a_likely_misspelling_is_taken_for_one(name: str, known: list[str], wanted: str) -> None:
    assert closest(name, known) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"), [("a", "a"), ("f(a + b)", "f(a + b)"), ("a + b", "(a + b)"), ("-a", "(-a)")]
)
def test_what_brackets_follow_is_grouped(text: str, wanted: str) -> None:
    assert grouped(text) == wanted
