"""No file of the project is longer than 400 lines, and no function longer than 60.

A file may have up to 600 lines where cutting it makes two files that nobody reads apart: then it is in `LONGER`, with
the reason.
"""

from __future__ import annotations

import ast

import pytest

from tests.support.module_graph import ROOT, python_files, statements

pytestmark = pytest.mark.timeout(600)  # every file of the project is parsed

FILE, LONGER_FILE, FUNCTION = 400, 600, 60
LONGER: dict[str, str] = {}
FILES = [path.relative_to(ROOT).as_posix() for path in python_files()]


def lines_of(text: str) -> int:
    return len(text.splitlines())


def long_functions(text: str) -> list[tuple[str, int]]:
    """Functions above the limit, with their lines from `def` to the last one."""
    if len(text.splitlines()) <= FUNCTION:
        return []
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in statements(ast.parse(text)) if isinstance(node, functions))
    lengths = ((node.name, (node.end_lineno or node.lineno) - node.lineno + 1) for node in nodes)
    return [(name, length) for name, length in lengths if length > FUNCTION]


def test_the_whole_project_is_looked_at() -> None:
    roots = {name.split("/")[0] for name in FILES}
    assert {"dfc", "runtime", "targets", "tests", "tools", "bench", "samples"} <= roots


def test_files_are_short() -> None:
    lengths = {name: lines_of((ROOT / name).read_text()) for name in FILES}
    assert {n: count for n, count in lengths.items() if count > (LONGER_FILE if n in LONGER else FILE)} == {}


def test_an_exception_is_needed_and_says_why() -> None:
    for name, reason in LONGER.items():
        assert lines_of((ROOT / name).read_text()) > FILE, f"{name} is short enough: take it off the list"
        assert len(reason) > 20


def test_functions_are_short() -> None:
    found = {name: long_functions((ROOT / name).read_text()) for name in FILES}
    assert {name: functions for name, functions in found.items() if functions} == {}


def test_lengths_are_counted_as_a_reader_does() -> None:
    body = "\n".join(["    pass"] * 60)
    assert long_functions(f"def f():\n{body}\n") == [("f", 61)]
    assert long_functions(f"class A:\n    async def f(self):\n{body.replace('    ', '        ')}\n") == [("f", 61)]
    for head in (
        "if x",
        "for x in y",
        "while x",
        "with x",
        "try",
        "try:\n pass\nfinally",
        "try:\n pass\nexcept X",
        "if x:\n pass\nelse",
        "match x:\n case 1",
        "class A:\n def g(self)",
        "async def g()",
    ):
        indented = "   def f():\n" + body
        assert ("f", 61) in long_functions(f"{head}:\n{indented}\n" + ("except X: pass\n" if head == "try" else "")), (
            head
        )
    assert long_functions("def f():\n" + "\n".join(["    pass"] * 59) + "\n") == []
    assert lines_of("a\nb\n") == lines_of("a\nb") == 2
