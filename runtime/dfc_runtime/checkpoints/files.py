"""The few things done to the file system. All of publishing goes through a `Disk`, so that a test can put one in its
place that remembers what was done, and what a loss of power would leave of it.

Assumes a POSIX file system. Guarantees that `write_file` and `replace_file` are durable when they return, and that what
is removed lies in the folder that was opened for it: links are removed themselves, and never followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Generator, Iterable
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

    def open_folder(self, path: Path) -> int:
        """A handle of a folder, which stays the same one whatever becomes of its path; `close` gives it back."""
        return os.open(path, _FOLDER)

    def open_inside(self, folder: int, name: str) -> int:
        """A handle of a folder in a folder; where the name is a link, `OSError`."""
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)

    def names_inside(self, folder: int) -> list[str]:
        return os.listdir(folder)

    def rename_inside(self, folder: int, old: str, new: str) -> None:
        os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)

    def remove(self, folder: int, name: str) -> None:
        """Removes a file or a link."""
        os.unlink(name, dir_fd=folder)

    def remove_folder(self, folder: int, name: str) -> None:
        """Removes an empty folder."""
        os.rmdir(name, dir_fd=folder)


DISK = Disk()
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_FOLDER = (errno.ENOTDIR, errno.ELOOP)
"""What the system says of a name that is a link or a file, where a folder is to be opened."""


def write_file(disk: Disk, path: Path, pieces: Pieces) -> None:
    """A new file whose bytes have reached the disk."""
    file = disk.create(path)
    try:
        for piece in pieces:
            disk.write(file, piece)
        disk.sync(file)
    finally:
        disk.close(file)


@contextlib.contextmanager
def opened(disk: Disk, path: Path) -> Generator[int]:
    """A handle of a folder, while the block runs."""
    folder = disk.open_folder(path)
    try:
        yield folder
    finally:
        disk.close(folder)


def remove_tree(disk: Disk, folder: int, name: str) -> None:
    """Removes a folder of files that lies in an open folder, or whatever else has its name: of a link, the link. What
    resists is left, and the folder with it."""
    with contextlib.suppress(OSError):
        try:
            inner = disk.open_inside(folder, name)
        except OSError as problem:
            if problem.errno not in _NO_FOLDER:
                raise
            disk.remove(folder, name)
            return
        try:
            for each in disk.names_inside(inner):
                with contextlib.suppress(OSError):
                    disk.remove(inner, each)
        finally:
            disk.close(inner)
        disk.remove_folder(folder, name)


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
        with contextlib.suppress(OSError), opened(disk, temporary.parent) as folder:
            disk.remove(folder, temporary.name)
        raise
    disk.sync_folder(path.parent)
