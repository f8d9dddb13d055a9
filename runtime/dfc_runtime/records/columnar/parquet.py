"""Parquet files: what their footer says of row groups, and one of these. Checksums of pages are compared where there
are some.

Of a row group only the rows and the bytes are asked for: what its footer says of columns ends the process if it is
damaged, where pyarrow builds it for Python, and is an error where it reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from dfc_runtime.calls.memory import check_limit, memory_limit
from dfc_runtime.errors import RecordError
from dfc_runtime.formats.source import FileSource
from dfc_runtime.records.columnar.columns import Column
from dfc_runtime.records.columnar.groups import GroupedFiles, no_columns
from dfc_runtime.records.columnar.library import damages, reason_of
from dfc_runtime.records.framing import foreign
from dfc_runtime.records.index import RecordIndex
from dfc_runtime.terminal import in_one_line

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

MARK, ENCRYPTED = b"PAR1", b"PARE"
LEAST = 12
"""Bytes of two marks and the length of the footer."""


class ParquetFiles(GroupedFiles):
    """Files of row groups. The one that was read last is open."""

    group: ClassVar[str] = "row group"
    _last: tuple[int, parquet.ParquetFile] | None = None

    def index(self, source: FileSource) -> RecordIndex:
        file = open_parquet(source)
        if isinstance(file, RecordError):
            return self.lost(source, file)
        with file:
            try:
                metadata, schema = file.metadata, file.schema_arrow
                groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
                sizes = [group.total_byte_size for group in groups]
                return self.grouped(source, schema, [group.num_rows for group in groups], [0] * len(groups), sizes)
            except RecordError:
                raise
            except damages() as problem:
                raise no_columns(source, reason_of(problem)) from None

    def close(self) -> None:
        self._forget()
        super().close()

    def table(self, file: int, group: int, columns: Sequence[Column]) -> pa.Table:
        if self._last is None or self._last[0] != file:
            self._forget()
            opened = open_parquet(self._source(file))
            if isinstance(opened, RecordError):
                raise opened
            self._last = file, opened
        opened = self._last[1]
        paths = [column.path for column in columns]
        table = opened.read_row_group(group, columns=paths, use_threads=False)
        check_limit(
            f"reading row group {group} of {in_one_line(self.indices[file].path)}", table.nbytes, memory_limit()
        )
        return table

    def _forget(self) -> None:
        if self._last is not None:
            self._last[1].close()
        self._last = None


def open_parquet(source: FileSource) -> parquet.ParquetFile | RecordError:
    """A file whose footer is read, or how it is damaged; `RecordError` (E0916) if it is of another kind."""
    from pyarrow import parquet  # only programs that read such files have it

    start = source.read(0, min(source.size, LEAST))
    if not start:
        raise no_columns(source, "it is empty")
    if not start.startswith(MARK):
        known = "it is encrypted" if start.startswith(ENCRYPTED) else foreign(start, source.name)
        raise no_columns(source, known or "it does not begin as a Parquet file does")
    if source.size < LEAST or source.read(source.size - len(MARK), len(MARK)) != MARK:
        return _damage(source, "the file ends too early: there is no footer, which says where its rows are")
    try:
        return parquet.ParquetFile(source.name, pre_buffer=False, page_checksum_verification=True)
    except damages() as problem:
        return _damage(source, f"its footer cannot be read: {reason_of(problem)}")


def _damage(source: FileSource, reason: str) -> RecordError:
    text = f"{in_one_line(source.name)}: {reason}"
    return RecordError(text, code="E0914", file=source.name, record=0, offset=source.size)
