"""Arrow's own files (also called Feather) and streams: where their record batches lie, and one of these.

Of a file only the columns of fields are read. A batch of a stream is read with all its columns; so is one of a file
whose footer is lost. What is read is checked as a whole before it is used, as nothing in such files has a checksum.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from dfc_runtime.calls.memory import check_limit, memory_limit
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import RecordError
from dfc_runtime.formats.source import FileSource
from dfc_runtime.records.columnar.columns import Column
from dfc_runtime.records.columnar.groups import GroupedFiles, no_columns
from dfc_runtime.records.columnar.library import damages, reason_of
from dfc_runtime.records.columnar.messages import BATCH, DICTIONARY, SCHEMA, Message, messages_of
from dfc_runtime.records.fields import RecordLayout
from dfc_runtime.records.framing import OnError, foreign
from dfc_runtime.records.index import RecordIndex
from dfc_runtime.terminal import in_one_line

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import ipc

MARK, OLD_MARK = b"ARROW1", b"FEA1"
STREAM = 8
"""Where the stream in a file begins."""


@dataclass(frozen=True, slots=True)
class Batches:
    """The messages of a file; before a batch can be read, all dictionaries of a file are, of a stream those before
    it. Why there are no more of them, if something is wrong."""

    schema: Message
    dictionaries: tuple[Message, ...]
    batches: tuple[Message, ...]
    is_file: bool
    has_footer: bool
    damage: str = ""


class ArrowFiles(GroupedFiles):
    """Files and streams of record batches. The one that was read last is open."""

    group: ClassVar[str] = "record batch"

    def __init__(self, paths: Sequence[str | os.PathLike[str]], on_error: OnError, layout: RecordLayout) -> None:
        self._batches: list[Batches] = []
        self._last: tuple[int, ipc.RecordBatchFileReader] | None = None
        super().__init__(paths, on_error, layout)

    def index(self, source: FileSource) -> RecordIndex:
        content = batches_of(source)
        schema = schema_of(source, content)
        damage: RecordError | None = None
        if content.damage:
            text = f"{in_one_line(source.name)}: {content.damage}"
            record = sum(each.rows for each in content.batches)
            damage = RecordError(text, code="E0914", file=source.name, record=record, offset=source.size)
        self._batches.append(content)
        sizes = [each.end - each.begin for each in content.batches]
        counts, offsets = [each.rows for each in content.batches], [each.begin for each in content.batches]
        return self.grouped(source, schema, counts, offsets, sizes, damage)

    def close(self) -> None:
        self._last = None
        super().close()

    def table(self, file: int, group: int, columns: Sequence[Column]) -> pa.Table:
        import pyarrow as pa  # only programs that read such files have it

        content = self._batches[file]
        batch = content.batches[group]
        path = in_one_line(self.indices[file].path)
        check_limit(f"reading record batch {group} of {path}", batch.end - batch.begin, memory_limit())
        if content.has_footer:
            read = self._reader(file, columns).get_batch(group)
        else:
            source = self._source(file)
            needed = [each for each in content.dictionaries if content.is_file or each.begin < batch.begin]
            pieces = [source.read(each.begin, each.end - each.begin) for each in (content.schema, *needed, batch)]
            read = pa.ipc.open_stream(b"".join(pieces)).read_next_batch()
        table = pa.Table.from_batches([read]).select([column.field.name for column in columns])
        table.validate(full=True)
        return table

    def _reader(self, file: int, columns: Sequence[Column]) -> ipc.RecordBatchFileReader:
        import pyarrow as pa  # as above

        if self._last is None or self._last[0] != file:
            handle = pa.OSFile(self.indices[file].path)
            names = pa.ipc.open_file(handle).schema.names
            fields = sorted(names.index(column.field.name) for column in columns)
            options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
            self._last = file, pa.ipc.open_file(handle, options=options)
        return self._last[1]


def batches_of(source: FileSource) -> Batches:
    """The messages of a file; `RecordError` (E0916) if it is of another kind."""
    start = source.read(0, min(source.size, STREAM))
    if not start:
        raise no_columns(source, "it is empty")
    if start.startswith(OLD_MARK):
        raise no_columns(source, "it is of the first version of Feather: write it with pyarrow.feather.write_feather")
    is_file = start.startswith(MARK)
    schema: Message | None = None
    dictionaries: list[Message] = []
    batches: list[Message] = []
    damage = ""
    try:
        for message in messages_of(source, STREAM if is_file else 0):
            if schema is None:
                schema = message if message.kind == SCHEMA else None
                if schema is None:
                    break
            elif message.kind == DICTIONARY:
                dictionaries.append(message)
            elif message.kind == BATCH:
                batches.append(message)
    except ValueError as problem:
        damage = f"behind {len(batches)} record batch{'es' * (len(batches) != 1)}, {problem}"
    if schema is None:
        known = damage if is_file else foreign(start, source.name)
        raise no_columns(source, known or "it does not begin as a file or a stream of Arrow does")
    has_footer = is_file and source.read(source.size - len(MARK), len(MARK)) == MARK
    if is_file and not has_footer:
        damage = damage or "the file ends too early: its footer is missing"
    return Batches(schema, tuple(dictionaries), tuple(batches), is_file, has_footer, damage)


def schema_of(source: FileSource, content: Batches) -> pa.Schema:
    """The columns of a file."""
    import pyarrow as pa  # as above

    try:
        return pa.ipc.read_schema(
            pa.py_buffer(source.read(content.schema.begin, content.schema.end - content.schema.begin))
        )
    except damages() as problem:
        raise no_columns(source, f"its schema cannot be read: {reason_of(problem)}") from None
