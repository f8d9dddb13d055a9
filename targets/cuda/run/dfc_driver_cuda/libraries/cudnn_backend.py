"""cuDNN 9 as it is found where a program runs, and its graph interface through C.

Assumes nothing. Guarantees that a library that is handed out has all that is called of it, and what it needs itself;
each call that fails is a `LibraryError` with the library's own words.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

from dfc_driver_cuda.libraries.cudnn_constants import BACKEND_DESCRIPTOR, C_TYPES, TYPE_OF
from dfc_driver_cuda.libraries.native import Library, LibraryError, candidates, open_first, packaged

_TEXT = 1024
_NAME = "libcudnn.so.9"
_PACKAGED = ("cudnn/lib", "cu13/lib", "cu12/lib")
_NEEDED = ("cu{}/lib", "cublas/lib")

_Pointer, _Int, _Count = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_Handle = ctypes.POINTER(ctypes.c_void_p)

Descriptor = ctypes.c_void_p

SIGNATURES: dict[str, list[Any]] = {
    "cudnnCreate": [_Handle],
    "cudnnDestroy": [_Pointer],
    "cudnnSetStream": [_Pointer, _Pointer],
    "cudnnBackendCreateDescriptor": [_Int, _Handle],
    "cudnnBackendDestroyDescriptor": [_Pointer],
    "cudnnBackendFinalize": [_Pointer],
    "cudnnBackendSetAttribute": [_Pointer, _Int, _Int, _Count, _Pointer],
    "cudnnBackendGetAttribute": [_Pointer, _Int, _Int, _Count, ctypes.POINTER(_Count), _Pointer],
    "cudnnBackendExecute": [_Pointer, _Pointer, _Pointer],
}
"""The functions that are called; each gives a status, 0 for success."""


def offered() -> Library | None:
    """The library, if it is there and `DFC_CUDNN` does not turn it off."""
    return None if os.environ.get("DFC_CUDNN") == "0" else find_library()


def find_library() -> Library | None:
    """The library of the package nvidia-cudnn-cu13 or -cu12, else that of the system; None if there is none.
    `LibraryError` if it lacks cuBLASLt, without which it would end the process."""
    sizes = dict.fromkeys(("cudnnGetVersion", "cudnnGetCudartVersion"), ctypes.c_size_t)
    library = open_first(
        candidates(_PACKAGED, [_NAME], "cudnn"), SIGNATURES, {**sizes, "cudnnGetErrorString": ctypes.c_char_p}
    )
    if library is not None:
        _load_needed(int(library.cudnnGetCudartVersion()) // 1000)
    return library


def _load_needed(release: int) -> None:
    """Loads what cuDNN itself looks for by name; what is loaded already it takes."""
    name = f"libcublasLt.so.{release}"
    for candidate in (*packaged([part.format(release) for part in _NEEDED], [name]), name):
        try:
            ctypes.CDLL(candidate)
        except OSError:
            continue
        return
    raise LibraryError(f"cuDNN is installed, but not {name}, which it needs")


def c_array(attribute: int, values: Sequence[Any], kind: int | None = None) -> Any:
    """Values of an attribute as an array of C; `kind` is its type where it may have several."""
    kind = TYPE_OF.get(attribute, BACKEND_DESCRIPTOR) if kind is None else kind
    return (C_TYPES[kind] * len(values))(*values)


class Backend:
    """The functions of the library with their errors, and typed attributes of descriptors."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def create(self, kind: int) -> Descriptor:
        """A new descriptor."""
        one = Descriptor()
        self.call("cudnnBackendCreateDescriptor", kind, ctypes.byref(one))
        return one

    def set(self, target: Descriptor, attribute: int, values: Sequence[Any], kind: int | None = None) -> None:
        """`kind` is the type of an attribute that may have several."""
        kind = TYPE_OF.get(attribute, BACKEND_DESCRIPTOR) if kind is None else kind
        array = c_array(attribute, values, kind)
        self.call("cudnnBackendSetAttribute", target, attribute, kind, len(array), ctypes.addressof(array))

    def finish(self, target: Descriptor) -> None:
        self.call("cudnnBackendFinalize", target)

    def drop(self, target: Descriptor) -> None:
        self.call("cudnnBackendDestroyDescriptor", target)

    def get(self, source: Descriptor, attribute: int, array: Any) -> int:
        """Fills an array of C; how many elements there are, which may be more."""
        kind, count = TYPE_OF.get(attribute, BACKEND_DESCRIPTOR), _Count(0)
        address = ctypes.addressof(array) if len(array) else None
        self.call("cudnnBackendGetAttribute", source, attribute, kind, len(array), ctypes.byref(count), address)
        return int(count.value)

    def call(self, function: str, *arguments: Any) -> None:
        status = int(getattr(self._library, function)(*arguments))
        if status == 0:
            return
        name: bytes = self._library.cudnnGetErrorString(status)
        text = ctypes.create_string_buffer(_TEXT)
        self._library.cudnnGetLastErrorString(text, ctypes.c_size_t(_TEXT))
        more = text.value.decode(errors="replace").strip()
        raise LibraryError(f"{function} of cuDNN ends with {name.decode()}{': ' + more if more else ''}")
