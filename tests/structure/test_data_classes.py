"""Data classes of what is installed are declared by `dfc_runtime.dataclasses`, which compiles no code for them: made by
the standard library they were a fifth of what `dfc check` takes."""

from __future__ import annotations

from tests.support.source_code import code_of, code_of_file, imports_in, python_files

INSTALLED = ("dfc/", "runtime/", "targets/")
MAKER = "runtime/dfc_runtime/dataclasses.py"


def takes_the_standard_one(code: str) -> bool:
    """Whether a file imports `dataclass` of the standard library."""
    return ("dataclasses", "dataclass") in imports_in(code)


def test_installed_modules_declare_data_classes_without_compiling_code() -> None:
    installed = [name for name in python_files() if name.startswith(INSTALLED) and name != MAKER]
    assert len(installed) > 500
    assert [name for name in installed if takes_the_standard_one(code_of_file(name))] == []


def test_the_standard_one_is_seen() -> None:
    assert takes_the_standard_one("from dataclasses import dataclass, field\n")
    assert takes_the_standard_one("def f():\n    from dataclasses import (field,\n        dataclass as d)\n")
    assert not takes_the_standard_one("from dataclasses import field\nfrom dfc_runtime.dataclasses import dataclass\n")
    assert not takes_the_standard_one(
        code_of('"""from dataclasses import dataclass"""  # from dataclasses import dataclass')
    )
