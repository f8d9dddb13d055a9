"""Every message code has a page, whose first program fails with just this code while the second one is accepted."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from dfc.diagnostics.source import SourceFile
from dfc.driver import api
from tests.support.command_line import Command, Outcome, command
from tests.support.documents import CodeBlock, code_blocks
from tests.support.one_test_for_all import one_test_for_all
from tests.support.snippets import endings

ROOT = Path(__file__).resolve().parents[4]
PAGES = ROOT / "dfc" / "diagnostics" / "explanations"
CODE = re.compile(r"\b[EW]\d{4}\b")
LONGEST_PROSE = 900


def codes_of_the_source() -> list[str]:
    files = [path for folder in ("dfc", "runtime", "targets") for path in sorted((ROOT / folder).rglob("*.py"))]
    return sorted({code for path in files for code in CODE.findall(path.read_text(encoding="utf-8"))})


CODES = codes_of_the_source()
PAGED = sorted(path.stem for path in PAGES.glob("*.md"))


def programs(code: str) -> dict[str, CodeBlock]:
    return {block.heading: block for block in code_blocks(PAGES / f"{code}.md")}


def language(code: str) -> str:
    return programs(code)["Fails"].language


IN_DFG = [code for code in PAGED if language(code) == "dfg"]
IN_PYTHON = [code for code in PAGED if language(code) == "python"]
IN_SHELL = [code for code in PAGED if language(code) == "sh"]
DEPLOYING = [code for code in PAGED if language(code) == "deploy"]


def test_codes_are_found_in_the_source() -> None:
    assert {"E0112", "E0304", "E0901", "E1001", "W0310"} <= set(CODES)
    assert len(CODES) > 100


@one_test_for_all(CODES)
def test_a_code_has_a_page(code: str) -> None:
    assert (PAGES / f"{code}.md").is_file(), (
        f"write dfc/diagnostics/explanations/{code}.md: what the rule is, why, and two programs"
    )


@one_test_for_all(PAGED)
def test_a_page_has_its_form(code: str) -> None:
    assert code in CODES, "no message bears this code any more"
    text = (PAGES / f"{code}.md").read_text(encoding="utf-8")
    title, _, rest = text.partition("\n")
    assert re.fullmatch(rf"# {code}: \S.*[^.]", title)
    prose = rest.split("\n## ")[0].strip()
    assert prose.endswith(".")
    assert 60 < len(prose) < LONGEST_PROSE
    deploys = language(code) == "deploy"
    assert list(programs(code)) == [*(["The program"] if deploys else []), "Fails", "Fixed"]
    assert {block.language for block in programs(code).values()} <= {"dfg", "python", "sh", "deploy"}
    assert max(map(len, prose.splitlines())) <= 120
    assert text.endswith("```\n")
    assert not re.findall(r"\b(?:slopes?|rounds?)\b", text), "a gradient, an iteration: see docs/GLOSSARY.md"


def codes_of(block: CodeBlock) -> list[str]:
    return sorted({each.code for each in api.check(SourceFile("program.dfg", block.text), {})})


@one_test_for_all(IN_DFG)
def test_the_program_that_fails_gives_exactly_this_code(code: str) -> None:
    assert codes_of(programs(code)["Fails"]) == [code]


@one_test_for_all(IN_DFG)
def test_the_fixed_program_gives_no_message(code: str) -> None:
    assert codes_of(programs(code)["Fixed"]) == []


@pytest.mark.parametrize("code", DEPLOYING)
def test_the_deployments_end_as_the_page_says(code: str, tmp_path: Path) -> None:
    blocks = programs(code)
    (tmp_path / "model.dfg").write_text(blocks["The program"].text, encoding="utf-8")
    place = str(tmp_path / "model.deploy")
    found = {name: api.check(SourceFile(place, blocks[name].text), {}) for name in ("Fails", "Fixed")}
    assert sorted({each.code for each in found["Fails"]}) == [code]
    assert found["Fixed"] == []


@pytest.fixture(scope="module")
def python_endings(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str]:
    """How the Python programs of all pages end, by code and heading."""
    keys: list[tuple[str, str]] = []
    pieces: list[tuple[Path, Path]] = []
    for code in IN_PYTHON:
        for heading, block in programs(code).items():
            folder = tmp_path_factory.mktemp(code)
            file = folder / "snippet.py"
            file.write_text(block.text, encoding="utf-8")
            keys.append((code, heading))
            pieces.append((folder, file))
    return dict(zip(keys, endings(pieces), strict=True))


@pytest.mark.parametrize("code", IN_PYTHON)
def test_the_python_programs_end_as_the_page_says(code: str, python_endings: dict[tuple[str, str], str]) -> None:
    assert python_endings[code, "Fails"] == code
    assert python_endings[code, "Fixed"] == ""


@pytest.mark.parametrize("code", IN_SHELL)
def test_the_commands_end_as_the_page_says(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    dfc = command(monkeypatch, capsys)
    failed, fixed = (_typed(programs(code)[heading].text, dfc) for heading in ("Fails", "Fixed"))
    assert failed.code == 2
    assert set(CODE.findall(failed.err)) == {code}
    assert (fixed.code, fixed.err) == (0, "")


def _typed(text: str, dfc: Command) -> Outcome:
    """How the last line ends, a command of dfc; those before it are for a shell."""
    *before, last = text.splitlines()
    subprocess.run(["sh", "-e", "-c", "\n".join(before)], check=True, timeout=60)
    name, *words = shlex.split(last)
    assert name == "dfc"
    return dfc(*words)
