"""Summaries: what a program records about itself, and where it goes.

Assumes nothing of a sink but that it can be called. Guarantees events in the order in which the program made them, and
that what a sink raises reaches the caller of the entry.
"""

from __future__ import annotations

import json
import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import FileError

Array = NDArray[np.generic]
BUCKETS = 30
RECENT = 10_000


@dataclass(frozen=True, slots=True)
class Histogram:
    """The distribution of the finite elements of a tensor, in `BUCKETS` buckets of one width from the smallest to the
    largest. A bucket begins at its left edge and ends before the right one; the last takes in its right edge. There are
    no buckets without finite elements, and just one if all are equal.

    `count` and the sums are of finite elements; `not_finite` counts the others.
    """

    count: int
    not_finite: int
    minimum: float
    maximum: float
    sum: float
    sum_of_squares: float
    edges: tuple[float, ...]
    counts: tuple[int, ...]


def histogram(values: Array) -> Histogram:
    """The distribution of the elements of any tensor, computed in f64."""
    wide = values.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    others = wide.size - finite.size
    if not finite.size:
        return Histogram(0, others, math.nan, math.nan, 0.0, 0.0, (), ())
    low, high = float(finite.min()), float(finite.max())
    with np.errstate(over="ignore"):
        total, squares = float(finite.sum()), float(np.square(finite).sum())
    if low == high:
        return Histogram(finite.size, others, low, high, total, squares, (low, high), (finite.size,))
    edges, counts = _buckets(finite, low, high)
    return Histogram(
        finite.size, others, low, high, total, squares, tuple(edges.tolist()), tuple(int(c) for c in counts)
    )


def _buckets(finite: NDArray[np.float64], low: float, high: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Edges and counts. Halves are taken so that the width of the whole range does not overflow."""
    steps = np.linspace(0.0, 1.0, BUCKETS + 1)
    edges = low * (1.0 - steps) + high * steps
    edges[0], edges[-1] = low, high
    indices = np.searchsorted(edges, finite, side="right") - 1
    counts = np.bincount(np.clip(indices, 0, BUCKETS - 1), minlength=BUCKETS)
    return edges, counts.astype(np.int64)


Value = bool | int | float | Histogram


@dataclass(frozen=True, slots=True)
class Summary:
    """An event: `value` was recorded under `tag` at `step`, at `time` (seconds since 1970)."""

    step: int
    tag: str
    value: Value
    time: float = field(default_factory=time.time, compare=False)


Sink = Callable[[Summary], object]


class Recent:
    """Keeps the latest events; older ones are forgotten, so that a long run does not fill the memory."""

    def __init__(self, most: int = RECENT) -> None:
        self._events: deque[Summary] = deque(maxlen=most)

    def __call__(self, event: Summary) -> None:
        self._events.append(event)

    def __len__(self) -> int:
        return len(self._events)

    def __getitem__(self, number: int) -> Summary:
        return self._events[number]

    def __iter__(self) -> Iterator[Summary]:
        return iter(list(self._events))

    def values(self, tag: str) -> list[Value]:
        """What was recorded under a tag, the oldest first."""
        return [event.value for event in self if event.tag == tag]

    def clear(self) -> None:
        self._events.clear()

    def __repr__(self) -> str:
        return f"<{len(self)} summaries of {', '.join(sorted({event.tag for event in self})) or 'nothing'}>"


class FileSink(ABC):
    """A sink that holds a file open until `close`."""

    @abstractmethod
    def close(self) -> None:
        """Writes what is left and lets go of the file."""


class JsonLines(FileSink):
    """Adds one line of JSON for each event to a file, which is whole after each of them. Numbers that JSON does not
    have are texts: "nan", "inf", "-inf"."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            self._file: TextIO = path.open("a", encoding="utf-8")
        except OSError as problem:
            raise _unwritable(path, problem) from None

    def __call__(self, event: Summary) -> None:
        text = json.dumps(_record(event), allow_nan=False)
        try:
            with self._lock:
                self._file.write(text + "\n")
                self._file.flush()
        except OSError as problem:
            raise _unwritable(self._path, problem) from None

    def close(self) -> None:
        self._file.close()


def _unwritable(path: Path, problem: OSError) -> FileError:
    return FileError(f"cannot write {path}: {problem.strerror or problem}", code="E0909")


def _record(event: Summary) -> dict[str, object]:
    head: dict[str, object] = {"step": event.step, "tag": event.tag, "time": event.time}
    value = event.value
    if not isinstance(value, Histogram):
        return {**head, "value": _number(value)}
    return {
        **head,
        "histogram": {
            "count": value.count,
            "not_finite": value.not_finite,
            "minimum": _number(value.minimum),
            "maximum": _number(value.maximum),
            "sum": _number(value.sum),
            "sum_of_squares": _number(value.sum_of_squares),
            "edges": list(value.edges),
            "counts": list(value.counts),
        },
    }


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
