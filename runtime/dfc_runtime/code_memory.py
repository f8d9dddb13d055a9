"""Machine code in memory that this process may run.

Guarantees memory that is never writable and executable at once, and given back when nobody holds it any more, unless a
thread may still be in it when the process ends. Two ways lead there, since some systems forbid the first one: memory
that is written and then made executable; and memory of a file without a name that was written before it was mapped.
Needs the standard library only.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from dfc_runtime.errors import UnsupportedError

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
_LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_MAP_FAILED = ctypes.c_void_p(-1).value
_MEMFD_EXECUTABLE = 0x10
"""Kernels since 6.3 can make such files not executable where that is not said; older ones know no such flag."""
_FOLDERS = ("XDG_RUNTIME_DIR", "TMPDIR")


class MappedCode:
    """A copy of the code at `base`, mapped for as long as this object lives or until `close`."""

    def __init__(self, code: bytes) -> None:
        if not code:
            raise ValueError("an empty image cannot be mapped")
        self.size = len(code)
        self.base = _mapped(code)
        self._end = weakref.finalize(self, _unmap, self.base, self.size)
        self._end.atexit = False  # a thread may be in it while the interpreter ends; the process gives it back

    def address(self, offset: int) -> int:
        """Of what lies so far behind the start; `ValueError` outside."""
        if not 0 <= offset < self.size:
            raise ValueError(f"offset {offset} lies outside the image of {self.size} bytes")
        return self.base + offset

    def function(self, offset: int, result: type | None, arguments: Sequence[type]) -> Callable[..., Any]:
        """A callable of the C type given; the interpreter lock is released while it runs."""
        function = ctypes.CFUNCTYPE(result, *arguments)(self.address(offset))
        vars(function)["image"] = self  # whoever holds the function holds its code
        return function

    def keep(self) -> None:
        """From now on it stays until the process is gone, for threads that serve all programs."""
        self._end.detach()

    def close(self) -> None:
        """Gives the memory back; nobody may be in the code, nor enter it again."""
        self._end()


def map_memory(size: int) -> int:
    """Zeroed, page-aligned memory of this process that nobody ever gives back."""
    address = _map(size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
    if address is None:
        raise OSError(ctypes.get_errno(), f"the system gives no {size} bytes of memory")
    return address


def _mapped(code: bytes) -> int:
    """The address of executable memory with this code in it."""
    reasons: list[str] = []
    for way in ways():
        try:
            return way(code)
        except OSError as problem:
            reasons.append(problem.strerror or str(problem))
    reason = "; ".join(dict.fromkeys(reasons))
    raise UnsupportedError(
        f"this process may not make memory executable, and bundles are machine code ({reason})\n"
        "  a security policy forbids it: MemoryDenyWriteExecute of systemd together with noexec folders, SELinux, "
        "or a seccomp filter",
        code="E1006",
    )


def ways() -> Iterator[Callable[[bytes], int]]:
    """Ways to such memory, the most usual first; each gives its address, or raises `OSError`."""
    yield _map_executable
    yield lambda code: _mapped_file("memfd", _memory_file, code)
    folders = [os.environ.get(name, "") for name in _FOLDERS]
    for folder in dict.fromkeys([*filter(None, folders), "/dev/shm", "/tmp", "/var/tmp"]):
        yield lambda code, folder=folder: _mapped_file(folder, lambda: _file_in(folder), code)


def _map_executable(code: bytes) -> int:
    address = map_memory(len(code))
    ctypes.memmove(address, code, len(code))
    if _LIBC.mprotect(address, len(code), mmap.PROT_READ | mmap.PROT_EXEC) == 0:
        return address
    number = ctypes.get_errno()
    _unmap(address, len(code))
    raise OSError(number, f"mprotect: {os.strerror(number)}")


@contextmanager
def _memory_file() -> Generator[int]:
    try:
        file = os.memfd_create("dfc", os.MFD_CLOEXEC | _MEMFD_EXECUTABLE)
    except OSError:
        file = os.memfd_create("dfc", os.MFD_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)


@contextmanager
def _file_in(folder: str) -> Generator[int]:
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        yield file.fileno()


def _mapped_file(name: str, opened: Callable[[], AbstractContextManager[int]], code: bytes) -> int:
    try:
        with opened() as file:
            left = memoryview(code)
            while left:
                left = left[os.write(file, left) :]
            address = _map(len(code), mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, file)
            if address is None:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            return address
    except OSError as problem:
        raise OSError(problem.errno, f"{name}: {problem.strerror}") from None


def _map(size: int, protection: int, flags: int, file: int) -> int | None:
    address = _LIBC.mmap(None, size, protection, flags, file, 0)
    return None if address == _MAP_FAILED else address


def _unmap(address: int, size: int) -> None:
    _LIBC.munmap(address, size)
