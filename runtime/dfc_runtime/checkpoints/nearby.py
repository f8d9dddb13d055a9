"""What lies where a checkpoint was looked for and is none: words for the end of a message.

Guarantees that a look costs little, however full a folder is, and that names are safe to print.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from dfc_runtime.errors import FileError
from dfc_runtime.formats.fields import shown
from dfc_runtime.names import did_you_mean

_MOST_LOOKED_AT = 1000
_MOST_SHOWN = 8

Steps = Callable[[Path], Sequence[int]]
"""The numbers of the checkpoints in a folder."""


def sibling_hint(folder: Path, steps_in: Steps) -> str:
    """Of a folder that does not exist: which of those beside it hold checkpoints."""
    parent = folder.parent
    if not parent.is_dir():
        return f": neither does {shown(str(parent), 120)}"
    known = _holding(parent, steps_in)
    if not known:
        return f", and no folder in {shown(str(parent), 120)} holds checkpoints"
    near = did_you_mean(folder.name, known)
    return f"{near}\n  in {shown(str(parent), 120)} there are checkpoints in {_listed(known)}"


def inside(folder: Path, steps_in: Steps) -> str:
    """Of a folder that holds none: which of those in it do, or else what it holds."""
    known = _holding(folder, steps_in)
    if known:
        return f"\n  in {shown(str(folder), 120)} there are checkpoints in {_listed(known)}"
    names = _names(folder)
    return f"; it holds {_listed(names)}" if names else "; it is empty"


def _holding(folder: Path, steps_in: Steps) -> list[str]:
    """The names of the folders in a folder that hold checkpoints."""
    folders: list[str] = []
    for name in _names(folder):
        with contextlib.suppress(FileError):  # not everybody's folders are ours to read
            folders += [name] if steps_in(folder / name) else []
    return folders


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry, _ in zip(entries, range(_MOST_LOOKED_AT), strict=False))
    except OSError:
        return []


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(shown(name) for name in names[:_MOST_SHOWN]) + more
