"""The formats that readers of programs know, by the names that bundles have for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dfc_runtime.dataclasses import dataclass

if TYPE_CHECKING:
    from dfc_runtime.records.files import IndexedFiles
    from dfc_runtime.records.framing import OnError

RECORDS, LINES = "records", "lines"


@dataclass(frozen=True, slots=True)
class Format:
    """The function that declares a reader of such files, what several of their records are called, and how files are
    opened."""

    function: str
    plural: str
    opened: Callable[[Sequence[str], OnError], IndexedFiles]


def _records(paths: Sequence[str], on_error: OnError) -> IndexedFiles:
    from dfc_runtime.records.reading import RecordFiles  # a program reads one format

    return RecordFiles(paths, on_error)


def _lines(paths: Sequence[str], on_error: OnError) -> IndexedFiles:
    from dfc_runtime.records.lines import LineFiles  # as above

    return LineFiles(paths, on_error)


FORMATS: Mapping[str, Format] = {
    RECORDS: Format("record_files", "records", _records),
    LINES: Format("line_files", "lines", _lines),
}
