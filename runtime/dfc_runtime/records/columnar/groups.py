"""Files whose rows lie in groups, each of which is read as a whole: rows of them as packed records.

A format says which groups a file has (`index`, which calls `grouped`), and reads one (`table`). Only the columns that
fields are of are read. Groups that were read are kept as far as they have no more than `KEPT_BYTES` together, the last
one in any case: so a file that is read in its order has each of its groups read once. Assumes what `packing` does.
Guarantees that a group which cannot be read is damage of each of its rows, at their turns.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dfc_runtime.calls.memory import check_limit, memory_limit
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import RecordError
from dfc_runtime.formats.fields import shown
from dfc_runtime.formats.source import FileSource
from dfc_runtime.names import did_you_mean
from dfc_runtime.records.columnar.columns import Column, column_of, numbers_of, strings_of, without_views
from dfc_runtime.records.columnar.library import damages, reason_of
from dfc_runtime.records.fields import RecordLayout, numpy_type
from dfc_runtime.records.framing import Frames, Numbers, OnError
from dfc_runtime.records.index import RecordIndex
from dfc_runtime.records.packing import PackedFiles, packed
from dfc_runtime.terminal import in_one_line

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

KEPT_BYTES = 1 << 28
"""Of groups that were read: so many random rows are found without reading their groups anew."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of a file: the number of the first row of each, and at the end of all rows; where each begins, 0 if
    that is not known, and how many bytes its strings have at most, or about."""

    first: Numbers
    offsets: Numbers
    string_bytes: Numbers
    columns: tuple[Column, ...]

    def of(self, rows: Numbers) -> Numbers:
        """The groups of rows."""
        return np.searchsorted(self.first, rows, side="right") - 1


class RowValues:
    """What becomes of some rows: numbers of fields at their places, strings one behind the other."""

    def __init__(self, layout: RecordLayout, count: int) -> None:
        self._layout, self._count = layout, count
        check_limit(f"reading {count} rows", count * layout.size, memory_limit())
        self.numbers: dict[str, NDArray[np.generic]] = {
            field.name: np.zeros((count, field.count), numpy_type(field))
            for field in layout.fields
            if not field.is_string
        }
        self.strings: dict[str, tuple[Numbers, Numbers]] = {
            field.name: (np.zeros(count, np.int64), np.zeros(count, np.int64))
            for field in layout.fields
            if field.is_string
        }
        self.reasons: dict[int, str] = {}
        self._texts: list[NDArray[np.uint8]] = []
        self._size = 0

    def add(self, column: Column, array: pa.Array, at: Numbers) -> None:
        """Takes the rows of a column in, which come to these places."""
        name = column.field.name
        if column.field.is_string:
            text, begins, ends, reasons = strings_of(column, array)
            check_limit(f"reading {self._count} rows", self._size + len(text), memory_limit())
            self.strings[name][0][at], self.strings[name][1][at] = begins + self._size, ends + self._size
            self._texts.append(text)
            self._size += len(text)
        else:
            self.numbers[name][at], reasons = numbers_of(column, array)
        for row, reason in reasons.items():
            self.reasons.setdefault(int(at[row]), reason)

    def packed(self) -> Frames:
        texts = np.concatenate(self._texts) if self._texts else np.zeros(0, np.uint8)
        return packed(self._layout, self._count, self.numbers, texts, self.strings)


class GroupedFiles(PackedFiles):
    """Files of groups of rows."""

    group: ClassVar[str]
    """What a group is called."""
    has_estimates: ClassVar[bool] = True

    def __init__(self, paths: Sequence[str | os.PathLike[str]], on_error: OnError, layout: RecordLayout) -> None:
        self._groups: list[Groups] = []
        self._kept: dict[tuple[int, int], pa.Table] = {}
        super().__init__(paths, on_error, layout)

    @abstractmethod
    def table(self, file: int, group: int, columns: Sequence[Column]) -> pa.Table:
        """These columns of a group."""

    def close(self) -> None:
        self._kept.clear()
        super().close()

    def name_of(self, file: int, record: int) -> str:
        del file
        return f"row {record}"

    def sizes(self, numbers: Numbers) -> Numbers:
        """About so many bytes: those of the strings of a group are taken to be equally long."""
        sizes = np.full(len(numbers), self.layout.size)
        if self.layout.has_strings:
            files = self.locate(numbers)[0]
            for file, some in _same(files):
                groups = self._groups[file]
                counts = np.maximum(np.diff(groups.first), 1)
                sizes[some] += (groups.string_bytes // counts)[groups.of(numbers[some] - self.first[file])]
        return sizes

    def located(self, number: int) -> str:
        file, row = self._location(number)
        return f"{self.described(number)[0]}, in {self.group} {int(self._groups[file].of(np.array([row]))[0])}"

    def offset(self, number: int) -> int:
        file, row = self._location(number)
        groups = self._groups[file]
        return int(groups.offsets[int(groups.of(np.array([row]))[0])])

    def pack(self, numbers: Numbers) -> tuple[Frames, Mapping[int, str]]:
        files = self.locate(numbers)[0]
        parts = RowValues(self.layout, len(numbers))
        for file, some in _same(files):
            groups = self._groups[file]
            rows = numbers[some] - self.first[file]
            for group, these in _same(groups.of(rows)):
                self._add(parts, file, group, rows[these] - groups.first[group], some[these])
        return parts.packed(), parts.reasons

    def grouped(
        self,
        source: FileSource,
        schema: pa.Schema,
        counts: Sequence[int],
        offsets: Sequence[int],
        string_bytes: Sequence[int],
        damage: RecordError | None = None,
    ) -> RecordIndex:
        """The index of a file with groups of so many rows."""
        first = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(counts, np.int64))])
        try:
            columns = self._columns(source, schema)
        except RecordError:
            raise
        except ValueError as problem:  # such as names that are no UTF-8
            raise no_columns(source, f"its schema cannot be read: {reason_of(problem)}") from None
        extents = np.array(offsets, np.int64), np.array(string_bytes, np.int64)
        if damage is not None and self.on_error == "fail":
            raise damage
        self._groups.append(Groups(first, *extents, columns))
        nothing = np.broadcast_to(np.int64(0), (int(first[-1]),))
        damages = () if damage is None else (damage,)
        return RecordIndex(source.name, source.size, source.modified, nothing, nothing, damages, bool(damages))

    def lost(self, source: FileSource, damage: RecordError) -> RecordIndex:
        """The index of a file of which nothing can be read."""
        if self.on_error == "fail":
            raise damage
        none = np.zeros(0, np.int64)
        self._groups.append(Groups(np.zeros(1, np.int64), none, none, ()))
        return RecordIndex(source.name, source.size, source.modified, none, none, (damage,), True)

    def _columns(self, source: FileSource, schema: pa.Schema) -> tuple[Column, ...]:
        columns: list[Column] = []
        for field in self.layout.fields:
            matches = schema.get_all_field_indices(field.name)
            if len(matches) != 1:
                has = f"it has {len(matches)} columns" if matches else "it has no column"
                remedy = "" if matches else did_you_mean(field.name, schema.names)
                there = ", ".join(map(shown, schema.names)) or "none"
                raise no_columns(source, f"{has} {shown(field.name)}{remedy}; its columns: {there}")
            try:
                columns.append(column_of(field, schema.field(matches[0]).type))
            except ValueError as problem:
                raise no_columns(source, str(problem)) from None
        return tuple(columns)

    def _add(self, parts: RowValues, file: int, group: int, rows: Numbers, at: Numbers) -> None:
        """Some rows of a group."""
        try:
            table = self._table(file, group)
            import pyarrow as pa  # only programs that read such files have it

            is_run = int(rows[-1]) - int(rows[0]) == len(rows) - 1 and bool((np.diff(rows) == 1).all())
            some = table.slice(int(rows[0]), len(rows)) if is_run else table.take(pa.array(rows))
            for column in self._groups[file].columns:
                parts.add(column, some.column(column.field.name).combine_chunks(), at)
        except RecordError:
            raise
        except damages() as problem:
            reason = f"the {self.group} cannot be read: {reason_of(problem)}"
            for row in at.tolist():
                parts.reasons.setdefault(row, reason)

    def _table(self, file: int, group: int) -> pa.Table:
        """A group, which is read if it is not kept."""
        table = self._kept.pop((file, group), None)
        if table is None:
            groups = self._groups[file]
            self._source(file)  # which has the size and the time that it had
            table = without_views(self.table(file, group, groups.columns))
            rows = int(groups.first[group + 1] - groups.first[group])
            if table.num_rows != rows:
                raise ValueError(f"it has {table.num_rows:,} rows, and the file says {rows:,}")
        self._kept[file, group] = table  # behind the others
        while len(self._kept) > 1 and sum(each.nbytes for each in self._kept.values()) > KEPT_BYTES:
            del self._kept[next(iter(self._kept))]
        return table

    def _location(self, number: int) -> tuple[int, int]:
        """The file of a row, and its number there."""
        file = int(self.locate(np.array([number]))[0][0])
        return file, number - int(self.first[file])

    def _damaged(self, number: int, reason: str) -> RecordError:
        file, row = self._location(number)
        path, group = self.indices[file].path, int(self._groups[file].of(np.array([row]))[0])
        text = f"{in_one_line(path)}: row {row}, in {self.group} {group}: {reason}"
        return RecordError(text, code="E0914", file=path, record=row, offset=self.offset(number))


def no_columns(source: FileSource, reason: str) -> RecordError:
    """A file that has not the columns that are wanted."""
    text = f"{in_one_line(source.name)} holds no columns that are wanted: {reason}"
    return RecordError(text, code="E0916", file=source.name)


def _same(numbers: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Each number that is there, in order, and where."""
    order = np.argsort(numbers, kind="stable")
    bounds = np.flatnonzero(np.diff(numbers[order])) + 1
    for some in np.split(order, bounds):
        if len(some):
            yield int(numbers[some[0]]), some
