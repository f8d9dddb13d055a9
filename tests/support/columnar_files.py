"""A table with columns of many kinds, files of it, and what its rows are as packed records."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import ipc, parquet

from dfc_runtime.records.fields import Field, RecordLayout

LAYOUT = RecordLayout(
    (Field("box", "f32", (2, 2)), Field("name", "string"), Field("label", "i64"), Field("x", "string"))
)


def some_table(count: int, begin: int = 0) -> pa.Table:
    """So many rows; columns stand in another order than fields, and one of them is not wanted."""
    numbers = list(range(begin, begin + count))
    boxes = pa.array([[[n, n + 0.25], [n + 0.5, -n]] for n in numbers], pa.list_(pa.list_(pa.float32(), 2), 2))
    names = pa.array([f"name {n % 3}" for n in numbers], pa.string()).dictionary_encode()
    unused = pa.array([[n] * (n % 4) for n in numbers], pa.list_(pa.int16()))
    labels, x = pa.array(numbers, pa.int64()), pa.array(["x" * (n % 5) for n in numbers], pa.string())
    return pa.table({"label": labels, "unused": unused, "x": x, "name": names, "box": boxes})


def record(number: int) -> bytes:
    """A row of it by the definition of packed records."""
    name, x = b"name %d" % (number % 3), b"x" * (number % 5)
    box = np.array([number, number + 0.25, number + 0.5, -number], np.float32).tobytes()
    ranges = struct.pack("<qqqqq", LAYOUT.size, len(name), number, LAYOUT.size + len(name), len(x))
    return box + ranges + name + x


def write_parquet(path: Path, table: pa.Table, rows: int) -> None:
    parquet.write_table(table, path, row_group_size=rows, write_page_checksum=True)


def write_file(path: Path, table: pa.Table, rows: int) -> None:
    with ipc.new_file(path, table.schema) as file:
        file.write_table(table, max_chunksize=rows)


def write_stream(path: Path, table: pa.Table, rows: int) -> None:
    with ipc.new_stream(path, table.schema) as file:
        file.write_table(table, max_chunksize=rows)


Writer = Callable[[Path, pa.Table, int], None]
