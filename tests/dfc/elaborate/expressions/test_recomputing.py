"""`with recompute`: where it may stand, what it may be, and how graphs print it."""

from __future__ import annotations

import pytest

from dfc.ir.equality import equal
from dfc.ops.attributes import ForAttributes
from dfc.ops.spelling import show
from tests.support.building import codes, graph_of, messages

LOOP = "entry f[N](xs: f32[N]) -> f32 {\n  let y = loop y: f32 = 1 for x in xs SETTING { y = y * x }\n  return y\n}"
BLOCK = "block B {\n  var v: f32 = 1\n  fn apply(x: f32) -> f32 = exp(x) * v\n}\n"


def loop(setting: str) -> str:
    return LOOP.replace("SETTING", setting)


def test_a_loop_says_how_many_iterations_lie_between_two_that_are_kept() -> None:
    graph = graph_of(loop("with recompute = 2 * 8"))
    (node,) = (node for node in graph.entries["f"].block.nodes if node.op == "for")
    assert isinstance(node.attributes, ForAttributes)
    assert node.attributes.recompute == 16
    text = show(graph)
    assert "with recompute = 16 {" in text
    assert equal(graph, graph_of(text))


@pytest.mark.parametrize(
    ("setting", "code", "place"),
    [
        ("with recompute = 0", "E0315", "this is 0"),
        ("with recompute = -3", "E0315", "this is -3"),
        ("with recompute = 1.5", "E0315", "this is 1.5"),
        ("with recompute = true", "E0315", "this is true"),
        ("with recompute = xs[0]", "E0309", "only known when the program runs"),
        ("with recompute = N", "E0309", "`N` is only known when the program runs"),
        ("with recompte = 4", "E0204", "did you mean `recompute`?"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_where_it_stands(setting: str, code: str, place: str) -> None:
    found = messages(loop(setting))
    assert codes(loop(setting)) == [code]
    assert place in found
    assert "^" in found


def test_a_while_keeps_nothing_that_could_be_left_out() -> None:
    text = "entry f(x: f32) -> f32 {\n let y = loop y = x while y < 9 with recompute = 4 { y = y * 2 }\n return y\n}"
    assert codes(text) == ["E0204"]
    assert "leave out the setting" in messages(text)


def test_a_call_of_an_instance_becomes_a_region_that_prints_as_a_loop_of_one_round() -> None:
    text = f"{BLOCK}var b = B() with recompute = true\nentry f(x: f32) -> f32 = b(b(x))"
    text = text.replace(" = b(b(x))", " {\n return b(b(x))\n}")
    graph = graph_of(text)
    assert [node.op for node in graph.entries["f"].block.nodes].count("for") == 2
    assert equal(graph, graph_of(show(graph)))


@pytest.mark.parametrize(
    ("declaration", "code", "words"),
    [
        ("var b = B() with recompute = 4", "E0315", "must be `true` or `false`"),
        ('var b = B() with container = "x"', "E1001", "the setting `container` of an instance"),
        ("var b: f32 = 1 with recompute = true", "E0204", "behind an instance of a block"),
        ("var b = 1.5 with recompute = true", "E0204", "behind an instance of a block"),
    ],
)
def test_only_an_instance_has_the_setting(declaration: str, code: str, words: str) -> None:
    text = BLOCK + declaration
    assert codes(text) == [code]
    assert words in messages(text)
