"""Names that nothing reads, and names that a `let` hides."""

from __future__ import annotations

import pytest

from dfc.diagnostics.diagnostic import Diagnostic
from dfc.diagnostics.fixes import applied
from dfc.diagnostics.source import SourceFile
from dfc.driver import api


def found(text: str) -> list[Diagnostic]:
    return api.check(SourceFile("program.dfg", f"dfg 1\n\n{text}"), {})


def told(text: str) -> list[tuple[str, str]]:
    return [(each.code, each.span.text) for each in found(text)]


IDENTITY = """block L {
  param w: f32[4, 4] = glorot_uniform()

  fn apply[B](x: f32[B, 4]) -> f32[B, 4] = x @ w
}

var a = L()

readonly entry f[B](x: f32[B, 4]) -> (y: f32[B, 4]) {
  each l in [a, a] {
    let x = l(x)
  }
  return x
}
"""


def test_a_network_that_is_the_identity_is_told() -> None:
    assert ("W0201", "x") in told(IDENTITY)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("  let y = x\n  return x", [("W0202", "y")]),
        ("  let _y = x\n  return x", []),
        ("  let _ = x\n  return x", []),
        ("  let y = x\n  let y = y * 2\n  return y", []),
        ("  let y = x\n  let y = x * 2\n  return y", [("W0202", "y")]),
        ("  let x = x * 2\n  return x", []),
        ("  let y = x\n  if x > 0 {\n    let y = y * 2\n    assert y > 0\n  }\n  return y", [("W0201", "y")]),
        ("  let y = for i in 0..3 {\n    let z = x * i as f32\n    emit z\n  }\n  return sum(y)", []),
        ("  return loop x = x for _ in 0..3 {\n    let x = x / 2\n    assert x < 9\n  }", [("W0201", "x")]),
        (
            "  let y = if x > 0 {\n    let z = 1.0\n    yield z\n  } else {\n    let z = 2.0\n    yield z\n  }\n"
            "  return y",
            [],
        ),
        ("  let a, b = split(stack([x, x]), 2)\n  return sum(a)", [("W0202", "b")]),
    ],
)
def test_a_let_is_told_if_nothing_reads_it_or_it_hides(body: str, expected: list[tuple[str, str]]) -> None:
    assert told(f"fn f(x: f32) -> f32 {{\n{body}\n}}\n") == expected


def test_a_parameter_that_nothing_reads_is_told() -> None:
    assert told("fn f(x: f32, y: f32) -> f32 = x\n") == [("W0202", "y")]
    assert told("fn f(x: f32, _y: f32) -> f32 = x\n") == []


def test_a_parameter_that_decides_a_size_is_needed() -> None:
    assert told("fn f[N](x: f32[N]) -> f32[N] = zeros(f32[N])\n") == []
    assert told("fn f[N](x: f32[N], y: f32[N]) -> f32[N] = x\n") == [("W0202", "y")]


def test_a_parameter_that_only_a_gradient_reads_is_needed() -> None:
    assert told("fn f(x: f32, y: f32) -> f32 = x\ngradient (dy) {\n  return dy * y, dy\n}\n") == []


def test_an_import_that_nothing_uses_is_told_and_can_be_deleted() -> None:
    text = "from std.nn import Dense, LayerNorm\nimport std.optim\n\nvar net = Dense[4, 2]()\n"
    unused = [each for each in found(text) if each.code == "W0202"]
    assert [each.span.text for each in unused] == ["LayerNorm", "import std.optim"]
    source = f"dfg 1\n\n{text}"
    after = applied(source, [edit for each in unused for edit in each.fixes[0].edits])
    assert after == "dfg 1\n\nfrom std.nn import Dense\n\nvar net = Dense[4, 2]()\n"


def test_an_import_that_is_used_by_its_path_is_not_told() -> None:
    assert told("import std.nn\n\nvar net = std.nn.Dense[4, 2]()\n") == []
    assert told("import std.nn as nn\n\nvar net = nn.Dense[4, 2]()\n") == []


def test_what_follows_from_a_mistake_is_not_told() -> None:
    assert [code for code, _ in told("fn f(x: f32) -> f32 {\n  let hidden = x\n  return hiden\n}\n")] == ["E0201"]


def test_calling_it_so_is_on_purpose() -> None:
    text = "fn f(x: f32) -> f32 {\n  let y = x\n  return x\n}\n"
    (message,) = found(text)
    assert found(applied(f"dfg 1\n\n{text}", message.fixes[0].edits).removeprefix("dfg 1\n\n")) == []
