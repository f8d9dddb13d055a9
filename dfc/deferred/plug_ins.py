"""Entry points of installed packages, for groups that are empty nearly everywhere.

`importlib.metadata` takes longer to import than the files of entry points take to be read, and it is of use only where
one of them names the group. Guarantees that what it would find is found: wherever packages may be that are no files in
a folder (archives, eggs, finders of other packages), it is asked.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def entry_points(group: str) -> Sequence[EntryPoint]:
    """As `importlib.metadata.entry_points`."""
    if not _may_be_named(group):
        return ()
    from importlib import metadata

    return tuple(metadata.entry_points(group=group))


def _may_be_named(group: str) -> bool:
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    if any(hasattr(finder, "find_distributions") for finder in others):
        return True
    return any(_may_name(Path(entry), group) for entry in sys.path)


def _may_name(entry: Path, group: str) -> bool:
    """Whether a place of the path has a package that names the group, or is none that can be looked into."""
    try:
        packages = list(entry.iterdir())
    except (FileNotFoundError, PermissionError):
        return False
    except OSError:
        return True  # an archive
    for package in packages:
        kind = package.suffix.lower()
        if kind == ".egg":
            return True
        if kind in (".dist-info", ".egg-info") and _names(package / "entry_points.txt", group):
            return True
    return False


def _names(file: Path, group: str) -> bool:
    try:
        return group in file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return False  # a package without entry points
    except (OSError, UnicodeDecodeError):
        return True
