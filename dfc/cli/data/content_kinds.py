"""Which kind a file is of, and what is in one of each kind (`contents`).

A file is of a kind by the ending of its name, a folder is one of images; everything else is taken for a file of
records, which `summary` reads. Of tables and archives all is read, of arrays and columns what their heads and footers
say.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable

from dfc.cli.data.contents import Column, Contents, reader_of
from dfc.cli.data.images import classes_of
from dfc.cli.data.tables import KINDS, columns_of
from dfc_runtime.errors import RecordError
from dfc_runtime.formats.source import FileSource
from dfc_runtime.records.archives import is_of_a_sample, members_of, split_name
from dfc_runtime.records.text.lines import scan_lines

ENDINGS = {
    "npy": "npy", "npz": "npz", "csv": "csv", "txt": "txt", "tar": "tar",
    "parquet": "parquet", "arrow": "arrow", "feather": "arrow", "arrows": "arrow",
}  # fmt: skip
IMAGES = "images"
CELLS = {"int64": "i64", "float": "f32", "bytes": "string"}
"""Types of fields that cells of tables can be read as."""


def kind_of(path: str) -> str:
    """ "" for what is to be read as a file of records."""
    if os.path.isdir(path):
        return IMAGES
    return ENDINGS.get(os.path.splitext(path)[1].lower().removeprefix("."), "")


def contents_of(path: str, kind: str) -> Contents:
    """What is in a file or folder of this kind; an error of the run side if it is none."""
    if kind == IMAGES:
        return _images(path)
    source = FileSource(path)
    try:
        return _KINDS[kind](source)
    finally:
        source.close()


def _lines(source: FileSource) -> Contents:
    reader = f"var lines = line_files({json.dumps(source.name, ensure_ascii=False)})"
    return Contents(source.name, "text", "lines", scan_lines(source).count, source.size, readers=(reader,))


def _table(source: FileSource) -> Contents:
    read = columns_of([source.name])
    columns = [
        Column(name, KINDS[kind] or "empty", CELLS.get(KINDS[kind], ""), f"{missing:,} empty" if missing else "")
        for name, kind, missing in zip(read.names, read.kinds, read.empty, strict=True)
    ]
    reader = reader_of("csv_files", source.name, columns)
    return Contents(source.name, "table", "rows", read.count, source.size, columns, (reader,) if reader else ())


def _archive(source: FileSource) -> Contents:
    damages: list[RecordError] = []
    endings: Counter[str] = Counter()
    count, last = 0, ""
    for member in filter(is_of_a_sample, members_of(source, damages)):
        name, ending = split_name(member.name)
        count += not count or name != last
        last = name
        endings[ending] += 1
    if damages:
        raise damages[0]
    columns = [
        Column(
            ending,
            "one number" if ending == "cls" else "bytes",
            "i64" if ending == "cls" else "string",
            f"in {number:,}" if number != count else "",
        )
        for ending, number in endings.items()
    ]
    reader = reader_of("tar_files", source.name, [column for column in columns if not column.note])
    return Contents(source.name, "tar archive", "samples", count, source.size, columns, (reader,) if reader else ())


def _images(path: str) -> Contents:
    classes = classes_of(path)
    endings = Counter(os.path.splitext(name)[1] for names in classes.values() for name in names)
    total = sum(os.path.getsize(os.path.join(path, label, name)) for label, names in classes.items() for name in names)
    pattern = os.path.join(path, "*", f"*{next(iter(endings))}" if len(endings) == 1 else "*")
    columns = [Column(name, f"{len(names):,} image{'s' * (len(names) != 1)}") for name, names in classes.items()]
    reader = f"var images = image_files({json.dumps(pattern, ensure_ascii=False)})"
    return Contents(path, "folder of images", "images", endings.total(), total, columns, (reader,))


def _arrays(source: FileSource) -> Contents:
    from dfc.cli.data.array_contents import contents_of_arrays  # one kind of several

    return contents_of_arrays(source)


def _parquet(source: FileSource) -> Contents:
    from dfc.cli.data.column_contents import contents_of_parquet  # as above

    return contents_of_parquet(source)


def _arrow(source: FileSource) -> Contents:
    from dfc.cli.data.column_contents import contents_of_arrow  # as above

    return contents_of_arrow(source)


_KINDS: dict[str, Callable[[FileSource], Contents]] = {
    "npy": _arrays,
    "npz": _arrays,
    "csv": _table,
    "txt": _lines,
    "tar": _archive,
    "parquet": _parquet,
    "arrow": _arrow,
}
