"""No file of the project is longer than 400 lines, and no function longer than 60.

A file may have up to 600 lines where cutting it makes two files that nobody reads apart: then it is in `LONGER`, with
the reason.
"""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.support.source_code import code_of, code_of_file, python_files, text_of

FILE, LONGER_FILE, FUNCTION = 400, 600, 60
LONGER: dict[str, str] = {}


def lines_of(text: str) -> int:
    return len(text.splitlines())


def may_have_long_functions(code: str) -> bool:
    """Whether a definition has more lines than the limit before one that begins no farther right: most files have
    none, and need no reading as a tree. In what is formatted nothing else begins there, other than a bracket."""
    if code.count("\n") < FUNCTION:
        return False
    for head in re.finditer(r"^([ \t]*)(?:async\s+)?def\s", code, re.MULTILINE):
        following = _statement_within(len(head[1])).search(code, head.end())
        if code.count("\n", head.start(), following.start() if following else len(code)) >= FUNCTION:
            return True
    return False


@cache
def _statement_within(indent: int) -> re.Pattern[str]:
    return re.compile(rf"^[ \t]{{0,{indent}}}[\w@]", re.MULTILINE)


def long_functions(text: str, code: str | None = None) -> list[tuple[str, int]]:
    """Functions above the limit, with their lines from `def` to the last one."""
    if not may_have_long_functions(code_of(text) if code is None else code):
        return []
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, functions))
    lengths = ((node.name, (node.end_lineno or node.lineno) - node.lineno + 1) for node in nodes)
    return [(name, length) for name, length in lengths if length > FUNCTION]


def test_the_whole_project_is_looked_at() -> None:
    roots = {name.split("/")[0] for name in python_files()}
    assert {"dfc", "runtime", "targets", "tests", "tools", "bench", "samples"} <= roots


def test_files_are_short() -> None:
    lengths = {name: lines_of(text_of(name)) for name in python_files()}
    assert {n: count for n, count in lengths.items() if count > (LONGER_FILE if n in LONGER else FILE)} == {}


def test_an_exception_is_needed_and_says_why() -> None:
    for name, reason in LONGER.items():
        assert lines_of(text_of(name)) > FILE, f"{name} is short enough: take it off the list"
        assert len(reason) > 20


def test_functions_are_short() -> None:
    functions = {name: long_functions(text_of(name), code_of_file(name)) for name in python_files()}
    assert {name: long for name, long in functions.items() if long} == {}


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
    assert long_functions(f"def f(\n    a,\n) -> None:\n{body}") == [("f", 63)]
    assert long_functions('def f():\n    """\ndef g(): ...\n    """\n' + body) == [("f", 64)]
    assert lines_of("a\nb\n") == lines_of("a\nb") == 2
