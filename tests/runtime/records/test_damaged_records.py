"""Whatever happens to a file of records: the damaged record is named, and no wrong one is handed out.

Each damage is done, the file is read, and what comes out is compared with what was written.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.errors import RecordError
from dfc_runtime.records.reading import RecordFiles
from tests.support.record_files import framed, some_records, write_records
from tests.support.sweeping import few

RECORDS = some_records(20, 1, 30)
OFFSETS = np.cumsum([0, *(len(record) + 16 for record in RECORDS)]).tolist()
WHOLE = b"".join(map(framed, RECORDS))


def first_error(path: Path) -> RecordError:
    """With which error reading all of a file ends."""
    with pytest.raises(RecordError) as raised, RecordFiles([path]) as files:
        files.read(np.arange(files.count))
    return raised.value


def survivors(path: Path) -> tuple[dict[int, bytes], list[RecordError]]:
    """The records that are handed out where damaged ones are skipped, by number, and the errors of those."""
    with RecordFiles([path], "skip") as files:
        batch = files.read(np.arange(files.count))
        numbers: list[int] = batch.numbers.tolist()
        records = {number: batch.frames.record(row) for row, number in enumerate(numbers)}
        return records, [*files.damages, *batch.skipped]


def write(path: Path, data: bytes) -> Path:
    """In place: a new file for each of a thousand damages would take longer than all else."""
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("part", few(range(7), 3))
def test_a_file_that_ends_at_any_byte(tmp_path: Path, part: int) -> None:
    """Every seventh, so that in each field of some record."""
    for size in range(part, len(WHOLE), 7):
        path = write(tmp_path / "a.rec", WHOLE[:size])
        number = next(n for n in range(20) if OFFSETS[n + 1] > size)
        if size == OFFSETS[number]:
            assert survivors(path) == (dict(enumerate(RECORDS[:number])), [])
            continue
        error = first_error(path)
        assert (error.code, error.file, error.record, error.offset) == ("E0914", str(path), number, OFFSETS[number])
        assert f"record {number} at byte {OFFSETS[number]}: " in error.message and "the file ends" in error.message
        records, errors = survivors(path)
        assert records == dict(enumerate(RECORDS[:number])) and [each.record for each in errors] == [number]


@pytest.mark.parametrize("number", [0, 1, 7, 18, 19])
@pytest.mark.parametrize("bits", [0xFF, 0x01, 0x80])
def test_any_byte_of_a_record_that_flips(tmp_path: Path, number: int, bits: int) -> None:
    offsets = range(OFFSETS[number], OFFSETS[number + 1])
    for offset in offsets if bits == 0xFF else few(offsets, 8):
        damaged = bytearray(WHOLE)
        damaged[offset] ^= bits
        path = write(tmp_path / "a.rec", damaged)
        error = first_error(path)
        assert (error.code, error.file, error.record, error.offset) == ("E0914", str(path), number, OFFSETS[number])
        assert f"record {number} at byte {OFFSETS[number]}: " in error.message and "checksum" in error.message
        records, errors = survivors(path)
        assert records == {n: record for n, record in enumerate(RECORDS) if n != number}
        assert {each.record for each in errors} == {number}


def test_damaged_records_keep_their_numbers_and_a_record_of_records_is_one(tmp_path: Path) -> None:
    records = [b"zero", b"one", b"two", WHOLE, b"four"]
    damaged = bytearray().join(map(framed, records))
    for offset in (0, 20 + 13, 20 + 19 + 19 + 2):  # the head of 0, the bytes of 1, the head of 3
        damaged[offset] ^= 2
    handed_out, errors = survivors(write(tmp_path / "a.rec", damaged))
    assert handed_out == {2: b"two", 4: b"four"}
    assert {each.record for each in errors} == {0, 1, 3}


def test_what_cannot_be_found_again_is_lost_and_said(tmp_path: Path) -> None:
    damaged = bytearray(WHOLE)
    damaged[OFFSETS[5] + 1] ^= 1
    damaged[OFFSETS[5] + 13] ^= 1
    records, errors = survivors(write(tmp_path / "a.rec", damaged))
    assert records == dict(enumerate(RECORDS[:5]))
    assert [each.record for each in errors] == [5]
    assert f"the {len(WHOLE) - OFFSETS[5]} bytes from there on cannot be read" in errors[0].message


def test_a_file_that_changes_while_it_is_open_gives_no_wrong_record(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.rec", RECORDS)
    with RecordFiles([path]) as files:
        files.read(np.array([3]))
        with open(path, "r+b") as file:  # the same size, and other records
            file.write(b"".join(map(framed, [b"X" * (len(record)) for record in RECORDS[:2]])))
            file.write(b"".join(map(framed, [RECORDS[3], RECORDS[2]])))
        with pytest.raises(RecordError, match="record 2 at byte"):
            files.read(np.array([2]))
        os.truncate(path, OFFSETS[4] + 3)
        with pytest.raises(RecordError, match="has changed since it was opened"):
            files.read(np.array([4]))


def test_a_file_that_another_one_replaces_between_two_reads_is_noticed(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.rec", RECORDS)
    with RecordFiles([path]) as files:
        write_records(path, RECORDS[:-1])
        with pytest.raises(RecordError, match="has changed since it was opened"):
            files.read(np.array([0]))
