"""Code images in executable memory: the run half of `image.py`.

Assumes that the caller has checked the hash of the image and that this processor runs its variant. Guarantees memory
that is never writable and executable at once, and that stays mapped for the life of the process (code may be on the
stack of another thread). Needs the standard library only.
"""

import ctypes
import mmap
from collections.abc import Callable, Sequence

_LIBC = ctypes.CDLL(None, use_errno=True)
_KEPT: list[mmap.mmap] = []


class LoadedImage:
    """A mapped image: its base address, and callables into it."""

    def __init__(self, code: bytes) -> None:
        self.base = map_code(code)
        self.size = len(code)

    def address(self, offset: int) -> int:
        if not 0 <= offset < self.size:
            raise ValueError(f"offset {offset} lies outside the image of {self.size} bytes")
        return self.base + offset

    def function(self, offset: int, result: type | None, arguments: Sequence[type]) -> Callable[..., object]:
        """A callable of the C type given; the interpreter lock is released while it runs."""
        return ctypes.CFUNCTYPE(result, *arguments)(self.address(offset))


def map_code(code: bytes) -> int:
    """Map a copy of the image, make it executable, and give its address."""
    if not code:
        raise ValueError("an empty image cannot be mapped")
    size = -(-len(code) // mmap.PAGESIZE) * mmap.PAGESIZE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, size, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    _protect(address, size)
    _KEPT.append(memory)
    return address


def _protect(address: int, size: int) -> None:
    """From writable to executable; the kernel makes instruction caches follow where they do not by themselves."""
    protection = ctypes.c_int(mmap.PROT_READ | mmap.PROT_EXEC)
    if _LIBC.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), protection) != 0:
        raise OSError(ctypes.get_errno(), "the system forbids executable memory")
