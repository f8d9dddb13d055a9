"""Arrays in the memory of a device: those that callers feed, and results that stay where they are.

Assumes objects that tell the truth about themselves by `__cuda_array_interface__` or `__dlpack__`. Guarantees that what
is fed is not copied, that its producer is waited for, and that the memory of a result lives as long as anyone uses it.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls import dlpack
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.driver import ON_DEVICE, DeviceMemory

Array = NDArray[np.generic]
LEGACY_STREAM = 1


@dataclass(frozen=True, slots=True)
class DeviceFeed:
    """An array of a caller in the memory of the device. `owner` keeps it. `is_ready` says whether it can be read in
    place: row-major, and aligned to its elements."""

    address: int
    memory: DeviceMemory
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    is_ready: bool
    owner: object

    @property
    def slot(self) -> int:
        """What stands in the slot of a call."""
        return self.address | ON_DEVICE if self.address else 0

    def to_host(self) -> Array:
        """A copy as an array of the host."""
        host_array = np.empty(self.shape, self.dtype)
        if host_array.nbytes:
            self.memory.copy_out(self.address, host_array)
        return host_array


def is_on_device(value: object) -> bool:
    """Whether this is an array in the memory of a device."""
    if isinstance(value, np.ndarray):
        return False
    if isinstance(value, DeviceArray) or hasattr(value, "__cuda_array_interface__"):
        return True
    if not hasattr(value, "__dlpack_device__"):
        return False
    try:
        kind, _ = cast("tuple[int, int]", value.__dlpack_device__())  # type: ignore[attr-defined]
    except (TypeError, ValueError, BufferError, RuntimeError):
        return False
    return int(kind) in (dlpack.CUDA, dlpack.CUDA_MANAGED)


def on_host(value: object, memory: DeviceMemory | None) -> object:
    """A copy of an array that lies on the device; anything else as it is."""
    return value if memory is None or not is_on_device(value) else imported(value, memory).to_host()


def imported(value: object, memory: DeviceMemory) -> DeviceFeed:
    """The array, ready to be read by the next call. `ValueError` says why it cannot be taken."""
    try:
        return _by_dlpack(value, memory) if hasattr(value, "__dlpack__") else _by_interface(value, memory)
    except (TypeError, KeyError, AttributeError, BufferError, RuntimeError) as problem:
        raise ValueError(str(problem) or type(problem).__name__) from None


def _by_dlpack(value: object, memory: DeviceMemory) -> DeviceFeed:
    """The producer makes it ready on our stream."""
    kind, number = cast("tuple[int, int]", value.__dlpack_device__())  # type: ignore[attr-defined]
    _check_device((int(kind), int(number)), memory)
    capsule = cast("object", value.__dlpack__(stream=memory.stream))  # type: ignore[attr-defined]
    tensor = dlpack.read(capsule)
    ready = dlpack.is_row_major(tensor.shape, tensor.strides) and tensor.address % max(tensor.dtype.alignment, 1) == 0
    return DeviceFeed(tensor.address, memory, tensor.dtype, tensor.shape, ready, capsule)


def _by_interface(value: object, memory: DeviceMemory) -> DeviceFeed:
    """What is queued on its stream is waited for; one of no stream may be on the default one, before version 3."""
    interface = cast("Mapping[str, object]", value.__cuda_array_interface__)  # type: ignore[attr-defined]
    address, _ = cast("tuple[int, bool]", interface["data"])
    shape = tuple(int(size) for size in cast("tuple[int, ...]", interface["shape"]))
    dtype = np.dtype(cast("str", interface["typestr"]))
    steps = cast("tuple[int, ...] | None", interface.get("strides"))
    if interface.get("mask") is not None:
        raise ValueError("a mask would be lost")
    stream = interface.get("stream") if cast("int", interface.get("version", 0)) >= 3 else LEGACY_STREAM
    if stream is not None:
        memory.wait(cast("int", stream))
    strides = None if steps is None else tuple(step // dtype.itemsize for step in steps)
    ready = dlpack.is_row_major(shape, strides) and int(address) % max(dtype.alignment, 1) == 0
    return DeviceFeed(int(address), memory, dtype, shape, ready, value)


def _check_device(device: tuple[int, int], memory: DeviceMemory) -> None:
    kind, number = memory.kind
    same_kind = device[0] == kind or (kind == dlpack.CUDA and device[0] == dlpack.CUDA_MANAGED)
    if not same_kind:
        raise ValueError("it lies in the memory of a device of another kind")
    if device[1] != number:
        raise ValueError(f"it lies on GPU {device[1]}, and the program runs on GPU {number}")


class DeviceArray:
    """A result in the memory of the device. Other libraries take it without a copy, by `__cuda_array_interface__` or
    `__dlpack__`; `to_host()` is a copy as a NumPy array. It can be fed to entries of the program again."""

    __slots__ = ("__weakref__", "_address", "_memory", "dtype", "shape")

    def __init__(self, memory: DeviceMemory, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> None:
        self.shape = shape
        self.dtype = dtype
        self._memory = memory
        self._address = memory.allocate(self.nbytes) if self.nbytes else 0
        if self._address:
            weakref.finalize(self, memory.free, self._address).atexit = False  # the process gives all of it back

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def slot(self) -> int:
        """What stands in the slot of a call."""
        return self._address | ON_DEVICE if self._address else 0

    def resize(self, shape: tuple[int, ...], *, refcheck: bool = True) -> None:
        """Gives it a shape of at most as many elements, which stay where they are. `refcheck` is for NumPy's sake."""
        del refcheck
        self.shape = shape

    def to_host(self) -> Array:
        """A copy as a NumPy array."""
        host_array = np.empty(self.shape, self.dtype)
        if self.nbytes:
            self._memory.copy_out(self._address, host_array)
        return host_array

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        """For `numpy.asarray`; it is always a copy."""
        if copy is False:
            raise ValueError("an array of a GPU is copied to become one of NumPy")
        return np.asarray(self.to_host(), cast("type | None", dtype))

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        if self._memory.kind[0] != dlpack.CUDA:
            raise AttributeError("this device is not one of CUDA")
        typestr = self.dtype.str
        if self.dtype.name == "bfloat16":
            raise AttributeError("the interface has no name for bfloat16: use __dlpack__")
        return {
            "shape": self.shape,
            "typestr": typestr,
            "data": (self._address, False),
            "version": 3,
            "strides": None,
            "stream": None,  # the call that made it is over
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._memory.kind

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: object = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A capsule. There is nothing to wait for on any stream: the call that made it is over."""
        del stream, max_version
        if copy or dl_device not in (None, self._memory.kind):
            raise BufferError("it is given as it lies on its device, without a copy")
        tensor = dlpack.Tensor(self._address, self._memory.kind, self.dtype, self.shape, None)
        return dlpack.capsule_of(tensor, self)

    def __repr__(self) -> str:
        return f"<array on device {self._memory.kind[1]}: {self.dtype.name} of shape {self.shape}>"
