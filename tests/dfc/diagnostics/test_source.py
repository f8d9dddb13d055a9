"""Lines, columns and spans."""

from hypothesis import given
from hypothesis import strategies as st

from dfc.diagnostics.source import SourceFile, Span

FILE = SourceFile("a.dfg", "one\r\ntwo\n\nfour")


def test_lines_and_positions_count_from_one() -> None:
    assert [FILE.line_text(number) for number in range(6)] == ["", "one", "two", "", "four", ""]
    assert FILE.line_count == 4
    assert FILE.position(0) == (1, 1)
    assert FILE.position(FILE.text.index("w")) == (2, 2)
    assert FILE.position(len(FILE.text)) == (4, 5)


@given(st.text(alphabet="ab\r\n\u2028é"))
def test_positions_agree_with_splitting(text: str) -> None:
    file = SourceFile("x", text)
    lines = text.split("\n")
    for offset in range(len(text) + 1):
        line, column = file.position(offset)
        assert sum(len(each) + 1 for each in lines[: line - 1]) + column - 1 == offset
        assert lines[line - 1].removesuffix("\r") == file.line_text(line)


def test_spans_join_within_a_file_only() -> None:
    one, two = FILE.span(0, 3), FILE.span(5, 8)
    assert one.to(two) == two.to(one) == FILE.span(0, 8)
    assert one.to(Span.nowhere()) == one
    assert (two.line, two.column, two.end_line, two.end_column, two.text) == (2, 1, 2, 4, "two")
    assert two.after().text == "" and two.after().column == 4
    assert str(two) == "a.dfg:2:1"


def test_equal_files_are_interchangeable() -> None:
    assert SourceFile("a", "x") == SourceFile("a", "x") != SourceFile("b", "x")
    assert SourceFile("a", "x").span(0, 1) == SourceFile("a", "x").span(0, 1)
    assert Span.nowhere().is_nowhere and not FILE.span(0, 0).is_nowhere
