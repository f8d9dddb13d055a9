"""Code images in executable memory: the run half of `image.py`.

Assumes that the caller has checked the hash of the image and that this processor runs its variant. Guarantees memory
that is never writable and executable at once, and that stays mapped until the process is gone (another thread may be
running it even while the interpreter shuts down). Needs the standard library only.
"""

import ctypes
import mmap
from collections.abc import Callable, Sequence

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
_MAP_FAILED = ctypes.c_void_p(-1).value


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
    address = map_memory(len(code))
    ctypes.memmove(address, code, len(code))
    if _LIBC.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(len(code)), mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        raise OSError(ctypes.get_errno(), "the system forbids executable memory")
    return address


def map_memory(size: int) -> int:
    """Zeroed, page-aligned memory of this process that nobody ever gives back."""
    address = _LIBC.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), f"the system gives no {size} bytes of memory")
    return address
