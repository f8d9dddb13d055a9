"""What of a file is code, and what that imports; the same as in its tree."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.source_code import code_of, code_of_file, imports_in, python_files, text_of


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = 1  # 'y\nz", "x = 1  \nz"),
        ("x = 'a#b' + \"c'd\" + y", "x =  +  + y"),
        (r"x = 'it\'s' + r'\' + y' + z", "x =  + r + z"),
        ('"""One.\n\n\'Two\' "three"\n""" + x', "\n\n\n + x"),
        ("'''One \"\"\"\n''' + x", "\n + x"),
        (r'"""a\"""" + x', " + x"),
        ("f'{x} of {y:{z}}' + rf'{[d for d in e]}' + '{no}'", "f{x} {y:{z}} + rf{[d for d in e]} + "),
        ("f\"{', '.join(f'{t}' for t in u)}\"", "f{.join(f{t} for t in u)}"),
    ],
)
def test_strings_and_comments_are_no_code(text: str, code: str) -> None:
    assert code_of(text) == code


@pytest.mark.parametrize(
    ("code", "imported"),
    [
        ("import a.b as c, d\n", [("a.b", None), ("d", None)]),
        ("from a.b import c as d, e; import f", [("a.b", "c"), ("a.b", "e"), ("f", None)]),
        ("if x: from .a import (\n    b,\n    c,\n)\n", [(".a", "b"), (".a", "c")]),
        ("from a import \\\n    b, \\\n    c\nd", [("a", "b"), ("a", "c")]),
        ("raise x from y\nimportant(fromage)\nyield from z", []),
    ],
)
def test_imports_are_found_in_every_form(code: str, imported: list[tuple[str, str | None]]) -> None:
    assert list(imports_in(code)) == imported


def test_it_is_what_is_in_the_tree() -> None:
    for file in python_files()[::100]:
        nodes = list(ast.walk(ast.parse(text_of(file))))
        modules = {"." * node.level + (node.module or "") for node in nodes if isinstance(node, ast.ImportFrom)}
        assert {module for module, part in imports_in(code_of_file(file)) if part} == modules, file
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        assert names <= set(re.findall(r"\w+", code_of_file(file))), file
