"""The two programs that papers print wrongly: refused as printed, with the reason; corrected, they learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc.diagnostics.diagnostic import Diagnostic, render
from dfc.diagnostics.source import SourceFile
from dfc.driver import api
from dfc.syntax.reader.reading import read_source

FIGURES = Path(__file__).resolve().parents[3] / "samples" / "figures"


def messages(name: str) -> list[Diagnostic]:
    return api.check(read_source(FIGURES / f"{name}.dfg"), {})


def test_the_white_paper_adds_784_numbers_to_100() -> None:
    (told,) = messages("white_paper_figure_1")
    text = render(told)
    assert (told.code, told.span.line) == ("E0305", 10)
    assert "f32[784] plus f32[100]" in text
    assert "`784` is axis 0 of `W`: f32[784, 100]" in text
    assert "`100` is the length of `b`: f32[100]" in text
    assert "`b` would fit if it were declared as f32[784]" in text


def test_the_osdi_paper_takes_the_bias_of_another_layer() -> None:
    warned, refused = sorted(messages("osdi_figure_1"), key=lambda each: each.span.line)
    assert (warned.code, warned.span.line) == ("W0408", 9)
    assert warned.title == "the parameter `b_1` is never used"
    assert (refused.code, refused.span.line) == ("E0305", 16)
    text = render(refused)
    assert "f32[B, 100] plus f32[10]" in text
    assert "`100` is axis 1 of `W_1`: f32[784, 100]" in text
    assert "`10` is the length of `b_2`: f32[10]" in text
    assert "`b_1` would fit: it is f32[100]" in text


def test_the_corrected_layer_learns_to_copy() -> None:
    assert messages("white_paper_figure_1_corrected") == []
    model = dfc.loads(api.compile(FIGURES / "white_paper_figure_1_corrected.dfg").to_bytes(), threads=1)
    rng = np.random.default_rng(1)
    x, target = rng.random(784, np.float32), rng.random(100, np.float32)
    losses = [model.train(x=x, target=target, rate=0.05)[0] for _ in range(60)]
    layer = np.maximum(model.state["W"] @ x + model.state["b"], 0)
    np.testing.assert_allclose(model.apply(x=x)[0], layer, rtol=1e-4, atol=1e-4)
    assert losses[-1] < 0.3 * losses[0]


def test_the_corrected_perceptron_learns() -> None:
    assert messages("osdi_figure_1_corrected") == []
    model = dfc.loads(api.compile(FIGURES / "osdi_figure_1_corrected.dfg").to_bytes(), threads=1)
    rng = np.random.default_rng(1)
    x = rng.random((64, 784), np.float32)
    y = x[:, :10].argmax(axis=1).astype(np.int32)
    losses = [model.train(x=x, y=y)[0] for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("let a = x + late\n  let late = x * 2\n  return sum(a)", "`late` is used before it is defined"),
        ("let a = x + late\n  return sum(a)", "there is no `late` here"),
    ],
)
def test_a_name_that_is_defined_later_is_told_as_such(body: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "order.dfg").write_text(f"dfg 1\n\nentry f(x: f32[3]) -> (y: f32) {{\n  {body}\n}}\n")
    (told,) = api.check(read_source(tmp_path / "order.dfg"), {})
    assert (told.code, told.title, told.span.line) == ("E0201", code, 4)


def test_the_readme_shows_the_very_messages() -> None:
    readme = (FIGURES.parents[1] / "README.md").read_text(encoding="utf-8")
    for name in ("white_paper_figure_1", "osdi_figure_1"):
        source = read_source(FIGURES / f"{name}.dfg")
        for told in api.check(SourceFile(f"samples/figures/{name}.dfg", source.text), {}):
            assert render(told) in readme


def test_a_parameter_counts_as_used_wherever_its_name_stands() -> None:
    head = "dfg 1\n\nparam w: f32 = 1\n\n"
    users = [
        "entry f() -> (y: f32) { return w }",
        "var v: f32 = w\n\nentry f() -> (y: f32) { return v }",
        "fn f() -> f32 = w",
        "entry f() {\n  w := 2\n}",
    ]
    for user in users:
        assert "W0408" not in [each.code for each in api.check(SourceFile("used.dfg", f"{head}{user}\n"), {})], user
    idle = api.check(SourceFile("idle.dfg", f"{head}entry f(x: f32) -> (y: f32) {{\n  return x\n}}\n"), {})
    assert [(each.code, each.span.line) for each in idle] == [("W0408", 3)]
