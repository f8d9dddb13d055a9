"""Parquet files: what is not asked for is not read, and what is damaged is said or left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from dfc_runtime.errors import RecordError
from dfc_runtime.records.columnar.parquet import ParquetFiles
from tests.support.columnar_files import LAYOUT, record, some_table, write_parquet


def spoil(path: Path, column: int, group: int) -> None:
    """Turns a byte in the pages of a column of a row group."""
    piece = parquet.ParquetFile(path).metadata.row_group(group).column(column)
    data = bytearray(path.read_bytes())
    data[piece.data_page_offset + piece.total_compressed_size // 2] ^= 1
    path.write_bytes(data)


def test_columns_that_are_not_wanted_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, some_table(12), 6)
    assert parquet.ParquetFile(path).metadata.schema.column(1).path == "unused.list.element"
    spoil(path, 1, 0)
    with ParquetFiles([path], "fail", LAYOUT) as files:
        frames = files.read(np.arange(12)).frames
        assert [frames.record(row) for row in range(12)] == [record(row) for row in range(12)]


def test_a_damaged_row_group_is_damage_of_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, some_table(12), 4)
    spoil(path, 0, 1)
    with ParquetFiles([path], "skip", LAYOUT) as files:
        batch = files.read(np.arange(12))
        assert batch.numbers.tolist() == [0, 1, 2, 3, 8, 9, 10, 11]
        assert [error.record for error in batch.skipped] == [4, 5, 6, 7]
        assert files.located(5).endswith("a.parquet, in row group 1")
    with (
        ParquetFiles([path], "fail", LAYOUT) as files,
        pytest.raises(RecordError, match=r"a\.parquet: row 4, in row group 1: the row group cannot be read: .*CRC"),
    ):
        files.read(np.arange(12))


def test_a_file_that_ends_too_early_or_has_a_damaged_footer_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, some_table(12), 4)
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    spoiled = data[:footer] + bytes(20) + data[footer + 20 :]
    for other, reason in (
        (data[:-3], "the file ends too early"),
        (data[:9], "ends too early"),
        (spoiled, "footer can"),
    ):
        path.write_bytes(other)
        with pytest.raises(RecordError, match=rf"a\.parquet: .*{reason}") as caught:
            ParquetFiles([path], "fail", LAYOUT)
        assert caught.value.code == "E0914"
        with ParquetFiles([path], "skip", LAYOUT) as files:
            assert (files.count, files.turns, len(files.damages)) == (0, (1,), 1)
