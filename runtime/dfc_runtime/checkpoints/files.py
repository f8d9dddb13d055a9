"""The few things done to the file system, each durable when it returns. All of publishing goes through them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def write_file(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """A new file whose bytes have reached the disk."""
    with open(path, "xb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Makes names in the folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    path.mkdir()


def rename(old: Path, new: Path) -> None:
    """Moves a folder to a name that is free or an empty folder; `OSError` otherwise."""
    os.rename(old, new)


def remove_folder(path: Path) -> None:
    """Removes a folder with all that is in it; what resists is left."""
    import shutil  # it loads three compressors, and loading a bundle needs none

    shutil.rmtree(path, ignore_errors=True)


def replace_file(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """The file is either as it was before or as it is to be, whatever happens in between."""
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        write_file(temporary, pieces)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
