"""Saved state, whole or in the parts of several tasks, and putting parts together as if one task had saved it all.

Assumes arrays that were read and checked one by one. Guarantees that what comes out is what the manifest promises: each
name once, whole, of its type; anything else is a `ValueError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.shards import most_rows, put_part, rows_of
from dfc_runtime.errors import UnsupportedError
from dfc_runtime.formats.fields import shown
from dfc_runtime.formats.manifest import described

Array = NDArray[np.generic]
Types = Mapping[str, tuple[str, tuple[int, ...]]]
"""Element type and shape by full name."""
MARK = "/"
"""Between the names of a queue and of a field of its elements."""
POSITIONS = f"{MARK}@positions"
"""Behind the name of a queue whose elements are read again."""
MOST_EMPTY_ROWS = 1 << 24
"""Of a table without columns, whose rows take no bytes in a file, but do when they are listed."""


@dataclass(frozen=True, slots=True)
class Saved:
    """One piece of state in a checkpoint."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    array: Array

    def __str__(self) -> str:
        return described(self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class Part:
    """The rows that task `task` of `tasks` has, by a rule, along an axis."""

    rule: str
    axis: int
    tasks: int
    task: int


@dataclass(frozen=True, slots=True)
class TaskFile:
    """What a manifest says of a file. Only where several tasks wrote: what it holds, and which rows of what is
    sharded."""

    size: int
    sha256: str
    state: Types | None = None
    parts: Mapping[str, Part] = field(default_factory=dict[str, Part])


class Assembly:
    """Whole state from the files of so many tasks."""

    def __init__(self, types: Types, files: int) -> None:
        self._types = types
        self._files = files
        self._whole: dict[str, Saved] = {}
        self._missing: dict[str, set[int]] = {}
        self._ways: dict[str, tuple[str, int, int]] = {}

    def add(self, state: Mapping[str, Saved], parts: Mapping[str, Part]) -> None:
        """Takes what one file holds."""
        for name, saved in state.items():
            if name not in self._types:
                raise ValueError(f"{shown(name)} is in a file, but not in the manifest")
            if name in parts:
                self._put(saved, parts[name])
            elif name in self._whole:
                raise ValueError(f"{shown(name)} is in two files")
            elif (saved.dtype, saved.shape) != self._types[name]:
                raise ValueError(f"{shown(name)} is not of the type the manifest states")
            else:
                self._whole[name] = saved

    def _put(self, saved: Saved, part: Part) -> None:
        dtype, shape = self._types[saved.name]
        name = shown(saved.name)
        if not 0 <= part.axis < len(shape) or not 0 <= part.task < part.tasks <= self._files:
            raise ValueError(f"{name} is in parts that cannot be")
        self._require_room(saved, part, shape)
        try:
            rows = rows_of(part.rule, shape[part.axis], part.tasks, part.task)
        except UnsupportedError:
            raise ValueError(f"{name} is spread by the unknown rule {shown(part.rule)}") from None
        expected = (*shape[: part.axis], len(rows), *shape[part.axis + 1 :])
        if (saved.dtype, saved.shape) != (dtype, expected):
            raise ValueError(f"a part of {name} is not of the type the manifest states")
        way = (part.rule, part.axis, part.tasks)
        if self._ways.setdefault(saved.name, way) != way:  # rows would be there twice, and others never
            raise ValueError(f"{name} is spread in two ways")
        if saved.name not in self._whole:
            self._whole[saved.name] = Saved(saved.name, dtype, shape, np.empty(shape, numpy_dtype(dtype)))
            self._missing[saved.name] = set(range(part.tasks))
        if part.task not in self._missing.get(saved.name, set()):
            raise ValueError(f"a part of {name} is there twice")
        self._missing[saved.name].discard(part.task)
        put_part(self._whole[saved.name].array, saved.array, part.rule, part.axis, part.tasks, part.task)

    @staticmethod
    def _require_room(saved: Saved, part: Part, shape: tuple[int, ...]) -> None:
        """Numbers of rows are counted before they are listed: what a manifest claims may be far more than there is."""
        rows = saved.shape[part.axis] if len(saved.shape) == len(shape) else -1
        if not shape[part.axis] // part.tasks <= rows <= most_rows(shape[part.axis], part.tasks):
            raise ValueError(f"a part of {shown(saved.name)} is not of the type the manifest states")
        if rows > max(saved.array.size, MOST_EMPTY_ROWS):
            raise ValueError(f"{shown(saved.name)} has {rows} rows of nothing")

    def finished(self) -> dict[str, Saved]:
        """All of it."""
        for name in self._types:
            if name not in self._whole or self._missing.get(name):
                raise ValueError(f"{shown(name)} is not whole in its files")
        return {name: self._whole[name] for name in self._types}
