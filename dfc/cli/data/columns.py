"""Examples of Parquet and Arrow files: one feature a column, one example a row.

Numbers are taken as those of arrays are, lists as their numbers one behind the other; strings and lists of u8 become
bytes, and so does the member `bytes` of records. A null is a feature without values, and none may be in a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfc.cli.data.examples import Example, Examples, unusable
from dfc.deferred.dataclasses import dataclass
from dfc_runtime.errors import RecordError
from dfc_runtime.formats.source import FileSource
from dfc_runtime.records.columnar.columns import BYTES, NUMBERS, cast_of, has_bytes, is_string, unwrapped
from dfc_runtime.records.columnar.ipc import Batches, batches_of, schema_of
from dfc_runtime.records.columnar.library import damages, reason_of, require_arrow
from dfc_runtime.records.columnar.parquet import open_parquet
from dfc_runtime.records.example import Values

if TYPE_CHECKING:
    import pyarrow as pa

Cell: TypeAlias = "bool | int | float | str | bytes | dict[str, bytes | None] | list[Cell] | None"
AT_ONCE = 1024
"""Rows that are taken apart at once."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column that a feature is made of: its type in fields, or "string", and whether it is one of lists."""

    name: str
    dtype: str
    is_list: bool


def from_parquet(paths: Sequence[str]) -> Examples:
    """Of Parquet files, one behind the other."""
    require_arrow()
    for path in paths:
        source = FileSource(path)
        try:
            file = open_parquet(source)
        finally:
            source.close()
        if isinstance(file, RecordError):
            raise file
        with file:
            yield from _examples(path, file.schema_arrow, file.iter_batches(AT_ONCE, use_threads=False))


def from_arrow(paths: Sequence[str]) -> Examples:
    """Of Arrow's files and streams, one behind the other."""
    require_arrow()
    for path in paths:
        source = FileSource(path)
        try:
            content = batches_of(source)
            schema = schema_of(source, content)
        finally:
            source.close()
        if content.damage:
            raise unusable(path, content.damage)
        yield from _examples(path, schema, batches_in(path, content))


def batches_in(path: str, content: Batches) -> Iterator[pa.RecordBatch]:
    """The record batches of a file or stream that is not damaged."""
    import pyarrow as pa  # only who has such files has it

    file = pa.OSFile(path)
    if content.is_file:
        reader = pa.ipc.open_file(file)
        yield from map(reader.get_batch, range(reader.num_record_batches))
    else:
        yield from pa.ipc.open_stream(file)


def _examples(path: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Examples:
    columns = [_column(path, field.name, field.type) for field in schema]
    if len({column.name for column in columns}) < len(columns):
        raise unusable(path, "several of its columns have one name")
    row = 0
    try:
        for batch in batches:
            batch.validate(full=True)
            for cells in zip(*(batch.column(number).to_pylist() for number in range(len(columns))), strict=True):
                example: Example = {
                    column.name: _feature(path, row, column, cell) for column, cell in zip(columns, cells, strict=True)
                }
                yield example
                row += 1
    except RecordError:
        raise
    except damages() as problem:
        raise unusable(path, f"behind row {row}: {reason_of(problem)}") from None


def _column(path: str, name: str, type_: pa.DataType) -> Column:
    levels, leaf = unwrapped(type_)
    if not levels and (is_string(leaf) or has_bytes(leaf)):
        return Column(name, "string", is_list=False)
    dtype = NUMBERS.get(str(leaf))
    if dtype is None:
        cast = cast_of(leaf)
        remedy = f": write {cast}" if cast else ""
        raise unusable(path, f"{name!r} is {type_}, and an example holds bytes, f32 and i64{remedy}")
    return Column(name, dtype, levels > 0)


def _feature(path: str, row: int, column: Column, cell: Cell) -> Values | bytes:
    if isinstance(cell, dict):
        cell = cell.get(BYTES)
    if cell is None:
        return []
    if isinstance(cell, str):
        return cell.encode()
    if isinstance(cell, bytes):
        return cell
    numbers = _flat(cell)
    if any(each is None for each in numbers):
        raise unusable(path, f"row {row}: {column.name!r} has a null in its list")
    if column.dtype == "u8" and column.is_list:
        return np.array(numbers, np.uint8).tobytes()
    if not column.dtype.startswith("f"):
        try:
            return np.array(numbers, np.int64)
        except OverflowError:
            text = f"row {row}: {column.name!r} holds a number that is larger than those of i64"
            raise unusable(path, text) from None
    exact = np.array(numbers, np.float64)
    with np.errstate(over="ignore"):
        single = exact.astype(np.float32)
    if not np.array_equal(single, exact, equal_nan=True):
        text = f"row {row}: {column.name!r} is no f32, as an example holds: write column.cast(pyarrow.float32())"
        raise unusable(path, text)
    return single


def _flat(cell: Cell) -> list[Cell]:
    """The numbers of lists in lists, one behind the other."""
    cells: list[Cell] = [cell]
    while any(isinstance(each, list) for each in cells):
        cells = [inner for each in cells for inner in (each if isinstance(each, list) else [each])]
    return cells
