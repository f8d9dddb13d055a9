"""What dfc uses of pyarrow.parquet."""

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from pyarrow import RecordBatch, Schema, Table

class Statistics:
    null_count: int | None

class ColumnChunkMetaData:
    statistics: Statistics | None
    path_in_schema: str
    dictionary_page_offset: int | None
    data_page_offset: int
    total_uncompressed_size: int

class ColumnSchema:
    path: str

class ParquetSchema:
    def column(self, number: int, /) -> ColumnSchema: ...

class RowGroupMetaData:
    total_byte_size: int
    num_rows: int
    num_columns: int
    def column(self, number: int, /) -> ColumnChunkMetaData: ...

class FileMetaData:
    num_row_groups: int
    num_columns: int
    num_rows: int
    schema: ParquetSchema
    def row_group(self, number: int, /) -> RowGroupMetaData: ...

class ParquetFile:
    metadata: FileMetaData
    schema_arrow: Schema
    def __init__(self, source: str, *, pre_buffer: bool = ..., page_checksum_verification: bool = ...) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...
    def iter_batches(self, batch_size: int, /, *, use_threads: bool = ...) -> Iterator[RecordBatch]: ...
    def close(self) -> None: ...
    def read_row_group(self, number: int, /, *, columns: Sequence[str], use_threads: bool = ...) -> Table: ...
