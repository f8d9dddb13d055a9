"""Records read at random are those that were written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.errors import LimitError
from dfc_runtime.records import files as record_files
from dfc_runtime.records.reading import RecordFiles
from tests.support.record_files import some_records, write_records

RECORDS = some_records(60)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three files of 25, 0 and 35 records."""
    parts = (RECORDS[:25], [], RECORDS[25:])
    return [write_records(tmp_path / f"{n}.rec", part) for n, part in enumerate(parts)]


def test_records_are_numbered_through_all_files(files: list[Path]) -> None:
    numbers = np.array([59, 0, 24, 25, 26, 25, 3, 4, 5])
    with RecordFiles(files) as opened:
        assert opened.count == 60
        batch = opened.read(numbers)
        assert [batch.frames.record(row) for row in range(len(numbers))] == [RECORDS[n] for n in numbers]
        assert len(opened.read(np.zeros(0, np.int64)).frames) == 0


def test_a_record_has_a_file_an_offset_and_a_length(files: list[Path]) -> None:
    with RecordFiles(files) as opened:
        of, offsets, lengths = opened.locate(np.array([24, 25]))
        assert of.tolist() == [0, 2]
        for file, offset, length, number in zip(of, offsets, lengths, (24, 25), strict=True):
            assert files[file].read_bytes()[offset : offset + length] == RECORDS[number]


@pytest.mark.parametrize("number", [-1, 60])
def test_there_is_no_such_record(files: list[Path], number: int) -> None:
    with RecordFiles(files) as opened, pytest.raises(IndexError):
        opened.read(np.array([number]))


@pytest.mark.parametrize("size", [1, 100, 10_000])
def test_batches_are_as_large_as_they_may_be(files: list[Path], size: int) -> None:
    numbers = np.random.default_rng(0).permutation(60)
    with RecordFiles(files) as opened:
        batches = list(opened.batches(numbers, size))
    read = [batch.frames.record(row) for batch in batches for row in range(len(batch.frames))]
    assert read == [RECORDS[n] for n in numbers]
    sizes = [int((batch.frames.lengths + 16).sum()) for batch in batches]
    assert all(each <= size or len(batch.frames) == 1 for each, batch in zip(sizes, batches, strict=True))
    following = zip(sizes, batches[1:], strict=False)
    assert all(each + int(batch.frames.lengths[0]) + 16 > size for each, batch in following)


def test_few_files_are_open_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_files, "MOST_OPEN", 2)
    paths = [write_records(tmp_path / f"{n}.rec", [b"%d" % n]) for n in range(6)]
    with RecordFiles(paths) as opened:
        for number in (0, 5, 3, 3, 1, 0, 4):
            assert opened.read(np.array([number])).frames.record(0) == b"%d" % number
            assert len(opened._open) <= 2


def test_memory_is_compared_with_the_limit_before_it_is_taken(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DFC_MEMORY_LIMIT", "1000")
    with RecordFiles(files) as opened:
        opened.read(np.arange(5))
        with pytest.raises(LimitError, match="reading 60 records"):
            opened.read(np.arange(60))
