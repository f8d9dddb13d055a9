"""cuDNN 9 as it is found where a program runs, and its graph interface through C.

Assumes nothing. Guarantees that a library that is handed out has all that is called of it, and what it needs itself;
each call that fails is a `ConvolutionError` with the library's own words.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

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


class Library(Protocol):
    """The functions of `SIGNATURES` by name, `cudnnGetVersion`, `cudnnGetErrorString`, `cudnnGetLastErrorString`."""

    def __getattr__(self, name: str) -> Any: ...


class ConvolutionError(RuntimeError):
    """The library refuses; the message says what."""


def offered() -> Library | None:
    """The library, if it is there and `DFC_CUDNN` does not turn it off."""
    return None if os.environ.get("DFC_CUDNN") == "0" else find_library()


def find_library() -> Library | None:
    """The library of the package nvidia-cudnn-cu13 or -cu12, else that of the system; None if there is none.
    `ConvolutionError` if it lacks cuBLASLt, without which it would end the process."""
    for name in _candidates():
        try:
            library = ctypes.CDLL(name)
            library.cudnnGetVersion.restype = ctypes.c_size_t
            library.cudnnGetCudartVersion.restype = ctypes.c_size_t
            library.cudnnGetErrorString.restype = ctypes.c_char_p
            for function, arguments in SIGNATURES.items():
                getattr(library, function).argtypes = arguments
        except (OSError, AttributeError):
            continue
        _load_needed(int(library.cudnnGetCudartVersion()) // 1000)
        return library
    return None


def _candidates() -> Iterator[str]:
    yield from _packaged(_PACKAGED, _NAME)
    yield _NAME
    library = ctypes.util.find_library("cudnn")
    if library is not None:
        yield library


def _packaged(parts: Sequence[str], name: str) -> Iterator[str]:
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield from (str(path) for part in parts if (path := Path(folder) / part / name).is_file())


def _load_needed(release: int) -> None:
    """Loads what cuDNN itself looks for by name; what is loaded already it takes."""
    name = f"libcublasLt.so.{release}"
    for candidate in (*_packaged([part.format(release) for part in _NEEDED], name), name):
        try:
            ctypes.CDLL(candidate)
        except OSError:
            continue
        return
    raise ConvolutionError(f"cuDNN is installed, but not {name}, which it needs")


class Backend:
    """The functions of the library with their errors, and typed attributes of descriptors."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def create(self, kind: int) -> ctypes.c_void_p:
        """A new descriptor."""
        one = ctypes.c_void_p()
        self.call("cudnnBackendCreateDescriptor", kind, ctypes.byref(one))
        return one

    def set(self, target: ctypes.c_void_p, attribute: int, kind: int, values: Any) -> None:
        """`values` is an array of C."""
        self.call("cudnnBackendSetAttribute", target, attribute, kind, len(values), ctypes.addressof(values))

    def finish(self, target: ctypes.c_void_p) -> None:
        self.call("cudnnBackendFinalize", target)

    def drop(self, target: ctypes.c_void_p) -> None:
        self.call("cudnnBackendDestroyDescriptor", target)

    def get(self, source: ctypes.c_void_p, attribute: int, kind: int, values: Any) -> int:
        """Fills an array of C; how many elements there are, which may be more."""
        count = _Count(0)
        address = ctypes.addressof(values) if len(values) else None
        self.call("cudnnBackendGetAttribute", source, attribute, kind, len(values), ctypes.byref(count), address)
        return int(count.value)

    def call(self, function: str, *arguments: Any) -> None:
        status = int(getattr(self._library, function)(*arguments))
        if status == 0:
            return
        name: bytes = self._library.cudnnGetErrorString(status)
        text = ctypes.create_string_buffer(_TEXT)
        self._library.cudnnGetLastErrorString(text, ctypes.c_size_t(_TEXT))
        more = text.value.decode(errors="replace").strip()
        raise ConvolutionError(f"{function} of cuDNN ends with {name.decode()}{': ' + more if more else ''}")


def addresses_of(descriptors: Sequence[ctypes.c_void_p]) -> Any:
    """Descriptors as an attribute."""
    return (ctypes.c_void_p * len(descriptors))(*(one.value for one in descriptors))
