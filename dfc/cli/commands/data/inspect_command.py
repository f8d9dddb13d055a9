"""`dfc data inspect`: what is in files of records, and in others that programs read."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click
import numpy as np

from dfc.cli.data.content_kinds import contents_of, kind_of
from dfc.cli.data.contents import Contents
from dfc.cli.data.printing import feature_lines, file_lines, record_json, record_lines, summary_json
from dfc.cli.data.summary import FileSummary, Summary
from dfc.cli.failures import report
from dfc_runtime.errors import DfcError, RecordError
from dfc_runtime.formats.source import FileSource
from dfc_runtime.records.example import decode_example
from dfc_runtime.records.index import scan
from dfc_runtime.records.reading import RecordFiles
from dfc_runtime.records.stored_index import write_index
from dfc_runtime.terminal import in_one_line

DAMAGED = RecordError.exit_code


@click.command("inspect", short_help="Say what is in files, and which records are damaged.")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option("--record", "number", type=click.IntRange(0), metavar="N", help="Print record N of the files, from 0.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--index", "with_index", is_flag=True, help="Write FILE.index, so that opening it takes no time.")
def command(files: tuple[str, ...], number: int | None, as_json: bool, with_index: bool) -> int:
    """Reads all records of FILES, compares their checksums, and says how many there are, what is in them, and which are
    damaged or no examples. Ends with 2 if a record is damaged.

    Of files that end in .parquet, .arrow, .feather, .csv, .npy, .npz, .tar or .txt, and of folders of images, it says
    what is in them, and how a program reads them.
    """
    if number is not None:
        if with_index:
            raise click.UsageError("--index reads all of a file, and --record one record: give one of the two")
        _print_record(files, number, as_json)
        return 0
    if with_index:
        _write_indices(files)
    summary = Summary()
    contents, code = _others([(path, kind_of(path)) for path in files if kind_of(path)], as_json)
    for path in files:
        if not kind_of(path):
            file = summary.add_file(path)
            if not as_json:
                _print_file(file)
    if as_json:
        others = {"contents": [each.data() for each in contents]} if contents else {}
        click.echo(json.dumps({**summary_json(summary), **others}, indent=2))
    else:
        for line in feature_lines(summary):
            click.echo(line)
    return code or _code(summary)


def _others(files: Sequence[tuple[str, str]], as_json: bool) -> tuple[list[Contents], int]:
    """What is in files of other kinds than records, and the code of the first one that cannot be read."""
    contents: list[Contents] = []
    code = 0
    for path, kind in files:
        try:
            content = contents_of(path, kind)
        except DfcError as problem:
            report(problem)
            code = code or problem.exit_code
            continue
        contents.append(content)
        for line in () if as_json else content.lines():
            click.echo(line)
    return contents, code


def _print_file(file: FileSummary) -> None:
    if file.error is not None:
        report(file.error)
        return
    for line in file_lines(file):
        click.echo(line)


def _code(summary: Summary) -> int:
    """That of the first file which could not be read, else whether one is damaged."""
    for file in summary.files:
        if file.error is not None:
            return file.error.exit_code
    return DAMAGED if any(file.damages for file in summary.files) else 0


def _print_record(files: Sequence[str], number: int, as_json: bool) -> None:
    with RecordFiles(files) as records:
        if number >= records.count:
            raise click.UsageError(f"there is no record {number}: the files have {records.count:,}, numbered from 0")
        of, offsets, lengths = records.locate(np.array([number]))
        index = records.indices[int(of[0])]
        data = records.read(np.array([number])).frames.record(0)
        within = number - int(records.first[int(of[0])])
    features = decode_example(data)
    if as_json:
        about = {"path": index.path, "record": within, "offset": int(offsets[0]), "bytes": int(lengths[0])}
        click.echo(json.dumps({**about, "features": record_json(features)}, indent=2))
        return
    click.echo(f"{in_one_line(index.path)}: record {within}, {int(lengths[0]):,} bytes at {int(offsets[0])}")
    for line in record_lines(features):
        click.echo(line)


def _write_indices(files: Sequence[str]) -> None:
    for path in files:
        source = FileSource(path)
        try:
            click.echo(f"wrote {in_one_line(write_index(source, scan(source)))}", err=True)
        finally:
            source.close()
