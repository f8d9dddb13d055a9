"""What is in Parquet and Arrow files: columns by their footers, the sizes of lists by the first row that has one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dfc.cli.data.columns import Cell, batches_in
from dfc.cli.data.contents import Column, Contents, reader_of
from dfc_runtime.errors import RecordError
from dfc_runtime.formats.source import FileSource
from dfc_runtime.records.columnar.columns import cast_of, field_type, unwrapped
from dfc_runtime.records.columnar.ipc import batches_of, schema_of
from dfc_runtime.records.columnar.library import damages, require_arrow
from dfc_runtime.records.columnar.parquet import open_parquet

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet


def contents_of_parquet(source: FileSource) -> Contents:
    """Rows and row groups, and the nulls that it counts itself."""
    require_arrow()
    file = open_parquet(source)
    if isinstance(file, RecordError):
        raise file
    with file:
        metadata = file.metadata
        nulls = _nulls(metadata)
        batches = file.iter_batches(1, use_threads=False)
        columns = [*_columns(file.schema_arrow, batches, nulls)]
        groups = metadata.num_row_groups
        kind = f"Parquet in {groups:,} row group{'s' * (groups != 1)}"
        return _contents(source, kind, metadata.num_rows, columns, "parquet_files")


def contents_of_arrow(source: FileSource) -> Contents:
    """Rows and record batches."""
    require_arrow()
    content = batches_of(source)
    if content.damage:
        raise RecordError(f"{source.name}: {content.damage}", code="E0914", file=source.name)
    columns = [*_columns(schema_of(source, content), batches_in(source.name, content), {})]
    count = len(content.batches)
    form = "file" if content.is_file else "stream"
    kind = f"Arrow {form} of {count:,} record batch{'es' * (count != 1)}"
    return _contents(source, kind, sum(each.rows for each in content.batches), columns, "arrow_files")


def _contents(source: FileSource, kind: str, rows: int, columns: list[Column], function: str) -> Contents:
    reader = reader_of(function, source.name, columns)
    return Contents(source.name, kind, "rows", rows, source.size, columns, (reader,) if reader else ())


def _columns(schema: pa.Schema, batches: Iterator[pa.RecordBatch], nulls: dict[str, int]) -> Iterator[Column]:
    first = next(batches, None) if any(unwrapped(field.type)[0] for field in schema) else None
    for number, field in enumerate(schema):
        levels, leaf = unwrapped(field.type)
        sizes = _sizes(first.column(number).to_pylist() if first is not None and levels else [], levels)
        note = f"{nulls[field.name]:,} null" if nulls.get(field.name) else ""
        type_ = field_type(field.type, sizes)
        cast = "" if type_ else cast_of(leaf)
        yield Column(field.name, str(field.type), type_, note or (f"write {cast}" if cast else ""))


def _sizes(cells: list[Cell], levels: int) -> tuple[int, ...] | None:
    """The sizes of lists, by the first one; None if there is none."""
    cell: Cell = next((each for each in cells if each is not None), None)
    sizes: list[int] = []
    for _ in range(levels):
        if not isinstance(cell, list):
            return None
        sizes.append(len(cell))
        cell = cell[0] if cell else None
    return tuple(sizes)


def _nulls(metadata: parquet.FileMetaData) -> dict[str, int]:
    """By column, where all row groups count them."""
    nulls: dict[str, int] = {}
    try:
        for number in range(metadata.num_columns):
            pieces = [metadata.row_group(group).column(number) for group in range(metadata.num_row_groups)]
            statistics = [piece.statistics for piece in pieces]
            name = metadata.schema.column(number).path.partition(".")[0]
            nulls[name] = sum(each.null_count or 0 for each in statistics if each is not None)
    except damages():
        return {}
    return nulls
