"""What was compiled before, on disk: bytes by the hash of all that they depend on.

`DFC_CACHE` names the folder, and `DFC_CACHE=0` turns it off; without it, it is `dfc` in the user's folder of caches.
Any number of processes may use one folder, which may hold other files. Guarantees that an entry is whole, is the one
asked for, and lies in a folder that this user alone can write (what is kept here is executed), or a miss; that all
entries together stay below their bound, and a 64th of it for each process that writes, by removing those that were not
used for longest, and nothing else; and that no failure of the disk is one of the compiler: a folder that cannot be read
or written is as if it were empty.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

VARIABLE = "DFC_CACHE"
MOST_BYTES = 128 << 20
_MAGIC = b"dfc cache 1\n"
_PREFIX, _UNFINISHED = "dfc-", ".dfc-"
_OWN = re.compile(rf"{_PREFIX}[0-9a-f]{{64}}|{re.escape(_UNFINISHED)}.+")
"""Names of entries, and of files that will be one: others are somebody else's."""
_ABANDONED = 3600
"""Seconds after which a file that was not finished is removed."""
_added: dict[Path, int] = {}
"""Bytes that this process has written to a folder since it last made room there: looking at all entries each time
would cost more than what many small ones save."""


def digest(*parts: str | bytes) -> str:
    """The name of what depends on these parts, and on nothing else."""
    hash_ = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogateescape") if isinstance(part, str) else part
        hash_.update(len(data).to_bytes(8, "little"))
        hash_.update(data)
    return hash_.hexdigest()


class DiskCache:
    """Entries in one folder; without a folder there are none."""

    def __init__(self, folder: Path | None, most_bytes: int = MOST_BYTES) -> None:
        self._folder, self._most = folder, most_bytes

    @property
    def is_on(self) -> bool:
        return self._folder is not None

    def get(self, name: str) -> bytes | None:
        """What was put under this name; None if there is nothing, or nothing whole."""
        if self._folder is None:
            return None
        path = self._folder / (_PREFIX + name)
        try:
            if not _is_own(os.stat(self._folder)):
                return None
            data = path.read_bytes() if stat.S_ISREG(os.lstat(path).st_mode) else b""
        except OSError:
            return None
        value = _unpacked(name, data)
        if value is not None:
            with suppress(OSError):
                os.utime(path)  # it was used
        return value

    def put(self, entries: Mapping[str, bytes]) -> None:
        """Adds entries, each at once or not at all, then makes room. What would take most of it is not kept."""
        if self._folder is None or not entries:
            return
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name, value in entries.items():
                data = _packed(name, value)
                if len(data) <= self._most // 4:
                    self._write(self._folder, _PREFIX + name, data)
            if _added.get(self._folder, self._most) > self._most // 64:
                _added[self._folder] = 0
                self._trim(self._folder)

    def _write(self, folder: Path, name: str, data: bytes) -> None:
        handle, unfinished = tempfile.mkstemp(prefix=_UNFINISHED, dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(unfinished, folder / name)
            if folder in _added:
                _added[folder] += len(data)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished)
            raise

    def _trim(self, folder: Path) -> None:
        """Removes what was not used for longest until a tenth of the room is free again."""
        files: list[tuple[int, int, str]] = []
        for entry in os.scandir(folder):
            with suppress(OSError):
                known = entry.stat(follow_symlinks=False)
                if _OWN.fullmatch(entry.name) and stat.S_ISREG(known.st_mode):
                    files.append((known.st_mtime_ns, known.st_size, entry.name))
        abandoned = time.time_ns() - _ABANDONED * 10**9
        total = sum(size for _, size, _ in files)
        bound = self._most if total <= self._most else self._most * 9 // 10
        for used, size, name in sorted(files):
            is_unfinished = name.startswith(_UNFINISHED)
            if (total > bound and not is_unfinished) or (is_unfinished and used < abandoned):
                with suppress(OSError):
                    os.unlink(folder / name)
                total -= size


def _is_own(known: os.stat_result) -> bool:
    """Whether nobody but this user, and the system's, can put files into a folder."""
    return known.st_uid in (os.geteuid(), 0) and not known.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _packed(name: str, value: bytes) -> bytes:
    data = zlib.compress(value, 1)
    return _MAGIC + hashlib.sha256(name.encode() + data).digest() + data


def _unpacked(name: str, data: bytes) -> bytes | None:
    """The value, if this was packed under this name and nothing of it has changed."""
    start = len(_MAGIC) + 32
    body = data[start:]
    if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : start] != hashlib.sha256(name.encode() + body).digest():
        return None
    try:
        return zlib.decompress(body)
    except zlib.error:
        return None


def user_cache() -> DiskCache:
    """The one that the environment asks for now."""
    stated = os.environ.get(VARIABLE, "").strip()
    if stated == "0":
        return DiskCache(None)
    if stated:
        own = os.path.expanduser(stated)
        return DiskCache(None if own.startswith("~") else Path(own))
    folder = os.path.expanduser(os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.join("~", ".cache"))
    return DiskCache(Path(folder, "dfc") if os.path.isabs(folder) else None)  # else nobody knows whose home it is


def file_identity(path: str) -> str:
    """What tells one build of a program or library from another on this machine; empty if there is no such file."""
    try:
        known = os.stat(path)
    except OSError:
        return ""
    return f"{os.path.realpath(path)} {known.st_size} {known.st_mtime_ns}"
