"""The features of many records at once.

Records of one source lie alike: their tags, names and lengths are the same bytes at the same offsets, and only values
differ. So one record of a length is read as what it is, and those that have the same bytes in all places but values
are columns of a matrix of bytes; what is left is read as the next one, and so on. Guarantees what `decode_example`
gives for each record, and its errors; speed where records do lie alike: after `MOST_LAYOUTS` of one length each record
is looked at by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import RecordError
from dfc_runtime.records import wire
from dfc_runtime.records.example import FeatureLayout, Span, layouts, no_example
from dfc_runtime.records.framing import Frames, Numbers
from dfc_runtime.records.wire import WireError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Bytes: TypeAlias = "NDArray[np.uint8]"
MOST_LAYOUTS = 16


@dataclass(frozen=True, slots=True)
class Alike:
    """Records that lie alike: which ones of the frames, the bytes of each as a row, and where their values are; or
    one with a `problem`, that is no example."""

    rows: Numbers
    data: Bytes
    features: Mapping[str, FeatureLayout]
    problem: WireError | None = None

    def lists(self, name: str) -> NDArray[np.generic]:
        """A feature of all of them: f32[rows, n], i64[rows, n], or u8[rows, bytes] of a single text; `ValueError` if
        they have different numbers of values, or several texts."""
        layout = self.features[name]
        if layout.kind == "bytes" and len(layout.spans) != 1:
            raise ValueError(f"{name!r} has {len(layout.spans)} texts")
        if layout.kind == "int64":
            counts = self.counts(name)
            if (counts != counts[0]).any():
                raise ValueError(f"{name!r} has between {counts.min()} and {counts.max()} values")
        values = self._joined(layout) if layout.kind == "bytes" else self.numbers(name)
        return values.reshape(len(self.rows), -1) if values.size else values.reshape(len(self.rows), 0)

    def numbers(self, name: str) -> NDArray[np.generic]:
        """All numbers of a feature, f32 or i64, record by record."""
        layout = self.features[name]
        joined = np.ascontiguousarray(self._joined(layout)).reshape(-1)
        return wire.varints(joined) if layout.kind == "int64" else joined.view("<f4")

    def _joined(self, layout: FeatureLayout) -> Bytes:
        parts = [self.data[:, each.begin : each.end] for each in layout.spans]
        return parts[0] if len(parts) == 1 else np.concatenate([self.data[:, :0], *parts], axis=1)

    def counts(self, name: str) -> Numbers:
        """How many values of a feature each record has."""
        layout = self.features[name]
        if layout.kind != "int64":
            size = sum(each.end - each.begin for each in layout.spans) // 4
            return np.full(len(self.rows), size if layout.kind == "float" else len(layout.spans))
        ends = [(self.data[:, each.begin : each.end] < 0x80).sum(axis=1) for each in layout.spans]
        return np.sum(ends, axis=0) if ends else np.zeros(len(self.rows), np.int64)


def columns(frames: Frames) -> dict[str, NDArray[np.generic]]:
    """Each feature of all records, a row a record: f32, i64, or the u8 of one text. `RecordError` (E0915) if a record
    is no example, or has not the features of the first one with as many values and as long texts."""
    groups = list(alike(frames))
    result: dict[str, NDArray[np.generic]] = {}
    for group in groups:
        first = int(group.rows[0])
        if group.problem is not None:
            raise no_example(group.problem, f"record {first} of the batch", record=first)
        if not result:
            result = {name: _column(group, name, len(frames)) for name in group.features}
        if group.features.keys() != result.keys():
            names = ", ".join(sorted(set(group.features) ^ set(result)))
            raise _uneven(first, f"records do not have the same features: {names}")
        for name, column in result.items():
            lists = _lists(group, name)
            if lists.shape[1:] != column.shape[1:] or lists.dtype != column.dtype:
                raise _uneven(first, f"{name!r} is not {column.dtype}{list(column.shape[1:])}, as before")
            column[group.rows] = lists
    return result


def _column(group: Alike, name: str, count: int) -> NDArray[np.generic]:
    lists = _lists(group, name)
    return np.empty((count, *lists.shape[1:]), lists.dtype)


def _lists(group: Alike, name: str) -> NDArray[np.generic]:
    try:
        return group.lists(name)
    except ValueError as problem:
        raise _uneven(int(group.rows[0]), str(problem)) from None


def _uneven(row: int, reason: str) -> RecordError:
    return RecordError(f"record {row} of the batch: {reason}", code="E0915", record=row)


def alike(frames: Frames) -> Iterator[Alike]:
    """The records in groups that lie alike."""
    order = np.argsort(frames.lengths, kind="stable")
    lengths = frames.lengths[order]
    for rows in np.split(order, np.flatnonzero(np.diff(lengths)) + 1) if len(order) else ():
        rest, layouts_so_far = rows, 0
        while len(rest):
            layouts_so_far += 1
            some = rest if layouts_so_far <= MOST_LAYOUTS else rest[:1]
            group, others = _like_the_first(frames, some)
            rest = np.concatenate([others, rest[len(some) :]])
            yield group


def _like_the_first(frames: Frames, rows: Numbers) -> tuple[Alike, Numbers]:
    """Those that lie like the first of these records of one length, and the others."""
    start, length = int(frames.starts[rows[0]]), int(frames.lengths[rows[0]])
    record = frames.data[start : start + length]
    try:
        features = layouts(record.tobytes())
    except WireError as problem:
        return Alike(rows[:1], record[None], {}, problem), rows[1:]
    matrix = _matrix(frames, rows, length)
    is_fixed = np.ones(length, np.bool_)
    for layout in features.values():
        for span in _free(layout):
            is_fixed[span.begin : span.end] = False
    is_alike = (matrix[:, is_fixed] == record[is_fixed]).all(axis=1)
    for layout in features.values():
        if layout.kind == "int64":
            for span in _free(layout):
                is_alike &= _are_lists(matrix[:, span.begin : span.end])
    group = matrix if is_alike.all() else matrix[is_alike]
    return Alike(rows[is_alike], group, features), rows[~is_alike]


def _are_lists(packed: Bytes) -> NDArray[np.bool_]:
    """Which rows are whole numbers of 64 bits, as they lie in one packed field."""
    if not packed.shape[1]:
        return np.ones(len(packed), np.bool_)
    ends = packed[:, -1] < 0x80
    run = np.zeros(len(packed), np.uint8)
    for column in range(packed.shape[1]):
        byte = packed[:, column]
        ends &= (run < 9) | ((run == 9) & (byte <= 1))
        run = np.where(byte < 0x80, np.uint8(0), np.minimum(run + np.uint8(1), np.uint8(10)))
    return ends


def _free(layout: FeatureLayout) -> list[Span]:
    """Where bytes may differ and the layout is the same: a number by itself ends where its bytes say."""
    return [span for span in layout.spans if layout.kind != "int64" or span.is_packed]


def _matrix(frames: Frames, rows: Numbers, length: int) -> Bytes:
    """The bytes of records of one length, a row each; a view where they lie at equal distances."""
    starts = frames.starts[rows]
    steps = np.diff(starts)
    if len(rows) > 1 and (steps == steps[0]).all() and steps[0] > 0:
        shape, strides = (len(rows), length), (int(steps[0]), 1)
        return np.ndarray(shape, np.uint8, frames.data.data, int(starts[0]), strides)
    return frames.data[starts[:, None] + np.arange(length)]
