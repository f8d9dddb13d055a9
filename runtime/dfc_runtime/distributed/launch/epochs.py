"""Epochs: a number that rises with every session that saves in a folder, taken by creating a file that nobody else can
create. Every session of ranks takes one, and every command on one rank that saves.

Whoever publishes a checkpoint looks whether a higher epoch exists; if so, another session has taken over, and it stops.
Assumes a folder all ranks share. Guarantees that no two sessions that live have the same epoch, that it only rises, and
that nothing outside of the folder is written or removed.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Generator
from pathlib import Path

from dfc_runtime.checkpoints import files
from dfc_runtime.checkpoints.files import DISK
from dfc_runtime.checkpoints.store import EPOCHS as FOLDER
from dfc_runtime.errors import FileError, RankError

_NO_FOLDER = (errno.ENOTDIR, errno.ELOOP)


class ReplacedError(RankError):
    """Another session has taken over the folder of this one, which is to end: what it computes is saved nowhere."""


def check(folder: Path, mine: int | None) -> None:
    """Refuses to publish for a session that another one has replaced; None is one without an epoch."""
    if mine is not None and newest(folder) > mine:
        text = f"another run saves in {folder} now: this one (session {mine}, the other is {newest(folder)}) ends"
        raise ReplacedError(text, code="E0911")


def take(folder: Path) -> int:
    """The next epoch of a folder of checkpoints, taken for good; the folder is made if it is not there. `FileError`
    where no checkpoint could be saved."""
    with _translated_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with files.opened(DISK, folder) as outer:
            _try(outer)
            with contextlib.suppress(FileExistsError):
                os.mkdir(FOLDER, dir_fd=outer)
            inner = DISK.open_inside(outer, FOLDER)
            try:
                return _taken(inner)
            finally:
                os.close(inner)


def _try(outer: int) -> None:
    """Whether a checkpoint could be made here; what a process leaves that dies just now, the next save removes."""
    name = f"step-0.tmp-{os.getpid()}"
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=outer)
        os.rmdir(name, dir_fd=outer)


def _taken(inner: int) -> int:
    number = _highest(os.listdir(inner))
    while True:
        number += 1
        try:
            descriptor = os.open(str(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=inner)
        except FileExistsError:
            continue
        os.fsync(descriptor)
        os.close(descriptor)
        return number


def release(folder: Path, number: int) -> None:
    """Removes the folder that a session has made by taking its epoch, if nothing else came to be in it."""
    with contextlib.suppress(OSError), files.opened(DISK, folder) as outer:
        inner = DISK.open_inside(outer, FOLDER)
        try:
            if os.listdir(inner) == [str(number)]:
                DISK.remove(inner, str(number))
        finally:
            os.close(inner)
        DISK.remove_folder(outer, FOLDER)
        os.rmdir(folder)


def newest(folder: Path) -> int:
    """The highest epoch taken so far, 0 if none was."""
    try:
        with files.opened(DISK, folder) as outer:
            inner = DISK.open_inside(outer, FOLDER)
            try:
                return _highest(os.listdir(inner))
            finally:
                os.close(inner)
    except OSError as problem:
        if problem.errno in (errno.ENOENT, *_NO_FOLDER):
            return 0
        raise


def _highest(names: list[str]) -> int:
    return max((int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 19), default=0)


@contextlib.contextmanager
def _translated_errors(folder: Path) -> Generator[None]:
    """What the file system refuses, as a user reads it."""
    try:
        yield
    except OSError as problem:
        reason = problem.strerror or str(problem)
        if problem.errno in _NO_FOLDER and os.path.lexists(folder / FOLDER):
            reason = f"{folder / FOLDER} is no folder"
        elif problem.errno == errno.EEXIST and (dangling := _dangling(folder)) is not None:
            reason = f"{dangling} is a link to {os.readlink(dangling)}, which is not there"
        raise FileError(f"cannot save checkpoints in {folder}: {reason}", code="E0909") from None


def _dangling(folder: Path) -> Path | None:
    """The first part of a path that is a link to nothing."""
    parts = [*reversed(folder.parents), folder]
    return next((each for each in parts if each.is_symlink() and not each.exists()), None)
