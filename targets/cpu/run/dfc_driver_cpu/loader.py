"""Code images in executable memory: the run half of `image.py`.

Assumes that the caller has checked the hash of the image and that this processor runs its variant. Guarantees memory
that is never writable and executable at once, and that stays mapped while the image lives or until it is closed.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from dfc_runtime.code_memory import MappedCode, map_memory

__all__ = ["LoadedImage", "map_memory"]


class LoadedImage:
    """A mapped image: its base address, and callables into it."""

    def __init__(self, code: bytes) -> None:
        self._mapped = MappedCode(code)
        self.base = self._mapped.base
        self.size = len(code)

    def address(self, offset: int) -> int:
        if not 0 <= offset < self.size:
            raise ValueError(f"offset {offset} lies outside the image of {self.size} bytes")
        return self.base + offset

    def function(self, offset: int, result: type | None, arguments: Sequence[type]) -> Callable[..., Any]:
        """A callable of the C type given; the interpreter lock is released while it runs."""
        function = ctypes.CFUNCTYPE(result, *arguments)(self.address(offset))
        vars(function)["image"] = self  # whoever holds the function holds its code
        return function

    def keep(self) -> None:
        """Never gives the memory back: threads may be in it as long as the process lives."""
        self._mapped.keep()

    def close(self) -> None:
        """Gives the memory back, unless it is kept; nobody may be in the code, nor enter it again."""
        self._mapped.close()
