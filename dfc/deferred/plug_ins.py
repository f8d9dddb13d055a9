"""Entry points of installed packages, read from their files.

`importlib.metadata` takes longer to import than all files of entry points take to be read. Guarantees that what it
would find is found, in its order: wherever packages may be that are no files in a folder (archives, eggs, finders of
other packages), it is asked.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from functools import reduce
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, NamedTuple


class EntryPoint(NamedTuple):
    """As that of `importlib.metadata`."""

    name: str
    value: str
    group: str

    def load(self) -> Any:
        """What it names: a module, or something of one."""
        module, _, attributes = self.value.partition("[")[0].partition(":")
        names = filter(None, attributes.strip().split("."))
        return reduce(getattr, names, import_module(module.strip()))

    @property
    def dist(self) -> Any:
        """The distribution that it is of, for a message about it."""
        from importlib import metadata

        offered = metadata.entry_points(group=self.group, name=self.name)
        return next((each.dist for each in offered if each.value == self.value), None)


def entry_points(group: str) -> Sequence[EntryPoint]:
    """As `importlib.metadata.entry_points`."""
    try:
        return tuple(_in_folders(group))
    except _NotInFilesError:
        from importlib import metadata

        return tuple(EntryPoint(each.name, each.value, each.group) for each in metadata.entry_points(group=group))


class _NotInFilesError(Exception):
    """Packages may be where only `importlib.metadata` can look."""


def _in_folders(group: str) -> Iterator[EntryPoint]:
    """Those of a group; of packages of one name only the first on the path counts."""
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    if any(hasattr(finder, "find_distributions") for finder in others):
        raise _NotInFilesError
    known: set[str] = set()
    for entry in sys.path:
        for package in _packages(Path(entry)):
            name = re.sub("[-_.]+", "-", package.stem.partition("-")[0]).lower()
            if name not in known:
                known.add(name)
                yield from _of_group(_text(package / "entry_points.txt"), group)


def _packages(entry: Path) -> list[Path]:
    """What is written of packages in a folder of the path."""
    try:
        children = list(entry.iterdir())
    except (FileNotFoundError, PermissionError):
        return []
    except OSError as error:  # an archive
        raise _NotInFilesError from error
    if any(child.suffix.lower() == ".egg" for child in children):
        raise _NotInFilesError
    return [child for child in children if child.suffix.lower() in (".dist-info", ".egg-info")]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return ""  # a package without entry points
    except (OSError, UnicodeDecodeError) as error:
        raise _NotInFilesError from error


def _of_group(text: str, group: str) -> Iterator[EntryPoint]:
    if group not in text:
        return
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif line and not line.startswith("#") and section == group:
            name, _, value = line.partition("=")
            yield EntryPoint(name.strip(), value.strip(), group)
