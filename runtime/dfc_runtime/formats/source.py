"""Where the bytes of a file come from: a file on disk or memory.

Guarantees that a read gives all bytes asked for or a `ValueError`, that only regular files are opened, and that a file
which cannot be opened is a `FileError`.
"""

from __future__ import annotations

import os
import stat
from typing import Protocol, runtime_checkable

from dfc_runtime.errors import FileError
from dfc_runtime.terminal import in_one_line

CHUNK = 1 << 20


@runtime_checkable
class Source(Protocol):
    """Bytes at random places. `name` is for messages."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...

    def read(self, offset: int, count: int) -> bytes:
        """Exactly these bytes."""
        ...

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fills the target."""
        ...

    def close(self) -> None: ...


class MemorySource:
    """A file that is in memory already."""

    def __init__(self, data: bytes | bytearray | memoryview, name: str = "<memory>") -> None:
        self._data = memoryview(data).cast("B")
        self.name = name
        self.size = len(self._data)

    def read(self, offset: int, count: int) -> bytes:
        data = bytes(self._data[offset : offset + count])
        if len(data) != count:
            raise ValueError("the file ends too early")
        return data

    def read_into(self, offset: int, target: memoryview) -> None:
        target[:] = self.read(offset, len(target))

    def close(self) -> None:
        self._data = memoryview(b"")


class FileSource:
    """A regular file; `modified` is when it was last written, in nanoseconds."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        try:
            self._descriptor = _regular(path)
        except (OSError, ValueError) as problem:
            raise FileError(f"cannot open {in_one_line(self.name)}: {_reason(problem)}", code="E0909") from None
        if self._descriptor < 0:
            raise FileError(f"{in_one_line(self.name)} is not a regular file", code="E0909")
        status = os.fstat(self._descriptor)
        self.size, self.modified = status.st_size, status.st_mtime_ns

    @property
    def descriptor(self) -> int:
        """The number of the open file."""
        return self._descriptor

    def read(self, offset: int, count: int) -> bytes:
        data = bytearray(count)
        self.read_into(offset, memoryview(data))
        return bytes(data)

    def read_into(self, offset: int, target: memoryview) -> None:
        done = 0
        while done < len(target):
            try:
                count = os.preadv(self._descriptor, [target[done : done + CHUNK]], offset + done)
            except OSError as problem:
                raise FileError(f"cannot read {in_one_line(self.name)}: {_reason(problem)}", code="E0909") from None
            if count == 0:
                raise ValueError("the file ends too early")
            done += count

    def close(self) -> None:
        os.close(self._descriptor)


def _regular(path: str | os.PathLike[str]) -> int:
    """A descriptor of a regular file. -1 for anything else, which is not opened: a device might do something then, and
    a pipe would block."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        return -1
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)  # something else has taken its place in between
    return -1


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file or a pipe; `FileError` if it cannot be read, or is something that may have no end,
    `ValueError` if it is no text."""
    name = os.fspath(path)
    try:
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise FileError(f"{name} is not a regular file", code="E0909")
        with open(path, "rb") as file:
            data = file.read()
    except OSError as problem:
        raise FileError(f"cannot read {name}: {_reason(problem)}", code="E0909") from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError("it is no text") from None


def _reason(problem: OSError | ValueError) -> str:
    return getattr(problem, "strerror", None) or str(problem)
