"""Whatever the bytes, there is a tree or a clear message, and never a traceback."""

from pathlib import Path
from random import Random

import pytest

import dfc
from dfc.diagnostics.diagnostic import CompileError, Diagnostics, render
from dfc.diagnostics.source import SourceFile
from dfc.syntax.printer.printer import to_text
from dfc.syntax.reader import nesting
from dfc.syntax.reader.language import NESTING_LIMIT, load_language
from dfc.syntax.reader.limits import SIZE_LIMIT
from dfc.syntax.reader.nesting import CHAIN_LIMIT
from dfc.syntax.reader.parser import parse, parse_recovering
from dfc.syntax.reader.reading import decode_source, read_source
from tests.support.corpus import CORPUS
from tests.support.sweeping import few


def codes(text: str) -> list[str]:
    diagnostics = Diagnostics()
    parse_recovering(SourceFile("test.dfg", text), diagnostics)
    for diagnostic in diagnostics:
        render(diagnostic)
    return [diagnostic.code for diagnostic in diagnostics]


DEEP = {
    "brackets": lambda n: f"const A = {'(' * n}1{')' * n}",
    "lists": lambda n: f"const A = {'[' * n}1{']' * n}",
    "calls": lambda n: f"const A = {'f(' * n}1{')' * n}",
    "not": lambda n: f"const A = {'not ' * n}x",
    "negation": lambda n: f"const A = {'- ' * n}x",
    "powers": lambda n: f"const A = {'x ** ' * n}x",
    "else": lambda n: f"const A = {'if a then b else ' * n}x",
    "then": lambda n: f"const A = {'if a then ' * n}x{' else y' * n}",
    "function types": lambda n: f"const A: {'fn() -> ' * n}f32 = 1",
    "blocks": lambda n: f"fn f() {'{ if a ' * n}{{ }}{' }' * n}",
}


@pytest.mark.parametrize("kind", DEEP)
def test_nesting_is_allowed_up_to_the_limit(kind: str) -> None:
    deepest = NESTING_LIMIT - (kind in ("blocks", "function types"))  # their last level opens two brackets
    text = DEEP[kind](deepest)
    module = parse(SourceFile("test.dfg", text))
    assert parse(SourceFile("again.dfg", to_text(module))) == module


@pytest.mark.parametrize("kind", DEEP)
@pytest.mark.parametrize("depth", few([NESTING_LIMIT + 1, 2_000, 50_000], 2))
def test_deeper_nesting_is_one_message(kind: str, depth: int) -> None:
    assert codes(DEEP[kind](depth)) == ["E0140"]


@pytest.mark.parametrize(
    "text",
    ["(" * 20_000, ")" * 20_000, "const A = " + "[{(" * 8_000],
    ids=["opened", "closed", "of all kinds"],
)
def test_endless_brackets_are_one_message(text: str) -> None:
    assert len(codes(text)) == 1


def test_a_negated_operand_is_not_nested() -> None:
    assert codes("const A = x" + " - x" * 1000) == []


LINKS = [" + x", " |> f()", ".a", "()", "[0]", " as f32", " or x"]


@pytest.mark.parametrize("link", LINKS)
def test_chains_are_longer_than_any_recursion_but_bounded(link: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit of fewer, which are read in less time."""
    monkeypatch.setattr(nesting, "CHAIN_LIMIT", 2000)
    assert codes(f"const A = x{link * 1500}") == []
    assert codes(f"const A = x{link * 2001}") == ["E0147"]


@pytest.mark.parametrize("link", few(LINKS, 1))
def test_the_limit_of_chains(link: str) -> None:
    assert codes(f"const A = x{link * (CHAIN_LIMIT - 1)}") == []
    assert codes(f"const A = x{link * (CHAIN_LIMIT + 1)}") == ["E0147"]


def test_long_lists_are_no_nesting() -> None:
    assert codes("const A = [" + "1, " * 5_000 + "]") == []
    assert codes("fn f() {\n" + "  if a { }" + " else if a { }\n" * 1200 + "}") == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("const A = \0", "E0142"),
        ("const A = \ud800", "E0141"),
        ("# é\ud800", "E0141"),
    ],
)
def test_what_is_no_text_is_one_message(text: str, code: str) -> None:
    assert codes(text) == [code]


def test_text_over_the_limit_is_one_message() -> None:
    assert codes("#" * (SIZE_LIMIT + 1)) == ["E0143"]


def test_bytes_that_are_no_utf8_are_placed() -> None:
    with pytest.raises(CompileError) as caught:
        decode_source("const A = 1\n# é ".encode() + b"\xff\xfe\n", "bad.dfg")
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.span.line, diagnostic.span.column) == ("E0141", 2, 5)
    assert "0xFF" in render(diagnostic)


def test_byte_order_marks_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "mark.dfg"
    path.write_bytes(b"\xef\xbb\xbfdfg 1\r\nconst A = 1\r\n")
    module = parse(read_source(path, "mark.dfg"))
    assert len(module.items) == 1


def test_files_over_the_limit_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.dfg"
    with path.open("wb") as file:
        file.truncate(SIZE_LIMIT + 1)
    with pytest.raises(CompileError, match="E0143"):
        read_source(path)


ALPHABETS = {
    "ascii": [*map(chr, range(32, 127)), "\n"],
    "unicode": [*map(chr, range(1, 0x3000, 7)), "\n"],
    "words": ["let ", "if ", "fn ", "(", ")", "[", "]", "{ ", "} ", "x ", "1 ", "+ ", ": ", ", ", "= ", "\n"],
    "quotes": ['"', "'", "\\", "\n", " "],
    "items": ["fn ", "const ", "x", "\nfn ", "\nblock ", "{", "}", " = ", "1", "\n"],
}


@pytest.mark.parametrize("kind", ALPHABETS)
@pytest.mark.parametrize("length", few([1, 10, 100, 1000, 20_000, 200_000], 5))
def test_random_text_is_survived(kind: str, length: int) -> None:
    random = Random(length)
    found = codes("".join(random.choices(ALPHABETS[kind], k=length)))
    assert len(found) <= 20 or set(found) <= {"E0106", "E0132", "E0138"}


@pytest.mark.parametrize("seed", few(range(5), 1))
def test_one_wrong_token_is_reported_near_its_place(seed: int) -> None:
    """Deleting, doubling or swapping a token: a message, and mostly on the same line."""
    random = Random(seed)
    distances: list[int] = []
    cases = few(range(80), 24)
    for _ in cases:
        text = random.choice(CORPUS).read_text()
        damaged, line = _damage(text, random)
        diagnostics = Diagnostics()
        parse_recovering(SourceFile("damaged.dfg", damaged), diagnostics)
        lines = [label.span.line for diagnostic in diagnostics for label in diagnostic.labels]
        if lines:  # some damage gives another program
            distances.append(min(abs(line - each) for each in lines))
            assert len(diagnostics) <= 3
    assert len(distances) > 0.75 * len(cases)
    assert max(distances) <= 30
    assert sum(distance <= 1 for distance in distances) > 0.9 * len(distances)


def _damage(text: str, random: Random) -> tuple[str, int]:
    tokens = load_language("dfg").lex(text).tokens
    index = random.randrange(len(tokens) - 1)
    token, following = tokens[index], tokens[index + 1]
    line = text.count("\n", 0, token.start_pos) + 1
    kind = random.choice(("delete", "double", "swap"))
    if kind == "delete":
        return text[: token.start_pos] + text[token.end_pos :], line
    if kind == "double":
        return text[: token.end_pos] + " " + text[token.start_pos :], line
    between = text[token.end_pos : following.start_pos]
    swapped = following.value + between + token.value
    return text[: token.start_pos] + swapped + text[following.end_pos :], line


@pytest.mark.parametrize("padding", [0, 2 * SIZE_LIMIT])
def test_a_bundle_is_told_from_a_program(tmp_path: Path, padding: int) -> None:
    path = tmp_path / "line.bundle"
    path.write_bytes(dfc.compile(text="dfg 1\nentry f() -> i32 { return 1 }\n").to_bytes() + bytes(padding))
    with pytest.raises(CompileError) as caught:
        read_source(path, "line.bundle")
    (problem,) = caught.value.diagnostics
    assert problem.title == "this is a bundle, not the text of a program"
    assert problem.helps == ("`dfc inspect line.bundle` describes it, and `dfc run line.bundle` runs it",)
