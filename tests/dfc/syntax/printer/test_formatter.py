"""The formatter has one layout, keeps it, and loses nothing."""

import re
from pathlib import Path
from random import Random

import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile
from dfc.syntax.printer.formatter import format_source
from dfc.syntax.reader.language import load_language
from dfc.syntax.reader.parser import parse
from tests.support.corpus import CORPUS, load
from tests.support.golden import Case, check_case, read_cases
from tests.support.sweeping import few


def formatted(text: str) -> str:
    return format_source(SourceFile("test.dfg", text))


def words(text: str) -> list[str]:
    """All tokens and comments."""
    lexed = load_language("dfg").lex(text)
    found = sorted([*lexed.tokens, *lexed.comments], key=lambda token: token.start_pos)
    return [token.value.rstrip() for token in found]


def mangled(text: str, random: Random) -> str:
    """The text with other spaces: none where none are needed, many elsewhere, and shifted lines."""
    lines: list[str] = []
    for line in text.splitlines():
        parts = re.split(r'("(?:\\.|[^"\\])*"|#.*)', line.strip())
        parts[::2] = [re.sub(" +", lambda _: " " * random.randint(1, 4), part) for part in parts[::2]]
        parts[::2] = [re.sub(r" *([,=()\[\]+*]) *", _spaced(random), part) for part in parts[::2]]
        lines.append(" " * random.randrange(9) + "".join(parts) + " " * random.randrange(3))
        lines.extend([""] * random.choice((0, 0, 0, 1, 3)) if not line.strip() else [])
    return "\n".join(lines)


def _spaced(random: Random):
    def replace(match: re.Match[str]) -> str:
        sign = match.group(1)
        if sign in "=+*":  # `x = -y` and `a => b` are other tokens without their spaces
            return match.group()
        return random.choice(("", " ", "   ")) + sign + random.choice(("", " "))

    return replace


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_programs_are_in_their_one_layout(path: Path) -> None:
    assert format_source(load(path)) == path.read_text()


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
@pytest.mark.parametrize("seed", few(range(4), 1))
def test_mangled_programs_come_back(path: Path, seed: int) -> None:
    text = path.read_text()
    broken = mangled(text, Random(seed))
    assert broken != text
    assert formatted(broken) == text


@pytest.mark.parametrize("case", read_cases(Path(__file__).parent / "formatter.cases"), ids=lambda c: c.name)
def test_small_programs_get_their_layout(case: Case, bless: bool) -> None:
    once = formatted(case.source)
    check_case(case, once, bless)
    assert words(once) == words(case.source)
    assert formatted(once) == once
    assert parse(SourceFile("a", once)) == parse(SourceFile("b", case.source))


def test_broken_programs_are_left_alone() -> None:
    with pytest.raises(CompileError):
        formatted("fn f(x: f32) -> f32 = x x\n")


@pytest.mark.parametrize("text", ["", "# only a comment\n", "dfg 1\n"])
def test_nearly_empty_files_stay(text: str) -> None:
    assert formatted(text) == text


def test_line_ends_become_plain() -> None:
    assert formatted("const A = 1  # one\r\n\r\n\r\n\r\nconst B = 2") == "const A = 1  # one\n\nconst B = 2\n"
