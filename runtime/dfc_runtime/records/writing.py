"""New files of records, one or several, that are there whole or not at all.

Record i goes to file i mod n. Files are written aside, flushed to the disk and renamed when all of them are complete,
so whoever stops in between, or has no room left on the disk, leaves what was there before. Guarantees that nothing is
overwritten unless that was said, and that files of another number of shards do not come to lie beside these. Memory is
`BUFFERED` bytes, and the records of one call.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Generator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from dfc_runtime.checkpoints.files import DISK, Disk, opened
from dfc_runtime.errors import FileError
from dfc_runtime.records.framing import frame
from dfc_runtime.terminal import in_one_line

BUFFERED = 1 << 23
MOST_SHARDS = 512
"""Files that are written at once: fewer than a process may have open."""


def shard_names(out: str, shards: int | None) -> list[str]:
    """`train.rec` itself without shards, else `train-00000-of-00004.rec` and so on."""
    if shards is None:
        return [out]
    stem, ending = os.path.splitext(out)
    return [f"{stem}-{number:05}-of-{shards:05}{ending}" for number in range(shards)]


class RecordWriter:
    """Writes records, as a context that publishes them when it ends without an error. `FileError` for all that the
    disk does not take."""

    def __init__(self, out: str, shards: int | None = None, *, force: bool = False, disk: Disk = DISK) -> None:
        if shards is not None and not 1 <= shards <= MOST_SHARDS:
            raise ValueError(f"{shards} shards: from 1 to {MOST_SHARDS} can be written")
        self.paths = shard_names(out, shards)
        self.count = 0
        self.bytes = 0
        self._disk = disk
        self._check(out, force)
        self._files: list[tuple[int, Path, Path]] = []
        self._waiting: list[list[bytes]] = [[] for _ in self.paths]
        self._size = 0

    def __enter__(self) -> Self:
        try:
            for path in self.paths:
                final = Path(os.path.realpath(path))
                temporary = final.with_name(f".{final.name}.tmp-{os.getpid()}")
                with _reported(path):
                    self._files.append((self._disk.create(temporary), temporary, final))
        except BaseException:
            self._abandon()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self._abandon()
            return
        try:
            self._flush()
            for (file, _, _), path in zip(self._files, self.paths, strict=True):
                with _reported(path):
                    self._disk.sync(file)
        except BaseException:
            self._abandon()
            raise
        self._publish()

    def write(self, records: Sequence[bytes]) -> None:
        """Adds records behind those that were written before."""
        for record in records:
            self._waiting[self.count % len(self.paths)].append(record)
            self.count += 1
            self._size += len(record)
        if self._size >= BUFFERED:
            self._flush()

    def _check(self, out: str, force: bool) -> None:
        """What is there already; said before anything is read or written."""
        folder = os.path.dirname(out) or "."
        if not os.path.isdir(folder):
            raise _cannot(out, f"there is no folder {in_one_line(folder)}")
        for path in self.paths:
            if os.path.isdir(path):
                raise _cannot(path, "it is a folder")
            if os.path.lexists(path) and not force:
                raise _cannot(path, "it is there already (--force overwrites it)")
        names = {os.path.basename(path) for path in self.paths}
        stem, ending = os.path.splitext(os.path.basename(out))
        other = re.compile(rf"{re.escape(stem)}-\d{{5}}-of-\d{{5}}{re.escape(ending)}")
        with _reported(folder):
            others = sorted(name for name in os.listdir(folder) if other.fullmatch(name) and name not in names)
        if others and len(self.paths) > 1:
            raise _cannot(out, f"{in_one_line(others[0])} lies there, of another number of shards; remove it first")

    def _flush(self) -> None:
        for number, records in enumerate(self._waiting):
            if records:
                data = frame(records)
                with _reported(self.paths[number]):
                    self._disk.write(self._files[number][0], memoryview(data))
                self.bytes += len(data)
                records.clear()
        self._size = 0

    def _publish(self) -> None:
        files = self._files
        self._files = []
        try:
            for number, (file, temporary, final) in enumerate(files):
                with _reported(self.paths[number]):
                    self._disk.close(file)
                    self._disk.rename(temporary, final)
        except BaseException:
            self._files = [each for each in files if os.path.lexists(each[1])]
            self._abandon()
            raise
        for folder in {final.parent for _, _, final in files}:
            with _reported(str(folder)):
                self._disk.sync_folder(folder)

    def _abandon(self) -> None:
        """Removes what was written aside."""
        files = self._files
        self._files = []
        for file, temporary, _ in files:
            with contextlib.suppress(OSError):
                self._disk.close(file)
            with contextlib.suppress(OSError), opened(self._disk, temporary.parent) as folder:
                self._disk.remove(folder, temporary.name)


@contextlib.contextmanager
def _reported(path: str) -> Generator[None]:
    """Failures of the system as one of ours."""
    try:
        yield
    except OSError as problem:
        raise _cannot(path, problem.strerror or str(problem)) from None


def _cannot(path: str, reason: str) -> FileError:
    return FileError(f"cannot write {in_one_line(path)}: {reason}", code="E0909")
