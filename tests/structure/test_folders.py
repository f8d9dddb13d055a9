"""A folder holds at most 20 modules, those of one kind: what is beside them has a folder of its own.

Folders that were larger before are listed, and may only become smaller.
"""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath

from tests.support.source_code import python_files

MOST = 20
LARGER = {
    "dfc/cli": 23,
}


def modules_of_folders() -> Counter[str]:
    modules = (PurePath(name) for name in python_files() if not name.startswith("tests/"))
    return Counter(each.parent.as_posix() for each in modules if each.name not in ("__init__.py", "__main__.py"))


def test_folders_are_small() -> None:
    sizes = modules_of_folders()
    assert {folder: size for folder, size in sizes.items() if size > LARGER.get(folder, MOST)} == {}
    assert {"bench/data", "dfc/ops/nn", "runtime/dfc_runtime/records"} <= set(sizes)


def test_the_list_has_what_is_larger_alone() -> None:
    sizes = modules_of_folders()
    assert {folder: size for folder, size in LARGER.items() if sizes[folder] <= MOST} == {}
