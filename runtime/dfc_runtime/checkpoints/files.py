"""The few things done to the file system. All of publishing goes through a `Disk`, so that a test can put one in its
place that remembers what was done, and what a loss of power would leave of it.

Assumes a POSIX file system. Guarantees that `write_file` and `replace_file` are durable when they return.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

Pieces = Iterable[bytes | memoryview]


class Disk:
    """The real one. Each call does one thing; what fails is an `OSError`."""

    def names(self, folder: Path) -> list[str]:
        return os.listdir(folder)

    def make_folder(self, path: Path) -> None:
        path.mkdir()

    def create(self, path: Path) -> int:
        """A new file, open for writing."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def write(self, file: int, piece: bytes | memoryview) -> None:
        rest = memoryview(piece).cast("B")
        while len(rest):
            rest = rest[os.write(file, rest) :]

    def sync(self, file: int) -> None:
        """The bytes of the file have reached the disk."""
        os.fsync(file)

    def close(self, file: int) -> None:
        os.close(file)

    def sync_folder(self, path: Path) -> None:
        """The names in the folder have reached the disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        """Replaces a file, or an empty folder by a folder."""
        os.rename(old, new)

    def remove(self, path: Path) -> None:
        os.unlink(path)

    def remove_folder(self, path: Path) -> None:
        """Removes an empty folder."""
        os.rmdir(path)


DISK = Disk()


def write_file(disk: Disk, path: Path, pieces: Pieces) -> None:
    """A new file whose bytes have reached the disk."""
    file = disk.create(path)
    try:
        for piece in pieces:
            disk.write(file, piece)
        disk.sync(file)
    finally:
        disk.close(file)


def remove_tree(disk: Disk, path: Path) -> None:
    """Removes a folder of files; what resists is left, and the folder with it."""
    with contextlib.suppress(OSError):
        for name in disk.names(path):
            with contextlib.suppress(OSError):
                disk.remove(path / name)
        disk.remove_folder(path)


def replace_file(path: Path, pieces: Pieces, disk: Disk = DISK) -> None:
    """The file is either as it was before or as it is to be, whatever happens in between. A link stays one: what it
    leads to is replaced. Permissions stay."""
    path = Path(os.path.realpath(path))
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        write_file(disk, temporary, pieces)
        with contextlib.suppress(OSError):  # what stood there keeps its permissions
            os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode))
        disk.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.remove(temporary)
        raise
    disk.sync_folder(path.parent)
