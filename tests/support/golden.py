"""Expected outputs that live in files, and that `pytest --bless` rewrites.

A whole file is one expectation (`check_golden`), or it holds many small cases (`read_cases`, `check_case`):

    [case a name]
    the input
    [out]
    what is expected
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HEAD = re.compile(r"^\[case (.+)\]$", re.MULTILINE)
OUT = "[out]\n"


def check_golden(path: Path, actual: str, bless: bool) -> None:
    """Compares with the text of `path`, or writes it there."""
    actual = actual.rstrip("\n") + "\n"
    if bless:
        path.write_text(actual)
        return
    assert path.exists(), f"{path} is missing: run pytest with --bless, then read it"
    assert actual == path.read_text(), f"{path} differs: if the new text is right, run pytest with --bless"


@dataclass(frozen=True)
class Case:
    """One case of a file; its name is unique there."""

    path: Path
    name: str
    source: str
    expected: str

    def __str__(self) -> str:
        return f"[case {self.name}]\n{self.source.rstrip()}\n{OUT}{self.expected.rstrip()}\n"


def read_cases(path: Path) -> list[Case]:
    parts = HEAD.split(path.read_text())
    cases: list[Case] = []
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        source, _, expected = body.partition(OUT)
        cases.append(Case(path, name, source.strip("\n") + "\n", expected.strip("\n") + "\n"))
    names = [case.name for case in cases]
    assert len(names) == len(set(names)), f"two cases of {path} have one name"
    return cases


def check_case(case: Case, actual: str, bless: bool) -> None:
    """Compares with what the case expects, or writes it into the case."""
    actual = actual.strip("\n") + "\n"
    if not bless:
        assert actual == case.expected, f"{case.path.name}: {case.name}"
        return
    cases = [
        Case(each.path, each.name, each.source, actual if each.name == case.name else each.expected)
        for each in read_cases(case.path)
    ]
    case.path.write_text("\n".join(map(str, cases)))
