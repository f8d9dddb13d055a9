"""The grammars are LALR(1) without conflicts, and the tables the parser reads are theirs."""

from pathlib import Path
from random import Random

import pytest
from lark import Lark, UnexpectedInput

from dfc.diagnostics.diagnostic import Diagnostics
from dfc.diagnostics.source import SourceFile
from dfc.syntax.reader.build_items import TreeBuilder
from dfc.syntax.reader.language import load_language
from dfc.syntax.reader.parser import parse_recovering
from dfc.syntax.reader.tables import LANGUAGES, generate, grammar_path, serialise, tables_path
from tests.support.corpus import CORPUS, DEPLOYMENTS
from tests.support.grammars import nodes_of
from tests.support.sweeping import few


def strict(name: str) -> Lark:
    """Lark's strict mode refuses every conflict, also between terminals."""
    grammar = grammar_path(name).read_text()
    return Lark(grammar, parser="lalr", lexer="basic", strict=True, maybe_placeholders=True)


@pytest.fixture(scope="module")
def reference() -> Lark:
    return strict("dfg")


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_programs_follow_the_strict_grammar(reference: Lark, path: Path) -> None:
    reference.parse(path.read_text())


def test_deployments_follow_their_strict_grammar() -> None:
    parser = strict("deploy")
    assert DEPLOYMENTS
    for path in DEPLOYMENTS:
        parser.parse(path.read_text())


@pytest.mark.parametrize("language", LANGUAGES)
def test_tables_are_those_of_the_grammar(language: str) -> None:
    grammar = grammar_path(language).read_text()
    text = tables_path(language).read_text()
    assert text == serialise(generate(grammar)), "run python -m dfc.syntax.reader.tables"


def test_every_rule_has_a_builder_and_every_builder_a_rule() -> None:
    names = nodes_of(Lark(grammar_path("dfg").read_text(), parser="lalr"))
    assert names == {name.removeprefix("build_") for name in dir(TreeBuilder) if name.startswith("build_")}


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_tokens_are_those_of_the_reference_lexer(reference: Lark, path: Path) -> None:
    text = path.read_text()
    expected = [(token.type, str(token), token.start_pos) for token in reference.lex(text)]
    assert [(t.type, t.value, t.start_pos) for t in load_language("dfg").lex(text).tokens] == expected


def test_damaged_programs_are_accepted_exactly_when_the_reference_accepts_them(reference: Lark) -> None:
    random = Random(3)
    refused = 0
    cases = few(range(150), 30)
    for _ in cases:
        text = random.choice(CORPUS).read_text()
        tokens = load_language("dfg").lex(text).tokens
        token = random.choice(tokens)
        changed = text[: token.start_pos] + random.choice(tokens).value + text[token.end_pos :]
        try:
            reference.parse(changed)
            accepted = True
        except UnexpectedInput:
            accepted = False
        diagnostics = Diagnostics()
        parse_recovering(SourceFile("damaged.dfg", changed), diagnostics)
        beyond_grammar = {"E0132", "E0106", "E0138", "E0001"}
        ours = all(diagnostic.code in beyond_grammar for diagnostic in diagnostics)
        assert ours or not accepted, changed
        assert accepted or diagnostics.has_errors, changed
        refused += not accepted
    assert len(cases) / 3 < refused < len(cases)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("a**b", "NAME POWER NAME"),
        ("a//b", "NAME MUL NAME"),
        ("a/=b", "NAME UPDATE NAME"),
        ("a:=b", "NAME UPDATE NAME"),
        ("a: =b", "NAME COLON EQUAL NAME"),
        ("0..n", "INT DOTS NAME"),
        ("a<=b", "NAME COMPARE NAME"),
        ("a=>b", "NAME MAPS_TO NAME"),
        ("a->b", "NAME ARROW NAME"),
        ("a|>b", "NAME PIPE NAME"),
        ("1.5e-3", "FLOAT"),
        ("1e9", "FLOAT"),
        ("1_0.0_1", "FLOAT"),
        ("x==y", "NAME COMPARE NAME"),
        ("a-=-b", "NAME UPDATE MINUS NAME"),
        ("0x1F", "INT"),
        ("10_000", "INT"),
        ("1.0..2", "FLOAT DOTS INT"),
        ("..S", "DOTS NAME"),
        ("a.b", "NAME DOT NAME"),
        ("letx", "NAME"),
        ("let x", "LET NAME"),
        ("newest", "NAME"),
        ('"a\\"b" c', "STRING NAME"),
        ('"a # b"', "STRING"),
        ("a # b", "NAME"),
    ],
)
def test_longest_tokens_win(text: str, kinds: str) -> None:
    assert " ".join(token.type for token in load_language("dfg").lex(text).tokens) == kinds


def test_there_are_forty_keywords_and_all_are_reserved(reference: Lark) -> None:
    keywords = load_language("dfg").keywords
    words = {t.pattern.value for t in reference.terminals if t.pattern.type == "str" and t.pattern.value.isalpha()}
    assert keywords == words
    assert len(keywords) == 40
    for word in keywords:
        diagnostics = Diagnostics()
        parse_recovering(SourceFile("x", f"fn f({word}: f32) -> f32 = 1\n"), diagnostics)
        assert diagnostics.has_errors, word
