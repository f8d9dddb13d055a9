"""Examples of tables in CSV, with a head: one feature a column, one example a row.

A column is of whole numbers if all its cells are, else of floats if all are numbers, else of texts; an empty cell gives
a feature without values. That is found out by reading the files once before, so that no more than a row is in memory.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence

import numpy as np

from dfc.cli.data.examples import Example, Examples, unusable
from dfc.deferred.dataclasses import dataclass
from dfc_runtime.records.example import Kind, Values

_WHOLE = re.compile(r"\s*[+-]?\d{1,19}\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf|nan)\s*", re.ASCII | re.IGNORECASE)


def from_tables(paths: Sequence[str]) -> Examples:
    """Of `.csv` files with the same head, one behind the other."""
    columns = columns_of(paths)
    for path in paths:
        for _, row in _rows(path, len(columns.names)):
            yield _example(columns.names, columns.kinds, row)


def columns_of(paths: Sequence[str]) -> Columns:
    """What is in the columns of tables with the same head, all of which are read."""
    names: list[str] | None = None
    kinds: list[int] = []
    empty: list[int] = []
    count = 0
    for path in paths:
        head = _head(path)
        if names is not None and head != names:
            raise unusable(path, f"its head is {', '.join(head)}, and that of the tables before it {', '.join(names)}")
        names = head
        kinds, empty = kinds or [_EMPTY] * len(head), empty or [0] * len(head)
        for _, row in _rows(path, len(head)):
            here = [_kind(cell) for cell in row]
            kinds = [*map(max, kinds, here)]
            empty = [number + (not kind) for number, kind in zip(empty, here, strict=True)]
            count += 1
    return Columns(names or [], kinds, empty, count)


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of columns, what is in all of their cells, how many cells of each are empty, and how many rows there
    are."""

    names: Sequence[str]
    kinds: Sequence[int]
    empty: Sequence[int]
    count: int


_EMPTY, _INTEGER, _FLOAT, _TEXT = range(4)
KINDS: tuple[Kind, ...] = ("", "int64", "float", "bytes")


def _kind(cell: str) -> int:
    if not cell.strip():
        return _EMPTY
    if _WHOLE.fullmatch(cell) and -(1 << 63) <= int(cell) < 1 << 63:
        return _INTEGER
    return _FLOAT if _NUMBER.fullmatch(cell) else _TEXT


def _example(names: Sequence[str], kinds: Sequence[int], row: Sequence[str]) -> Example:
    example: dict[str, Values] = {}
    for name, kind, cell in zip(names, kinds, row, strict=True):
        if not cell.strip():
            example[name] = []
        elif kind == _INTEGER:
            example[name] = np.array([int(cell)], np.int64)
        elif kind == _FLOAT:
            with np.errstate(over="ignore"):
                example[name] = np.array([float(cell)]).astype(np.float32)
        else:
            example[name] = [cell.encode()]
    return example


def _head(path: str) -> list[str]:
    for line, head in _rows(path, None):
        names = [name.strip() for name in head]
        if not all(names) or len(set(names)) < len(names):
            raise unusable(path, f"line {line}: the head names each column, and all of them differently")
        return names
    raise unusable(path, "it is empty: the first line names the columns")


def _rows(path: str, width: int | None) -> Iterator[tuple[int, list[str]]]:
    """The lines below the head, or the head itself where no width is given; empty lines are none."""
    line = 0
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            is_head = width is not None
            for row in reader:
                line = reader.line_num
                if not row:
                    continue
                if is_head:
                    is_head = False
                    continue
                if width is not None and len(row) != width:
                    raise unusable(path, f"line {line}: {len(row)} cells, and the head has {width}")
                yield line, row
    except UnicodeDecodeError as problem:
        raise unusable(path, f"behind line {line}: it is no UTF-8: {problem.reason}") from None
    except csv.Error as problem:
        raise unusable(path, f"line {line + 1}: {problem}") from None
