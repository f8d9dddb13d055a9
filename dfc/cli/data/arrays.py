"""Examples of arrays with equal first axes: one feature an array, one example a row.

Floats of up to 32 bits become a list of floats, whole numbers a list of int64; rows of u8 with an axis, such as images,
and texts become bytes. An f64 is taken if it is the number of an f32: nothing is rounded unasked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from dfc.cli.array_files import Archive, read_array
from dfc.cli.data.examples import Examples, unusable
from dfc.cli.values import listed
from dfc_runtime.errors import counted
from dfc_runtime.records.example import Values

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[np.generic]"
_LARGEST = (1 << 63) - 1


def from_archives(paths: Sequence[str], keys: Sequence[str] = ()) -> Examples:
    """Of `.npz` files, one behind the other: each of its arrays, or of those that are named, is a feature."""
    names: list[str] | None = None
    for path in paths:
        arrays = _archive(path, keys)
        if names is not None and sorted(arrays) != names:
            raise unusable(path, f"it holds {', '.join(sorted(arrays))}, and the archives before it {', '.join(names)}")
        names = sorted(arrays)
        yield from _examples({name: (path, array) for name, array in arrays.items()})


def from_arrays(paths: Sequence[str]) -> Examples:
    """Of `.npy` files side by side: each is a feature, by the name of its file."""
    arrays: dict[str, tuple[str, Array]] = {}
    for path in paths:
        name = Path(path).stem
        if name in arrays:
            raise unusable(path, f"{arrays[name][0]} gives the feature {name!r} already")
        try:
            arrays[name] = (path, read_array(path))
        except (ValueError, OSError, OverflowError) as problem:
            raise unusable(path, _reason(problem)) from None
    return _examples(arrays)


def _archive(path: str, keys: Sequence[str]) -> Mapping[str, Array]:
    try:
        with Archive(path) as archive:
            arrays: dict[str, Array] = {}
            held = archive.keys
            for key in keys or held:
                if key not in held:
                    raise unusable(path, f"it has no array {key!r}; it holds {listed(held) or 'nothing'}")
                arrays[key] = _member(archive, path, key)
            return arrays
    except (ValueError, OSError, OverflowError) as problem:
        raise unusable(path, _reason(problem)) from None


def _member(archive: Archive, path: str, key: str) -> Array:
    try:
        return archive.read(key)
    except (ValueError, OSError, OverflowError) as problem:
        raise unusable(path, f"{key!r}: {_reason(problem)}") from None


def _examples(arrays: Mapping[str, tuple[str, Array]]) -> Examples:
    counts: dict[str, int] = {}
    columns: dict[str, Array] = {}
    for name, (path, array) in arrays.items():
        if array.ndim == 0:
            raise unusable(path, f"{name!r} is a single number: an example is a row of an array")
        counts[name] = len(array)
        if len(set(counts.values())) > 1:
            first = next(iter(counts))
            raise unusable(path, f"{name!r} has {counted(len(array), 'row')}, and {first!r} has {counts[first]}")
        columns[name] = _column(path, name, array)
    for row in range(max(counts.values(), default=0)):
        yield {name: _row(column[row]) for name, column in columns.items()}


def _column(path: str, name: str, array: Array) -> Array:
    """The array in an element type that examples have."""
    kind = array.dtype.kind
    if kind in "SU" or (array.dtype == np.uint8 and array.ndim > 1):
        return array
    if kind in "iub":
        if array.dtype.itemsize == 8 and kind == "u" and array.size and int(array.max()) > _LARGEST:
            raise unusable(path, f"{name!r} holds {array.max()}, and an example no more than {_LARGEST}")
        return array.astype(np.int64)
    if kind == "f":
        with np.errstate(over="ignore"):
            single = array.astype(np.float32)
        if array.dtype.itemsize > 4 and not np.array_equal(single, array, equal_nan=True):
            raise unusable(path, f"{name!r} is {array.dtype}, and an example holds f32: write {name}.astype('float32')")
        return single
    raise unusable(path, f"{name!r} is {array.dtype}, and an example holds bytes, f32 and i64")


def _row(row: Array) -> Values | bytes:
    """A row as a feature: numbers as they are, u8 and texts as bytes."""
    if row.dtype.kind == "S":
        return [bytes(text) for text in row.reshape(-1).tolist()]
    if row.dtype.kind == "U":
        return [str(text).encode("utf-8", "surrogateescape") for text in row.reshape(-1).tolist()]
    if row.dtype == np.uint8:
        return row.tobytes()
    return cast("Values", row.reshape(-1))  # f32 or i64, as `_column` has seen to


def _reason(problem: Exception) -> str:
    text = problem.strerror if isinstance(problem, OSError) else ""
    return text or (str(problem).splitlines() or [type(problem).__name__])[0]
