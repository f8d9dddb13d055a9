"""New files of records from the command line: what all commands that write some have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from dfc.cli.tables import size
from dfc_runtime.formats.source import FileSource
from dfc_runtime.records.index import scan
from dfc_runtime.records.stored_index import write_index
from dfc_runtime.records.writing import MOST_SHARDS, RecordWriter
from dfc_runtime.terminal import in_one_line

SHARDS = click.IntRange(1, MOST_SHARDS)


def publish(
    out: str, records: Iterable[Sequence[bytes]], *, shards: int | None, force: bool, with_index: bool
) -> RecordWriter:
    """Writes lists of records, and an index beside each file if one is to be there."""
    if not out:
        raise click.UsageError("the name of the file to write is empty")
    with RecordWriter(out, shards, force=force) as writer:
        for some in records:
            writer.write(some)
    for path in writer.paths if with_index else ():
        source = FileSource(path)
        try:
            write_index(source, scan(source))
        finally:
            source.close()
    return writer


def described(writer: RecordWriter, what: str) -> str:
    """What was written: `60,000 examples to train.rec (49.2 MB)`."""
    first, last = in_one_line(writer.paths[0]), in_one_line(writer.paths[-1])
    paths = first if len(writer.paths) == 1 else f"{first} .. {last}"
    return f"{writer.count:,} {what} to {paths} ({size(writer.bytes)})"
