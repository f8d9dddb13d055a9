"""Data classes of what is installed are declared by `dfc_runtime.dataclasses`, which compiles no code for them: made by
the standard library they were a fifth of what `dfc check` takes."""

from __future__ import annotations

import ast

from tests.support.module_graph import ROOT, python_files, statements

INSTALLED = ("dfc/", "runtime/", "targets/")
MAKER = "runtime/dfc_runtime/dataclasses.py"


def takes_the_standard_one(text: str) -> bool:
    """Whether a file imports `dataclass` of the standard library."""
    return "dataclasses" in text and any(
        isinstance(node, ast.ImportFrom)
        and node.module == "dataclasses"
        and any(alias.name == "dataclass" for alias in node.names)
        for node in statements(ast.parse(text))
    )


def test_installed_modules_declare_data_classes_without_compiling_code() -> None:
    files = {path.relative_to(ROOT).as_posix(): path for path in python_files()}
    installed = {name: path for name, path in files.items() if name.startswith(INSTALLED) and name != MAKER}
    assert len(installed) > 500
    assert [name for name, path in installed.items() if takes_the_standard_one(path.read_text())] == []


def test_the_standard_one_is_seen() -> None:
    assert takes_the_standard_one("from dataclasses import dataclass, field\n")
    assert not takes_the_standard_one("from dataclasses import field\nfrom dfc_runtime.dataclasses import dataclass\n")
