"""A folder holds at most 20 modules, those of one kind: what is beside them has a folder of its own."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath

from tests.support.source_code import python_files

MOST = 20


def test_folders_are_small() -> None:
    modules = (PurePath(name) for name in python_files() if not name.startswith("tests/"))
    sizes = Counter(each.parent.as_posix() for each in modules if each.name not in ("__init__.py", "__main__.py"))
    assert {folder: size for folder, size in sizes.items() if size > MOST} == {}
    assert {"bench/data", "dfc/ops/nn", "runtime/dfc_runtime/records"} <= set(sizes)
