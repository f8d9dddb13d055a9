"""Aligned memory, addresses of arrays, and the limit on how much a program may ask for.

Assumes Linux for the size of the machine's memory. Guarantees that sizes are compared with the limit as unbounded
integers before anything is allocated.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.errors import FeedError, LimitError
from dfc_runtime.kinds import is_whole

Array = NDArray[np.generic]

ALIGNMENT = 64
_LARGE_PAGE = 2 << 20
"""Bytes of the pages that x86-64 and most systems of aarch64 have beside the small ones."""
LIMIT_VARIABLE = "DFC_MEMORY_LIMIT"
UNLIMITED = 1 << 62
_CONTROL_GROUP = "/sys/fs/cgroup/memory.max"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def aligned(shape: Sequence[int], dtype: np.dtype[np.generic]) -> Array:
    """An array of zeros at a multiple of 64 bytes. Its address stays for its life."""
    return aligned_together([(shape, dtype)])[0]


def aligned_together(forms: Sequence[tuple[Sequence[int], np.dtype[np.generic]]]) -> list[Array]:
    """Likewise one for each shape and type, in one block, so that many small ones share large pages. The block lives as
    long as any of them. Raises `MemoryError`."""
    sizes = [math.prod(shape, start=dtype.itemsize) for shape, dtype in forms]
    starts = list(accumulate((size + -size % ALIGNMENT for size in sizes), initial=0))
    raw = _zeros(starts.pop() + ALIGNMENT)
    first = -address_of(raw) % ALIGNMENT
    return [
        raw[first + start : first + start + size].view(dtype).reshape(shape)
        for start, size, (shape, dtype) in zip(starts, sizes, forms, strict=True)
    ]


def _zeros(size: int) -> Array:
    """Bytes in pages of their own from the size of a large page on. A processor remembers where some thousands of
    pages are; to find the others takes longer than to read them. The system is asked for large pages as far as they
    are filled, so that there is never more memory than with small ones."""
    if size < _LARGE_PAGE:
        return np.zeros(size, np.uint8)
    try:
        memory = mmap.mmap(-1, size + _LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as problem:
        raise MemoryError(f"the system has no {in_words(size)} left: {problem}") from None
    block = np.frombuffer(memory, np.uint8)
    start = -address_of(block) % _LARGE_PAGE
    try:
        memory.madvise(mmap.MADV_HUGEPAGE, start, size - size % _LARGE_PAGE)
    except OSError:
        pass  # a system that was built without large pages: the memory is the same
    return block[start : start + size]


def give_back_zeros(array: Array) -> None:
    """The pages that an array fills alone, if all of its bytes are 0: the system makes them again, zeros as they were,
    where they are written or looked at. Assumes memory of `aligned_together`."""
    first = address_of(array)
    start, end = first + -first % mmap.PAGESIZE, first + array.nbytes - (first + array.nbytes) % mmap.PAGESIZE
    if sys.platform == "linux" and start < end and not array.reshape(-1).view(np.uint8).any():
        _advise(start, end - start, mmap.MADV_DONTNEED)


_advise = ctypes.CDLL(None).madvise
_advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def _slow_address(array: Array) -> int:
    return array.ctypes.data


_HEADER = object.__basicsize__  # NumPy's C API states: the data pointer is the first field after the object's header


def _fast_address(array: Array) -> int:
    return _POINTER(id(array) + _HEADER).value or 0


_POINTER = ctypes.c_void_p.from_address


def _choose() -> Callable[[Array], int]:
    """The pointer read from the array object takes a tenth of the time; used where it is seen to be the same."""
    if sys.implementation.name != "cpython":
        return _slow_address
    samples = [np.zeros(3), np.zeros((2, 5), np.int8)[:, 1:], np.float32(1) * np.ones(1)]
    agree = all(_fast_address(sample) == _slow_address(sample) for sample in samples)
    return _fast_address if agree else _slow_address


address_of = _choose()
"""The address of the first element."""


class Arena:
    """The working memory of calls: grown when a call needs more, kept for the next."""

    def __init__(self) -> None:
        self._memory: Array = np.zeros(0, np.uint8)
        self.size = 0
        self.address = 0

    def reserve(self, size: int) -> int:
        """Address of at least `size` bytes; what was there before is lost when it grows."""
        if size > self.size:
            self.free()
            self._memory = aligned((size,), np.dtype(np.uint8))
            self.address = address_of(self._memory)
            self.size = size
        return self.address

    def free(self) -> None:
        """Gives the memory back until the next call."""
        self._memory = np.zeros(0, np.uint8)
        self.size = self.address = 0


class ResultMemory:
    """Memory for large results, kept for the next call: new pages cost more than what many calls compute. A block is
    free again when no array shows it any more, which its count of references tells; where there is none, nothing is
    kept. What is free, but of another size than is wanted, is given back.

    Arrays begin at a multiple of 64 bytes, so that no vector lies in two cache lines, and a quarter of a page behind
    where the feed begins in its page: processors hold loads back behind stores whose addresses agree in 12 bits."""

    SMALLEST = 1 << 20
    """Bytes from which on a result lies in a block; what is smaller owns its memory."""
    MOST = 4
    """Blocks that are known at a time."""

    def __init__(self) -> None:
        self._blocks: deque[Array] = deque()

    def array(self, shape: tuple[int, ...], dtype: np.dtype[np.generic], size: int, feed: int) -> Array:
        """An array of `size` bytes for a call with a feed at the address `feed`. Raises `MemoryError`."""
        block = self._free_block(size + _PAGE)
        start = (feed + _PAGE // 4) // ALIGNMENT * ALIGNMENT
        array = np.ndarray(shape, dtype, block, (start - address_of(block)) % _PAGE)
        if _COUNTS_REFERENCES:
            self._blocks.append(block)
        return array

    def _free_block(self, size: int) -> Array:
        for _ in range(len(self._blocks)):
            try:
                block = self._blocks.popleft()  # one step: of two threads, one gets it
            except IndexError:
                break
            if sys.getrefcount(block) > _OWN_REFERENCES:
                self._blocks.append(block)
            elif block.nbytes == size:
                return block
        while len(self._blocks) >= self.MOST:
            try:
                self._blocks.popleft()
            except IndexError:
                break
        return np.empty(size, np.uint8)

    def free(self) -> None:
        """Keeps nothing any more; arrays that are in use stay what they are."""
        self._blocks.clear()


_PAGE = 4096


def _own_references() -> int:
    """Of a block that nobody shows, counted as `ResultMemory` does: its name, and the argument of the function."""
    block = np.empty(0, np.uint8)
    return sys.getrefcount(block)


_OWN_REFERENCES = _own_references()
_COUNTS_REFERENCES = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()


def memory_limit(stated: int | None = None) -> int:
    """How many bytes a program may ask for: as stated, else `DFC_MEMORY_LIMIT`, else the memory of the machine."""
    if stated is not None:
        if not is_whole(stated) or stated < 0:
            raise FeedError(f"memory_limit is a whole number of bytes, not {stated!r}", code="E0901")
        return stated
    text = os.environ.get(LIMIT_VARIABLE, "").strip().upper().removesuffix("B")
    if not text:
        return machine_memory()
    number, unit = (text[:-1], text[-1]) if text[-1] in _UNITS else (text, "")
    if not number.isascii() or not number.isdigit():
        raise LimitError(f"{LIMIT_VARIABLE} is {text[:40]!r}: write a number of bytes, or for example 8G", code="E0905")
    return int(number) * _UNITS[unit]


def working_limit(stated: int | None, limit: int, *, on_device: bool) -> int:
    """The limit for the working memory of calls. A device has memory of its own, larger or smaller than that of the
    machine: there only a limit that somebody has stated holds, and else what the device can give."""
    if not on_device or stated is not None or os.environ.get(LIMIT_VARIABLE, "").strip():
        return limit
    return UNLIMITED


def machine_memory() -> int:
    """Bytes of memory that this process may have."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        with open(_CONTROL_GROUP, encoding="ascii") as file:
            return min(physical, int(file.read()))
    except (OSError, ValueError):
        return physical


def check_limit(what: str, size: int, limit: int, helps: str = "") -> None:
    """`LimitError` if that many bytes are too many."""
    if size > limit:
        text = f"{what} needs {in_words(size)}, more than the limit of {in_words(limit)}"
        raise LimitError(f"{text}{helps}; {LIMIT_VARIABLE}=... or memory_limit=... states another limit", code="E0905")


def in_words(size: int) -> str:
    """A number of bytes as people write it."""
    value, unit = size, "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        if value < 10240 or unit == "EiB":
            break
        value = (value + 512) // 1024
    text = str(value)
    return f"{text} {unit}" if len(text) < 20 else f"about 10^{len(text) - 1} {unit}"
