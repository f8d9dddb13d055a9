"""`dfc data shuffle`: the records of files in random order, in new files."""

from __future__ import annotations

from collections.abc import Iterator

import click
import numpy as np

from dfc.cli.data.publishing import SHARDS, described, publish
from dfc_runtime.records.framing import OnError
from dfc_runtime.records.reading import RecordFiles
from dfc_runtime.records.stream import RecordStream

AT_ONCE = 1 << 16
"""Positions whose records are looked up at once."""
BATCH_BYTES = 1 << 26
"""Bytes of records that are read in the order of the files, and written in their new one."""


@click.command("shuffle", short_help="Write the records of files anew, in random order.")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option("--out", required=True, metavar="OUT.rec", help="The new file.")
@click.option("--seed", type=int, default=0, show_default=True, help="Another order.")
@click.option("--shards", type=SHARDS, help="Write OUT-00000-of-0000N.rec and so on, position i to file i mod N.")
@click.option("--on-error", type=click.Choice(["fail", "skip"]), default="fail", help="What a damaged record does.")
@click.option("--index", "with_index", is_flag=True, help="Write OUT.rec.index, so that opening it takes no time.")
@click.option("--force", is_flag=True, help="Overwrite what is there.")
def command(
    files: tuple[str, ...],
    out: str,
    seed: int,
    shards: int | None,
    on_error: OnError,
    with_index: bool,
    force: bool,
) -> int:
    """Writes all records of FILES to OUT.rec, in an order that depends on the seed and their number alone.

    Memory does not grow with the files but for 16 bytes a record. What is in records is not looked at.
    """
    with RecordFiles(files, on_error) as opened:
        skipped: list[str] = []
        records = _shuffled(opened, seed, skipped)
        writer = publish(out, records, shards=shards, force=force, with_index=with_index)
        lost = [damage.message for damage in opened.damages if damage.message not in skipped]
        for message in (*skipped, *lost):
            click.echo(f"skipped: {message}", err=True)
    click.echo(f"shuffled {described(writer, 'records')}")
    return 0


def _shuffled(files: RecordFiles, seed: int, skipped: list[str]) -> Iterator[list[bytes]]:
    stream = RecordStream(tuple(index.count for index in files.indices), "records", seed)
    for begin in range(0, stream.count, AT_ONCE):
        positions = np.arange(begin, min(begin + AT_ONCE, stream.count))
        for batch in files.batches(stream.numbers(0, positions), BATCH_BYTES):
            skipped += [error.message for error in batch.skipped]
            yield [batch.frames.record(row) for row in range(len(batch.frames))]
