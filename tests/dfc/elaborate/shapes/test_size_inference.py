"""`let [N] ..`, `?`, and what is said about sizes that only the run finds out."""

from __future__ import annotations

import pytest

from dfc.ir.equality import difference
from dfc.ops.sizes.checks import checks_inside
from dfc.ops.spelling import show
from tests.support.building import codes, graph_of, messages


def entry(body: str, result: str = "f32[?]") -> str:
    return f"readonly entry f[B](x: f32[B], c: bool) -> (r: {result}) {{\n  {body}\n}}"


def result_type(text: str) -> str:
    return str(graph_of(text).entries["f"].block.outputs[0].type)


def test_the_name_in_a_let_is_that_of_the_size() -> None:
    assert result_type(entry("let [Many] y: f32[Many] = x[x > 0]\n  return y")) == "f32[Many]"


def test_every_call_has_a_size_of_its_own() -> None:
    text = entry("let a = x[x > 0]\n  let b = x[x > 0]\n  return a + b")
    assert codes(text) == ["E0305"]


def test_a_size_is_shared_by_all_uses_of_a_result() -> None:
    assert result_type(entry("let a = x[x > 0]\n  return a + square(a)")) == "f32[N]"


def test_names_of_sizes_stay_apart_from_those_of_the_entry() -> None:
    text = "readonly entry f[N](x: f32[N]) -> (r: f32[?]) { return x[x > 0] }"
    assert result_type(text) == "f32[N_1]"


def test_a_function_may_leave_a_size_open() -> None:
    text = "fn positive[M](x: f32[M]) -> f32[?] = x[x > 0]\n" + entry("let [K] y: f32[K] = positive(x)\n  return y * 2")
    assert result_type(text) == "f32[K]"


def test_a_parameter_with_an_open_size_takes_any() -> None:
    text = "fn total(x: f32[?]) -> f32 = sum(x)\n" + entry("return total(x[x > 0]) + total(x)", "f32")
    assert codes(text) == []


def test_parts_of_a_size_can_be_named() -> None:
    text = entry("let [K] y: f32[K + 1] = x\n  return y[:K]", "f32[B - 1]")
    assert result_type(text) == "f32[B - 1]"


def test_a_let_may_leave_a_size_open() -> None:
    assert codes(entry("let y: f32[?] = x[x > 0]\n  return y")) == []
    assert codes(entry("let y: f32[?, ?] = x[x > 0]\n  return y")) == ["E0307"]
    assert codes(entry("let y: f32[?] = 0\n  return y")) == ["E0307"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("let y: f32[?] = zeros(f32[?])\n  return y", "E0320"),
        ("let [K] y = x[x > 0]\n  return y", "E0321"),
        ("let [B] y: f32[B] = x[x > 0]\n  return y", "E0205"),
        ("let y = if c { yield x[x > 0] } else { yield x[x < 0] }\n  return y", "E0319"),
        ("let y = for e in x { emit x[x > e] }\n  return y", "E0319"),
        ("let y = loop y = x for e in x { y = y[y > e] }\n  return y", "E0601"),
        ("return nonzero(c) as f32", "E0313"),
        ("return range(3, x)", "E0309"),
        ("return range(x, 3)", "E0316"),
    ],
)
def test_what_cannot_be_is_explained(body: str, code: str) -> None:
    assert codes(entry(body)) == [code]


def test_feeds_and_variables_have_sizes_with_names() -> None:
    assert codes("entry f(x: f32[?]) -> (r: f32) { return sum(x) }") == ["E0320"]
    assert codes("var w: f32[?] = 0") == ["E0320"]
    said = messages("entry f(x: f32[?]) -> (r: f32) { return sum(x) }")
    assert "write" not in said
    assert "give it a name: `entry f[N](...)`" in said


def test_the_message_about_a_name_shows_a_type_that_would_do() -> None:
    said = messages(entry("let [K] y = stack([x, x], axis = 1)[x > 0]\n  return y", "f32[?, 2]"))
    assert "let [K] y: f32[K, 2] = ..." in said


def checks(body: str, result: str = "f32[?]") -> list[str]:
    return [check.condition for check in checks_inside(graph_of(entry(body, result)).entries["f"].block)]


def test_what_cannot_fail_is_no_check() -> None:
    assert checks("let [N] y: f32[N] = x[x > 0]\n  return unique(y).values") == []
    assert checks("let [N] y: f32[N] = x[x > 0]\n  let z = x[:N]\n  return z") == []


def test_conditions_on_sizes_are_checks_where_they_stand() -> None:
    assert checks("let [N] y: f32[N] = x[x > 0]\n  return y[1:-1]") == ["N >= 2"]
    assert checks("let [N] y: f32[N] = x[x > 0]\n  assert N == 3\n  return y") == ["N == 3"]
    assert checks("return x[range(sum(x as i64), 7)]") == ["0 <= N <= 7"]


def test_no_check_of_a_size_that_is_found_out_is_left_to_the_entry() -> None:
    graph = graph_of(entry("let [N] y: f32[N] = x[x > 0]\n  assert N > 2\n  return y[:2]", "f32[2]"))
    assert graph.entries["f"].checks == ()


def test_a_where_of_a_function_is_checked_at_its_call() -> None:
    text = "fn pairs[M](x: f32[M]) -> f32[M // 2, 2] where M % 2 == 0 = reshape(x, [M // 2, 2])\n"
    graph = graph_of(text + entry("return sum(pairs(x[x > 0]), axis = 1)"))
    found = list(checks_inside(graph.entries["f"].block))
    assert [(check.condition, check.reason) for check in found] == [("(N % 2) == 0", "`pairs` needs M % 2 == 0")]


def test_facts_of_a_branch_are_about_these_sizes_too() -> None:
    body = "let [N] y: f32[N] = x[x > 0]\n  let r = if N >= 2 { yield y[1] } else { yield 0 }\n  return r"
    assert checks(body, "f32") == []
    assert codes(entry(body, "f32")) == []


@pytest.mark.parametrize(
    "body",
    [
        "return x[x > 0]",
        "let [N] y: f32[N] = x[x > 0]\n  let [K] z: f32[K] = x[x < 0]\n  assert N == K\n  return y + z",
        "let y = x[x > 0]\n  let s = if c { yield sum(y[y > 1]) } else { yield sum(unique(y).values) }\n  return y * s",
        "let s = loop s: f32 = 0 for e in x { s = s + sum(x[x > e]) }\n  return range(s as i64, 100) as f32",
        "let s = loop s: f32 = 9 while sum(x[x > s]) > 0 { s = s / 2 }\n  return x[x > s]",
        "return grad(sum(square(x[x > 0])), x)",
    ],
)
def test_printed_graphs_are_read_back_as_they_are(body: str) -> None:
    graph = graph_of(entry(body))
    assert difference(graph, graph_of(show(graph))) is None


def test_sizes_of_two_calls_that_meet_are_explained() -> None:
    said = messages(entry("let a = x[x > 0]\n  let b = x[x > 0]\n  return a + b"))
    assert "`N` and `N_1` are not known to be equal" in said
    assert "`assert N == M` above" in said
    assert "where N" not in said
