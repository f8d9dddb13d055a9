"""Where records lie, against a loop over the frames of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfc_runtime.errors import FileError, RecordError
from dfc_runtime.formats.source import FileSource, MemorySource
from dfc_runtime.records import index as module
from dfc_runtime.records.index import RecordIndex, heads_in, next_frame, scan
from tests.support.record_files import framed, some_records, write_records
from tests.support.sweeping import examples


def index_of(path: Path) -> RecordIndex:
    source = FileSource(path)
    try:
        return scan(source)
    finally:
        source.close()


def ranges(records: list[bytes]) -> list[tuple[int, int]]:
    """Start and length of each record, as they were written."""
    frames, offset = [], 0
    for record in records:
        frames.append((offset + 12, len(record)))
        offset += len(record) + 16
    return frames


def test_the_records_of_a_file(tmp_path: Path) -> None:
    records = [*some_records(50), *[b"equal"] * 100, b"", *some_records(3, 500, 600), *[b""] * 40]
    index = index_of(write_records(tmp_path / "a.rec", records))
    assert list(zip(index.starts.tolist(), index.lengths.tolist(), strict=True)) == ranges(records)
    assert index.count == len(records) and index.damages == ()


@pytest.mark.parametrize("window", [12, 13, 64, 100])
def test_windows_end_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(module, "WINDOW", window)
    monkeypatch.setattr(module, "SHORT_WINDOW", 12)
    records = [*some_records(30), *[b"x" * 9] * 30, *some_records(5, 300, 400)]
    index = index_of(write_records(tmp_path / "a.rec", records))
    assert list(zip(index.starts.tolist(), index.lengths.tolist(), strict=True)) == ranges(records)


@settings(max_examples=examples(40))
@given(st.lists(st.integers(0, 3), max_size=120))
def test_runs_of_equal_lengths_are_found_whatever_interrupts_them(lengths: list[int]) -> None:
    data = b"".join(framed(bytes(length)) for length in lengths)
    heads, behind = heads_in(np.frombuffer(data, np.uint8))
    assert heads.tolist() == [start - 12 for start, _ in ranges([bytes(length) for length in lengths])]
    assert behind == len(data)


def test_an_empty_file_has_no_records(tmp_path: Path) -> None:
    assert index_of(write_records(tmp_path / "a.rec", [])).count == 0


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No such file"):
        index_of(tmp_path / "missing.rec")
    with pytest.raises(FileError, match="not a regular file"):
        index_of(tmp_path)


def test_a_file_of_something_else_holds_no_records(tmp_path: Path) -> None:
    (tmp_path / "a\nb.csv").write_text("x,y\n1,2\n3,4\n5,6\n")
    with pytest.raises(RecordError, match=r"a\\nb.csv holds no records: its first 12 bytes are no head") as raised:
        index_of(tmp_path / "a\nb.csv")
    assert raised.value.code == "E0916" and "\n" not in raised.value.message


def test_a_length_beyond_all_files_is_a_record_that_is_cut_short(tmp_path: Path) -> None:
    head = framed(b"")[:12]
    huge = (2**64 - 1).to_bytes(8, "little")
    (tmp_path / "a.rec").write_bytes(framed(b"one") + huge + module.masked_checksum(huge).to_bytes(4, "little") + head)
    with pytest.raises(RecordError, match="record 1 at byte 19: it has 18446744073709551615 bytes and a checksum"):
        index_of(tmp_path / "a.rec")


# ------------------------------------------------------- behind a damaged head --


def memory(*pieces: bytes) -> MemorySource:
    return MemorySource(b"".join(pieces))


def hit(record: bytes, at: int) -> bytes:
    """A frame with one byte changed."""
    data = bytearray(framed(record))
    data[at] ^= 0x10
    return bytes(data)


@pytest.mark.parametrize("at", range(12))
def test_the_frame_behind_a_damaged_head_is_found(at: int) -> None:
    assert next_frame(memory(hit(b"damaged", at), framed(b"next")), 0) == 16 + 7
    assert next_frame(memory(hit(b"last", at)), 0) == 16 + 4
    assert next_frame(memory(hit(b"", at), framed(b"")), 0) == 16


def test_records_inside_of_a_record_are_not_taken_for_more_of_them() -> None:
    inner = b"".join(map(framed, some_records(5)))
    outer = b"head" + inner + b"tail"
    assert next_frame(memory(hit(outer, 3), framed(b"next")), 0) == 16 + len(outer)
    broken = bytearray(hit(outer, 3))
    broken[14] ^= 1  # nothing shows any more where this record ends
    assert next_frame(memory(bytes(broken), framed(b"next")), 0) == -1


def test_a_window_may_end_within_the_head_that_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for window in range(12, 40):
        monkeypatch.setattr(module, "WINDOW", window)
        assert next_frame(memory(hit(b"a longer record of bytes", 1), framed(b"n")), 0) == 16 + 24


def test_many_heads_cost_a_bounded_number_of_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(module, "_is_record", lambda source, offset, end: asked.append(end) or False)
    assert next_frame(memory(hit(framed(b"") * 500, 2)), 0) == -1
    assert len(asked) == module.MOST_CANDIDATES
