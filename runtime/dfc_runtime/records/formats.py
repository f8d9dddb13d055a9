"""The formats that readers of programs know, by the names that bundles have for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.records.fields import RecordLayout, field_of

if TYPE_CHECKING:
    from dfc_runtime.records.files import IndexedFiles
    from dfc_runtime.records.framing import OnError

RECORDS, LINES, TABLES, ARRAYS, ARCHIVES, FOLDERS = "records", "lines", "tables", "arrays", "archives", "folders"
PARQUET, ARROW = "parquet", "arrow"
Stated = Mapping[str, object]
"""What a bundle says of a reader: `field_names` and `field_types`, and how tables are written, among others."""


@dataclass(frozen=True, slots=True)
class Format:
    """The function that declares a reader of such files, what several of their records are called, a pattern that
    files in a folder may have, how they are opened, whether records are packed fields, which the reader declares, and
    whether the library pyarrow reads them."""

    function: str
    plural: str
    pattern: str
    opened: Callable[[Sequence[str], OnError, Stated], IndexedFiles]
    is_packed: bool = False
    needs_arrow: bool = False


def _records(paths: Sequence[str], on_error: OnError, stated: Stated) -> IndexedFiles:
    from dfc_runtime.records.reading import RecordFiles  # a program reads one format

    del stated
    return RecordFiles(paths, on_error)


def _lines(paths: Sequence[str], on_error: OnError, stated: Stated) -> IndexedFiles:
    from dfc_runtime.records.text.lines import LineFiles  # as above

    del stated
    return LineFiles(paths, on_error)


def _tables(paths: Sequence[str], on_error: OnError, stated: Stated) -> IndexedFiles:
    from dfc_runtime.records.text.tables import TableFiles  # as above

    layout, separator = layout_of(stated), str(stated["separator"])
    return TableFiles(paths, on_error, layout, head=stated["head"] is True, separator=separator)


def _arrays(paths: Sequence[str], on_error: OnError, stated: Stated) -> IndexedFiles:
    from dfc_runtime.records.arrays import ArrayFiles  # as above

    return ArrayFiles(paths, on_error, layout_of(stated))


def _archives(paths: Sequence[str], on_error: OnError, stated: Stated) -> IndexedFiles:
    from dfc_runtime.records.archives import SampleFiles  # as above

    return SampleFiles(paths, on_error, layout_of(stated))


def _folders(paths: Sequence[str], on_error: OnError, stated: Stated) -> IndexedFiles:
    from dfc_runtime.records.folders import ImageFiles  # as above

    return ImageFiles(paths, on_error, layout_of(stated))


def _parquet(paths: Sequence[str], on_error: OnError, stated: Stated) -> IndexedFiles:
    from dfc_runtime.records.columnar.parquet import ParquetFiles  # as above

    return ParquetFiles(paths, on_error, layout_of(stated))


def _arrow(paths: Sequence[str], on_error: OnError, stated: Stated) -> IndexedFiles:
    from dfc_runtime.records.columnar.ipc import ArrowFiles  # as above

    return ArrowFiles(paths, on_error, layout_of(stated))


FORMATS: Mapping[str, Format] = {
    RECORDS: Format("record_files", "records", "*.rec", _records),
    LINES: Format("line_files", "lines", "*.txt", _lines),
    TABLES: Format("csv_files", "rows", "*.csv", _tables, is_packed=True),
    ARRAYS: Format("array_files", "rows", "*.npz", _arrays, is_packed=True),
    ARCHIVES: Format("tar_files", "samples", "*.tar", _archives, is_packed=True),
    FOLDERS: Format("image_files", "images", "*/*.jpg", _folders, is_packed=True),
    PARQUET: Format("parquet_files", "rows", "*.parquet", _parquet, is_packed=True, needs_arrow=True),
    ARROW: Format("arrow_files", "rows", "*.arrow", _arrow, is_packed=True, needs_arrow=True),
}


def layout_of(stated: Stated) -> RecordLayout:
    """Of the fields that a reader declares; `ValueError` if they are none."""
    names, types = _texts(stated.get("field_names")), _texts(stated.get("field_types"))
    if not names:
        raise ValueError("no fields")
    return RecordLayout(tuple(field_of(name, type_) for name, type_ in zip(names, types, strict=True)))


def _texts(value: object) -> list[str]:
    return list(map(str, cast("tuple[object, ...]", value))) if isinstance(value, tuple) else []
