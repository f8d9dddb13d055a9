"""Messages are drawn as specified, and errors stop a phase."""

import json
from pathlib import Path

import pytest

from dfc.diagnostics.diagnostic import CompileError, Diagnostic, Diagnostics, error, render, to_json, warning
from dfc.diagnostics.source import SourceFile, Span
from dfc_runtime.errors import DfcError
from tests.support.golden import check_golden

JOIN = SourceFile("join.dfg", "fn join[N, M](a: f32[N], b: f32[M]) -> f32[N] = a + b\n")


def find(file: SourceFile, text: str, start: int = 0) -> Span:
    at = file.text.index(text, start)
    return file.span(at, at + len(text))


def test_marks_of_one_line_are_stacked_from_the_right() -> None:
    message = error(
        "E0305",
        "`N` and `M` are not known to be equal",
        find(JOIN, "a + b"),
        "f32[N] plus f32[M]",
        secondary=[(find(JOIN, "N"), "introduced here"), (find(JOIN, "M"), "introduced here")],
        helps=["if they are always equal, use one name: `fn join[N](a: f32[N], b: f32[N])`"],
    )
    assert render(message) == (
        "error[E0305]: `N` and `M` are not known to be equal\n"
        " --> join.dfg:1:49\n"
        "  |\n"
        "1 | fn join[N, M](a: f32[N], b: f32[M]) -> f32[N] = a + b\n"
        "  |         -  -                                    ^^^^^ f32[N] plus f32[M]\n"
        "  |            introduced here\n"
        "  |         introduced here\n"
        "  = help: if they are always equal, use one name: `fn join[N](a: f32[N], b: f32[N])`"
    )


def test_operands_on_both_sides_of_the_primary_mark() -> None:
    file = SourceFile("mlp.dfg", "\nfn hidden(images: f32) -> f32 = relu(w1 @ images)\n")
    message = error(
        "E0301",
        "these shapes do not multiply",
        find(file, "@"),
        "128 against B",
        secondary=[(find(file, "w1"), "f32[784, 128]"), (find(file, "images", 30), "f32[B, 784]")],
        notes=["the last axis of `a` must equal the first matrix axis of `b`"],
    )
    assert render(message).splitlines()[4:] == [
        "  |                                      -- ^ ------ f32[B, 784]",
        "  |                                         128 against B",
        "  |                                      f32[784, 128]",
        "  = note: the last axis of `a` must equal the first matrix axis of `b`",
    ]


def test_distant_lines_are_separated_and_numbers_aligned() -> None:
    file = SourceFile("long.dfg", "".join(f"line {number}\n" for number in range(1, 13)))
    message = error(
        "E0999",
        "far apart",
        find(file, "line 12"),
        secondary=[(find(file, "line 9"), "near"), (find(file, "line 11"), "nearer"), (find(file, "line 1"), "")],
    )
    assert render(message).splitlines() == [
        "error[E0999]: far apart",
        "  --> long.dfg:12:1",
        "   |",
        " 1 | line 1",
        "   | ------",
        "...",
        " 9 | line 9",
        "   | ------ near",
        "...",
        "11 | line 11",
        "   | ------- nearer",
        "12 | line 12",
        "   | ^^^^^^^",
    ]


def test_marks_in_two_files() -> None:
    other = SourceFile("other.dfg", "const A = 1\n")
    message = error("E0205", "twice", find(JOIN, "join"), "again", secondary=[(find(other, "A"), "first")])
    assert " ::: other.dfg:1:7\n  |\n1 | const A = 1\n  |       - first" in render(message)


def test_messages_about_no_place_have_no_lines() -> None:
    message = warning("W0001", "nothing to see", Span.nowhere(), notes=["really"])
    assert render(message) == "warning[W0001]: nothing to see\n  = note: really"


def test_tabs_and_wide_characters_keep_marks_in_place() -> None:
    file = SourceFile("wide.dfg", "\tlet 日 = x # \x07\n")
    lines = render(error("E0100", "here", find(file, "x"), "this")).splitlines()
    assert lines[3:] == ["1 |     let 日 = x # ?", "  |              ^ this"]


def test_long_lines_are_cut_around_the_mark() -> None:
    file = SourceFile("long.dfg", "a" * 5000 + "!" + "b" * 5000)
    lines = render(error("E0100", "here", find(file, "!"), "this")).splitlines()
    assert max(map(len, lines)) < 200
    assert lines[3].index("!") == lines[4].index("^")


def test_spans_over_several_lines_mark_the_first() -> None:
    file = SourceFile("many.dfg", "let x = f(\n  1)\n")
    assert render(error("E0100", "here", file.span(8, 15))).splitlines()[3:] == ["1 | let x = f(", "  |         ^^"]


def test_everything_but_the_authors_text_is_ascii() -> None:
    message = error("E0100", "the name `é\n`", find(JOIN, "a"), "→")
    assert render(message).isascii()
    assert "U+00E9\\n" in render(message)


def test_colour_changes_nothing_but_escapes(tmp_path: Path) -> None:
    message = error("E0305", "title", find(JOIN, "a + b"), "label", secondary=[(find(JOIN, "N"), "why")])
    coloured = render(message, colour=True)
    assert "\x1b[1;31merror[E0305]" in coloured
    plain = coloured
    for code in ("\x1b[1;31m", "\x1b[1;34m", "\x1b[1m", "\x1b[0m"):
        plain = plain.replace(code, "")
    assert plain == render(message)


def test_json_holds_positions_and_remedies() -> None:
    message = error("E0305", "title", find(JOIN, "a + b"), "label", helps=["do this"])
    data = json.loads(json.dumps(to_json(message)))
    assert data["code"] == "E0305" and data["helps"] == ["do this"]
    assert data["labels"] == [
        {
            "file": "join.dfg",
            "line": 1,
            "column": 49,
            "end_line": 1,
            "end_column": 54,
            "text": "label",
            "primary": True,
        }
    ]


def _sink(*codes: str) -> Diagnostics:
    diagnostics = Diagnostics()
    for code in codes:
        make = warning if code.startswith("W") else error
        diagnostics.add(make(code, f"title {code}", find(JOIN, "join")))
    return diagnostics


def test_warnings_stop_nothing() -> None:
    diagnostics = _sink("W0001")
    diagnostics.raise_if_errors()
    assert not diagnostics.has_errors and len(diagnostics.warnings) == 1


@pytest.mark.parametrize(
    ("codes", "exit_code"), [(["E0201"], 2), (["E1001", "E0201"], 2), (["W0001", "E1001", "E1001"], 3)]
)
def test_errors_stop_the_phase_with_their_exit_code(codes: list[str], exit_code: int) -> None:
    with pytest.raises(CompileError) as caught:
        _sink(*codes).raise_if_errors()
    failure = caught.value
    assert isinstance(failure, DfcError)
    assert failure.exit_code == exit_code
    assert len(failure.diagnostics) == len(codes)
    first = next(code for code in codes if code.startswith("E"))
    assert (failure.code, failure.message) == (first, f"title {first}")
    assert failure.spans[0].line == 1
    assert all(code in str(failure) for code in codes)


def test_golden_helper_compares_and_rewrites(tmp_path: Path) -> None:
    path = tmp_path / "expected.txt"
    with pytest.raises(AssertionError, match="missing"):
        check_golden(path, "text", bless=False)
    check_golden(path, "text", bless=True)
    check_golden(path, "text\n", bless=False)
    with pytest.raises(AssertionError, match="differs"):
        check_golden(path, "other", bless=False)


def test_diagnostics_are_values() -> None:
    one: Diagnostic = error("E0100", "title", find(JOIN, "join"))
    assert one == error("E0100", "title", find(SourceFile("join.dfg", JOIN.text), "join"))
