"""Style warnings, which only `dfc check` asks for."""

import pytest

from dfc.diagnostics.diagnostic import render
from dfc.diagnostics.source import SourceFile
from dfc.syntax.reader.layout import check_style
from dfc.syntax.reader.parser import parse
from tests.support.corpus import CORPUS, load


def style(text: str) -> list[str]:
    source = SourceFile("test.dfg", text)
    return [render(diagnostic) for diagnostic in check_style(source, parse(source))]


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_our_own_programs_have_style(path) -> None:
    assert list(check_style(load(path), parse(load(path)))) == []


def test_a_missing_edition_is_mentioned() -> None:
    (message,) = style("const A = 1\n")
    assert message.startswith("warning[W0001]") and "write `dfg 1` on the first line" in message


def test_long_lines_are_marked_where_they_are_too_long() -> None:
    (message,) = style("dfg 1\n" + "const A = " + "1" * 90 + "\nconst B = " + "1" * 91 + "\n")
    assert "test.dfg:3:101" in message and "101 characters" in message
