"""Printing is the inverse of parsing."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dfc.diagnostics.source import SourceFile
from dfc.syntax.printer.formatter import format_source
from dfc.syntax.printer.printer import PRINTERS, to_text
from dfc.syntax.reader.parser import parse
from dfc.syntax.tree import tree
from dfc.syntax.tree.make import boolean, call, floating, integer, string, tensor_type
from dfc.syntax.tree.tree import (
    Binary,
    ConstItem,
    Expression,
    Identifier,
    Module,
    Name,
    Negate,
    Node,
    Pipe,
    UnknownDimension,
)
from tests.support.corpus import CORPUS, load
from tests.support.sweeping import examples
from tests.support.trees import RandomTrees, without_groups

PHASES = (Phase.explicit, Phase.generate)  # shrinking a random tree takes minutes and tells little


def reparse(module: Module) -> Module:
    return parse(SourceFile("printed.dfg", to_text(module)))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_printed_programs_parse_to_the_same_tree(path: Path) -> None:
    module = parse(load(path))
    assert reparse(module) == module


@settings(max_examples=examples(150), phases=PHASES)
@given(st.randoms(use_true_random=False))
def test_random_modules_survive_printing(random: Random) -> None:
    module = RandomTrees(random, 3).module()
    once = reparse(module)
    assert without_groups(once) == module
    assert reparse(once) == once


@settings(max_examples=examples(300), phases=PHASES)
@given(st.randoms(use_true_random=False))
def test_random_expressions_get_the_parentheses_they_need(random: Random) -> None:
    expression = RandomTrees(random, 5).expression()
    item = reparse(Module(None, (ConstItem(Identifier("X"), None, expression),))).items[0]
    assert isinstance(item, ConstItem)
    assert without_groups(item.value) == expression


@settings(max_examples=examples(60), phases=PHASES)
@given(st.randoms(use_true_random=False))
def test_printed_text_has_the_layout_of_the_formatter(random: Random) -> None:
    text = to_text(parse(SourceFile("first.dfg", to_text(RandomTrees(random, 3).module()))))
    formatted = format_source(SourceFile("second.dfg", text))
    assert [line.split("  ##")[0].rstrip() for line in formatted.splitlines()] == [
        line.split("  ##")[0].rstrip() for line in text.splitlines()
    ]


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (Binary("*", Binary("+", Name("a"), Name("b")), Name("c")), "(a + b) * c"),
        (Binary("-", Name("a"), Binary("-", Name("b"), Name("c"))), "a - (b - c)"),
        (Binary("**", Negate(Name("a")), Negate(Name("b"))), "(-a) ** -b"),
        (Pipe(Name("a"), Pipe(Name("b"), Name("c"))), "a |> (b |> c)"),
        (call("sum", Name("x"), axis=integer(-1)), "sum(x, axis = -1)"),
        (floating(-1e300), "-1e+300"),
        (floating(0.1), "0.1"),
        (boolean(True), "true"),
        (string('a"\\\n\x00é'), '"a\\"\\\\\\n\\u{0}é"'),
        (tensor_type("f32", Name("N"), UnknownDimension()), "f32[N, ?]"),
    ],
)
def test_single_nodes_print(node: Node, text: str) -> None:
    assert to_text(node) == text


def test_not_a_number_has_no_literal() -> None:
    with pytest.raises(ValueError, match="no literal"):
        floating(float("nan"))


def test_long_chains_print() -> None:
    chain: Expression = Name("a")
    for _ in range(10_000):
        chain = Binary("+", chain, Name("a"))
    assert to_text(chain) == " + ".join(["a"] * 10_001)


def test_every_node_has_a_printer() -> None:
    nodes = {each for each in vars(tree).values() if isinstance(each, type) and issubclass(each, Node)}
    assert set(PRINTERS) == nodes - {Node}
