"""Arrays of other libraries by DLPack, and ours for them: the C structures, read and made.

Assumes capsules as the protocol has them (version 0, the one every library speaks). Guarantees that a capsule that was
read keeps its memory while it is kept, and that what is given away lives until whoever took it gives it back.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.element_types import SIZES

CUDA, CUDA_MANAGED = 2, 13
"""Kinds of devices whose memory kernels of CUDA read."""
_TENSOR, _USED = b"dltensor", b"used_dltensor"
_KINDS: Final = {"i": 0, "u": 1, "f": 2, "bf": 4, "c": 5, "bool": 6}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("kind", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER))


def _function(name: str, result: type, *arguments: type) -> Callable[..., object]:
    prototype = ctypes.PYFUNCTYPE(result, *arguments)
    return prototype((name, ctypes.pythonapi))


_new = _function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_pointer = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_raw_is_valid = _function("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_raw_pointer = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


@dataclass(frozen=True, slots=True)
class Tensor:
    """What a capsule says. `strides` count elements; None means row-major."""

    address: int
    device: tuple[int, int]
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None


def read(capsule: object) -> Tensor:
    """What a capsule says; the memory is there while the capsule is kept, and nobody else may take it meanwhile.
    `ValueError` for what is no tensor, or of an element type that arrays do not have."""
    tensor = _Managed.from_address(_address(capsule)).tensor
    rank = tensor.rank
    shape = tuple(tensor.shape[:rank]) if rank else ()
    strides = tuple(tensor.strides[:rank]) if rank and tensor.strides else None
    dtype = _dtype(tensor.kind, tensor.bits, tensor.lanes)
    return Tensor(tensor.data + tensor.offset, (tensor.device_type, tensor.device_id), dtype, shape, strides)


def _address(capsule: object) -> int:
    address = _pointer(capsule, _TENSOR)
    if not isinstance(address, int):
        raise ValueError("the capsule holds no tensor")
    return address


def _dtype(kind: int, bits: int, lanes: int) -> np.dtype[np.generic]:
    names = [name for name, number in _KINDS.items() if number == kind]
    if not names or lanes != 1:
        raise ValueError(f"an element type that is not known (kind {kind}, {bits} bits, {lanes} lanes)")
    name = names[0] if names[0] == "bool" else f"{names[0]}{bits}"
    if name not in SIZES:
        raise ValueError(f"an element type that arrays here do not have: {name}")
    return numpy_dtype(name)


def code_of(dtype: np.dtype[np.generic]) -> tuple[int, int]:
    """The kind and the bits of an element type."""
    kind = "bool" if dtype.name == "bool" else "bf" if dtype.name == "bfloat16" else dtype.kind
    return _KINDS[kind], dtype.itemsize * 8


class _ExportedTensor:
    """A tensor that was given away, with what has to stay alive for it."""

    def __init__(self, tensor: Tensor, owner: object) -> None:
        rank = len(tensor.shape)
        self.owner = owner
        self.shape = (ctypes.c_int64 * rank)(*tensor.shape)
        self.strides = (ctypes.c_int64 * rank)(*_row_major(tensor.shape))
        self.managed = _Managed()
        inner = self.managed.tensor
        inner.data, inner.rank, inner.lanes, inner.offset = tensor.address, rank, 1, 0
        inner.device_type, inner.device_id = tensor.device
        inner.kind, inner.bits = code_of(tensor.dtype)
        pointer = ctypes.POINTER(ctypes.c_int64)
        inner.shape, inner.strides = ctypes.cast(self.shape, pointer), ctypes.cast(self.strides, pointer)
        self.managed.deleter = _give_back


_exported: dict[int, _ExportedTensor] = {}
"""By the address of the structure: alive until whoever took it gives it back."""


@_DELETER
def _give_back(address: int | None) -> None:
    _exported.pop(address or 0, None)


@_DELETER
def _drop(capsule: int | None) -> None:
    """A capsule ends; nobody has taken the tensor if it has its name still."""
    if _raw_is_valid(capsule, _TENSOR):
        _exported.pop(int(str(_raw_pointer(capsule, _TENSOR))), None)


def capsule_of(tensor: Tensor, owner: object) -> object:
    """A capsule for a row-major tensor whose memory `owner` keeps alive."""
    exported = _ExportedTensor(tensor, owner)
    address = ctypes.addressof(exported.managed)
    _exported[address] = exported
    return _new(address, _TENSOR, ctypes.cast(_drop, ctypes.c_void_p))


def _row_major(shape: Sequence[int]) -> list[int]:
    strides, step = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        strides[axis] = step
        step *= shape[axis]
    return strides


def is_row_major(shape: Sequence[int], strides: Sequence[int] | None) -> bool:
    """Whether strides, in elements, are those of an array without gaps in row-major order."""
    if strides is None or 0 in shape:
        return True
    expected = _row_major(shape)
    return all(size == 1 or a == b for size, a, b in zip(shape, strides, expected, strict=True))
