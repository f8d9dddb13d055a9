"""Arrays in files that anybody may have written: `.npy`, and members of `.npz` archives.

    mark, version, length of the head, {'descr': '<f4', 'fortran_order': False, 'shape': (10, 3)}, elements

Assumes nothing of the bytes, nor that the path is one of a file. Guarantees an array whose elements were all in the
file, or a `ValueError` of one line. Nothing is allocated because a head claims that it is there: what a file of this
length, or a member of this compressed length, cannot hold is refused before. Checksums of archives are compared.
"""

from __future__ import annotations

import math
import os
import stat
import struct
from typing import IO, TYPE_CHECKING, BinaryIO, TypeAlias

import numpy as np

from dfc_runtime.calls.memory import in_words, machine_memory
from dfc_runtime.errors import LimitError
from dfc_runtime.formats.array_heads import read_head

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[np.generic]"

CHUNK = 1 << 20
_STORED, _DEFLATED = 0, 8
_METHODS = {9: "deflate64", 12: "bzip2", 14: "lzma", 93: "zstandard", 95: "xz"}
_RATIO = 1100
"""Bytes that a compressed byte can stand for, and a few more: deflate repeats up to 258 bytes in two bits."""
_ENCRYPTED = 0x1


def read_array(path: str) -> Array:
    """The array of a `.npy` file; `ValueError` if it has none, `LimitError` if it is larger than the memory."""
    with _regular(path) as file:
        return _array(file, os.fstat(file.fileno()).st_size)


class Archive:
    """A `.npz` file. What is wrong with it as a whole, or with one member, is a `ValueError`."""

    def __init__(self, path: str) -> None:
        self._file = _regular(path)
        try:
            self._zip, self._members = _directory(self._file)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def keys(self) -> list[str]:
        """What the arrays in it are called, by their names."""
        return sorted(name.removesuffix(".npy") for name in self._members)

    def read(self, key: str) -> Array:
        """The array of that name; `KeyError` if there is none."""
        member = self._members.get(key) or self._members.get(f"{key}.npy")
        if member is None:
            raise KeyError(key)
        if len(member) > 1:
            raise ValueError(f"it has {key!r} more than once")
        return _member(self._zip, member[0])


def _regular(path: str) -> BinaryIO:
    """The file; neither a pipe nor a device, which opening or reading could wait for, or never come to the end of."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("it is not a regular file")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):  # it may have become another one since
        return open(descriptor, "rb")
    os.close(descriptor)
    raise ValueError("it is not a regular file")


# ---------------------------------------------------------------- archives --


def _directory(file: BinaryIO) -> tuple[ZipFile, dict[str, list[ZipInfo]]]:
    """The members by name: there may be several of one name."""
    import zipfile  # costs start-up time only where an archive is read

    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError, struct.error, OverflowError, EOFError, OSError) as damage:
        raise ValueError(_line(damage)) from None
    members: dict[str, list[ZipInfo]] = {}
    for each in archive.infolist():
        members.setdefault(each.filename, []).append(each)
    return archive, members


def _member(archive: ZipFile, member: ZipInfo) -> Array:
    """The array of one member, its checksum compared."""
    # `dfc run` reads few archives, and starts faster without these.
    import zipfile
    import zlib

    if member.flag_bits & _ENCRYPTED:
        raise ValueError("it is encrypted")
    if member.compress_type not in (_STORED, _DEFLATED):
        method = _METHODS.get(member.compress_type, f"number {member.compress_type}")
        raise ValueError(f"it is compressed by the method {method}; write it with numpy.savez_compressed")
    most = member.compress_size * (_RATIO if member.compress_type == _DEFLATED else 1)
    try:
        with archive.open(member) as file:
            return _array(file, min(member.file_size, most))
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, struct.error, OverflowError) as damage:
        raise ValueError(_line(damage)) from None
    except (EOFError, OSError) as damage:
        raise ValueError(_line(damage)) from None


# ------------------------------------------------------------------ arrays --


def _array(file: IO[bytes], size: int) -> Array:
    """The one array that a file of at most this size holds from its beginning to its end."""
    dtype, shape, is_turned, head = read_head(file)
    size_in_bytes = math.prod(shape) * dtype.itemsize
    if size_in_bytes > size - head:
        raise ValueError(f"its head announces {size_in_bytes} bytes, and at most {max(size - head, 0)} follow")
    if size_in_bytes > machine_memory():
        text = f"an array of {in_words(size_in_bytes)} is larger than the memory of this machine, "
        text += in_words(machine_memory())
        raise LimitError(text, code="E0905")
    data = np.empty(size_in_bytes, np.uint8)
    done = 0
    while done < size_in_bytes:
        piece = file.read(min(CHUNK, size_in_bytes - done))
        if not piece:
            raise ValueError(f"it ends {size_in_bytes - done} bytes too early")
        data[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)
    if file.read(1):  # at the end an archive compares the checksum
        raise ValueError("something follows its array: one file holds one array")
    array = data.view(dtype) if size_in_bytes else np.empty(0, dtype)
    return array.reshape(shape[::-1]).transpose() if is_turned else array.reshape(shape)


def _line(damage: Exception) -> str:
    return (str(damage).splitlines() or [type(damage).__name__])[0]
