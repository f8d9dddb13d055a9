"""What the parser says about mistakes: the likely ones, word by word."""

import re
from pathlib import Path

import pytest

from dfc.diagnostics.diagnostic import Diagnostics, render
from dfc.diagnostics.source import SourceFile
from dfc.syntax.reader.parser import parse_recovering
from tests.support.golden import Case, check_case, check_golden, read_cases

HERE = Path(__file__).parent


def messages(text: str, name: str = "test.dfg") -> str:
    diagnostics = Diagnostics()
    parse_recovering(SourceFile(name, text), diagnostics)
    return "\n\n".join(map(render, diagnostics))


@pytest.mark.parametrize("path", sorted((HERE / "likely").glob("*.dfg")), ids=lambda path: path.stem)
def test_likely_mistakes_get_the_specified_message(path: Path) -> None:
    expected = path.with_suffix(".txt").read_text()
    found = re.search(r"--> (\S+?):", expected)
    assert found
    assert messages(path.read_text(), found.group(1)) + "\n" == expected


@pytest.mark.parametrize("path", sorted((HERE / "mistakes").glob("*.dfg")), ids=lambda path: path.stem)
def test_mistakes_get_their_message(path: Path, bless: bool) -> None:
    check_golden(path.with_suffix(".txt"), messages(path.read_text(), path.name), bless)


@pytest.mark.parametrize("case", read_cases(HERE / "syntax_errors.cases"), ids=lambda case: case.name)
def test_small_mistakes_get_their_message(case: Case, bless: bool) -> None:
    check_case(case, messages(case.source), bless)


def test_one_message_for_each_item_and_twenty_at_most() -> None:
    text = "fn f(x: f32) -> f32 = x x x x\n" * 30
    diagnostics = Diagnostics()
    parse_recovering(SourceFile("test.dfg", text), diagnostics)
    found = list(diagnostics)
    assert [diagnostic.span.line for diagnostic in found] == list(range(1, 21))
    assert found[-1].notes == ("further syntax errors are not shown",)


def test_items_beside_a_mistake_survive() -> None:
    diagnostics = Diagnostics()
    text = "dfg 1\nconst A = 1\nconst B = = 2\n\n## Kept.\nconst C = 3\n"
    module = parse_recovering(SourceFile("test.dfg", text), diagnostics)
    assert module is not None
    assert [item.span.text for item in module.items] == ["const A = 1", "const C = 3"]
    assert module.items[1].documentation == "Kept."
    assert len(diagnostics.errors) == 1


def test_a_body_without_indentation_is_not_cut_apart() -> None:
    text = "fn f(x: f32) -> f32 {\nlet y = x\nreturn y\n}\nconst A = ;\n"
    assert messages(text).count("error[") == 1
