"""Arrays that callers feed: whatever has a buffer, `__array_interface__` or `__dlpack__`, as the arrays code can read.

Assumes any Python object. Guarantees a row-major array of exactly the declared element type and rank, without a copy
where the layout allows, in the memory of the host or, for programs that run on one, of a device; anything else is a
`FeedError` that says what was wanted, what came, and what to type.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.device_arrays import DeviceFeed, imported, is_on_device
from dfc_runtime.calls.element_types import numpy_dtype, numpy_name
from dfc_runtime.calls.scalars import Slot, adapt
from dfc_runtime.calls.sizes import declared
from dfc_runtime.driver import DeviceMemory
from dfc_runtime.errors import FeedError
from dfc_runtime.formats.manifest import Entry, Parameter
from dfc_runtime.kinds import brief

Array = NDArray[np.generic]


def refuse(entry: Entry, parameter: Parameter, got: str, remark: str = "") -> NoReturn:
    """The error for one feed."""
    text = f"`{entry.name}` wants {parameter.name}: {parameter}, but got {got}{declared(entry)}"
    raise FeedError(text + (f"\n  {remark}" if remark else ""), code="E0901", spans=[entry.location])


def scalar(entry: Entry, parameter: Parameter, value: object, memory: DeviceMemory | None = None) -> Slot:
    """The value for the slot of a 0-d parameter. One in the memory of a device is copied."""
    if _may_be_on_device(value):
        device_feed = _of_device(entry, parameter, value, memory)
        return scalar(entry, parameter, device_feed.to_host(), memory)
    try:
        return adapt(_imported(value), parameter.dtype)
    except ValueError as problem:
        refuse(entry, parameter, _described(value), str(problem))


def text(entry: Entry, parameter: Parameter, value: object) -> str:
    """A text; paths are accepted."""
    path = value.__fspath__() if hasattr(value, "__fspath__") else value  # type: ignore[attr-defined]
    if not isinstance(path, str):
        refuse(entry, parameter, _described(value), "a text is wanted")
    return path


def tensor(entry: Entry, parameter: Parameter, value: object, memory: DeviceMemory | None) -> Array | DeviceFeed:
    """A row-major array that code can read in place, in the memory of the host or of this device."""
    if not _may_be_on_device(value):
        return array(entry, parameter, value)
    device_feed = _of_device(entry, parameter, value, memory)
    if device_feed.dtype != numpy_dtype(parameter.dtype):
        got = f"{device_feed.dtype.name} of shape {device_feed.shape} on a GPU"
        refuse(entry, parameter, got, "arrays are never converted by themselves")
    check_shape(entry, parameter, device_feed.shape)
    if not device_feed.is_ready:
        got = (
            f"{device_feed.dtype.name} of shape {device_feed.shape} on a GPU, whose elements are not in row-major order"
        )
        refuse(entry, parameter, got, f"perhaps {parameter.name}.contiguous(), or ascontiguousarray of its library")
    return device_feed


def _may_be_on_device(value: object) -> bool:
    return not isinstance(value, (np.ndarray, *_NO_ARRAYS)) and is_on_device(value)


def _of_device(entry: Entry, parameter: Parameter, value: object, memory: DeviceMemory | None) -> DeviceFeed:
    if memory is None:
        hint = f"this program reads the memory of the host: perhaps {parameter.name}.cpu(), .get() or .to_host()"
        refuse(entry, parameter, "an array in the memory of a GPU", hint)
    try:
        return imported(value, memory)
    except ValueError as problem:
        refuse(entry, parameter, "an array in the memory of a GPU", str(problem))


def array(entry: Entry, parameter: Parameter, value: object) -> Array:
    """A row-major array of the host that code can read in place."""
    if _may_be_on_device(value):
        _of_device(entry, parameter, value, None)
    imported = _imported(value)
    if not isinstance(imported, np.ndarray) or _is_masked(cast("Array", imported)):
        refuse(entry, parameter, _described(value), _array_hint(parameter, value))
    candidate = cast("Array", imported)
    if candidate.dtype != numpy_dtype(parameter.dtype):
        refuse(entry, parameter, _described(candidate), _dtype_hint(parameter, candidate))
    check_shape(entry, parameter, candidate.shape)
    return np.require(candidate, requirements=["C", "A"])


def check_shape(entry: Entry, parameter: Parameter, shape: tuple[int, ...]) -> None:
    """Refuses an array of the right type but the wrong rank, or whose axes contradict a size that is a plain number."""
    got = f"{numpy_name(parameter.dtype)} of shape {shape}" if shape else f"{numpy_name(parameter.dtype)} of rank 0"
    if len(shape) != len(parameter.shape):
        refuse(entry, parameter, got, _rank_hint(parameter, shape))
    for axis, (formula, size) in enumerate(zip(parameter.shape, shape, strict=True)):
        if formula.constant not in (None, size):
            refuse(entry, parameter, got, _size_hint(parameter, shape, axis))


def _imported(value: object) -> object:
    """The value as a plain NumPy array if it is any kind of array, else the value."""
    if isinstance(value, np.ndarray):
        host_array = cast("Array", value)
        return host_array if _is_masked(host_array) else np.asarray(host_array)
    if isinstance(value, _NO_ARRAYS):
        return value
    try:
        if hasattr(value, "__array_interface__"):
            return np.asarray(value)
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)  # type: ignore[arg-type]
        return np.asarray(memoryview(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError, RuntimeError, AttributeError):
        return value


_NO_ARRAYS: tuple[type, ...] = (str, list, tuple, np.generic, int, float, type(None))


def _is_masked(value: object) -> bool:
    """A masked array, told by its looks: `numpy.ma` takes long to import."""
    return hasattr(value, "mask") and hasattr(value, "filled")


def _described(value: object) -> str:
    kind = type(value).__name__
    if isinstance(value, np.ndarray) and not _is_masked(cast("Array", value)):
        value_array = cast("Array", value)
        shape = f"of shape {value_array.shape}" if value_array.ndim else "of rank 0"
        order = "big-endian " if value_array.dtype.byteorder == ">" else ""
        return f"{order}{value_array.dtype.name} {shape}"
    if value is None or isinstance(value, bool | int | float | complex | str):
        return brief(value)
    if isinstance(value, np.generic):
        number = cast("np.generic", value)
        return f"{number.dtype.name} {number}"
    return f"{'an' if kind[:1] in 'aeiouAEIO' else 'a'} {kind}"


def _array_hint(parameter: Parameter, value: object) -> str:
    dtype_name = f"np.{numpy_name(parameter.dtype)}"
    if _is_masked(value):
        return f"a mask would be lost: {parameter.name}.filled(...) says what stands in its place"
    if isinstance(value, (list, tuple)):
        return f"perhaps np.asarray({parameter.name}, {dtype_name})"
    return "an array is wanted: anything with the buffer protocol, __array_interface__ or __dlpack__"


def _dtype_hint(parameter: Parameter, value: Array) -> str:
    name = parameter.name
    dtype_name = numpy_name(parameter.dtype)
    kind = (
        "ml_dtypes.bfloat16" if dtype_name == "bfloat16" else f"np.{dtype_name}" if dtype_name != "bool" else "np.bool_"
    )
    if value.dtype.hasobject:
        return f"an array of objects has no numbers in it: perhaps np.asarray({name}.tolist(), {kind})"
    if value.dtype.name == dtype_name:
        return f"its bytes are in the order of other machines: {name}.astype({kind})"
    return f"arrays are never converted by themselves: {name}.astype({kind})"


def _rank_hint(parameter: Parameter, shape: Sequence[int]) -> str:
    hint = f"rank {len(shape)} instead of {len(parameter.shape)}"
    target = _reshape_target(parameter, math.prod(shape))
    if target is None:
        return hint
    return f"{hint}; {_merged(parameter, shape)}perhaps {parameter.name}.reshape({', '.join(map(str, target))})"


def _reshape_target(parameter: Parameter, elements: int) -> list[int] | None:
    """A shape that holds these elements, at most one axis left to NumPy."""
    sizes = [formula.constant for formula in parameter.shape]
    known = math.prod(size for size in sizes if size is not None)
    unknown = sizes.count(None)
    fits = elements == known if unknown == 0 else unknown == 1 and known > 0 and elements % known == 0
    return [-1 if size is None else size for size in sizes] if fits and sizes else None


def _merged(parameter: Parameter, shape: Sequence[int]) -> str:
    """Which neighbouring axes make up one axis that is wanted."""
    extents = {formula.constant for formula in parameter.shape}
    for count in range(len(shape), 1, -1):
        for start in range(len(shape) - count + 1):
            group = shape[start : start + count]
            if math.prod(group) in extents and 1 not in group:
                return f"{' * '.join(map(str, group))} is {math.prod(group)}, so "
    return ""


def _size_hint(parameter: Parameter, shape: Sequence[int], axis: int) -> str:
    hint = f"axis {axis} has size {shape[axis]} instead of {parameter.shape[axis]}"
    turned = zip(parameter.shape, reversed(shape), strict=True)
    if len(shape) == 2 and all(formula.constant in (None, size) for formula, size in turned):
        return f"{hint}; perhaps {parameter.name}.T"
    target = _reshape_target(parameter, math.prod(shape))
    if target is not None and -1 in target:
        return f"{hint}; perhaps {parameter.name}.reshape({', '.join(map(str, target))})"
    return hint
