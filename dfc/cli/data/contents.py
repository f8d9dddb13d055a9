"""What is in files of other kinds than records, and how a program reads them: rows, columns, a line of `.dfg`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dfc.cli.tables import size, table
from dfc.deferred.dataclasses import dataclass
from dfc.ir.names import is_identifier
from dfc_runtime.terminal import in_one_line


@dataclass(frozen=True, slots=True)
class Column:
    """A column, array or ending: what it holds in the words of its format, the type of a field that it can be read as
    ("" if it is none), and what else there is to know of it."""

    name: str
    type: str
    field: str = ""
    note: str = ""

    @property
    def is_field(self) -> bool:
        return bool(self.field) and is_identifier(self.name)


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in one file: so many rows of columns; and the declarations of readers that give them."""

    path: str
    kind: str
    what: str
    count: int
    size: int
    columns: Sequence[Column] = ()
    readers: Sequence[str] = ()

    def lines(self) -> list[str]:
        """For people."""
        what = self.what.removesuffix("s" * (self.count == 1))
        shown = [f"{in_one_line(self.path)}: {self.kind}, {self.count:,} {what}, {size(self.size)}"]
        rows = [(in_one_line(column.name), column.type, column.note) for column in self.columns]
        return shown + table(("column", "type", ""), rows) * bool(rows) + [f"  {reader}" for reader in self.readers]

    def data(self) -> dict[str, object]:
        """The same as JSON."""
        columns = [
            {"name": each.name, "type": each.type, "field": each.field, "note": each.note} for each in self.columns
        ]
        return {
            "path": self.path,
            "kind": self.kind,
            self.what: self.count,
            "bytes": self.size,
            "columns": columns,
            "readers": list(self.readers),
        }


def reader_of(function: str, path: str, columns: Sequence[Column]) -> str:
    """The declaration of a reader with those columns that can be fields; "" where there is none."""
    fields = [f"{column.name} = {column.field}" for column in columns if column.is_field]
    return f"var rows = {function}({json.dumps(path, ensure_ascii=False)}, ({', '.join(fields)}))" if fields else ""
