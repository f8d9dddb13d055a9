"""Rows of tables are those that Python's csv module finds, cell by cell."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.errors import RecordError
from dfc_runtime.records import packing
from dfc_runtime.records.fields import Field, RecordLayout
from dfc_runtime.records.text import tables
from dfc_runtime.records.text.tables import TableFiles

LAYOUT = RecordLayout(
    (Field("name", "string"), Field("label", "i64"), Field("x", "f32", (2,)), Field("note", "string"))
)
TABLE = 'label,x,y,name,note\n3,1.5,-2,"a, ""b""",plain\r\n\r\n-4,.25,1e3,"two\nlines",\n5,nan,inf,,"""quoted"""\n'


def records(files: TableFiles, numbers: np.ndarray) -> list[tuple[object, ...]]:
    """Packed records taken apart by their definition."""
    frames, rows = files.read(numbers).frames, []
    for row in range(len(frames)):
        record, values = frames.record(row), []
        for field, offset in zip(files.layout.fields, files.layout.offsets, strict=True):
            part = record[offset : offset + field.size]
            if field.is_string:
                begin, length = np.frombuffer(part, "<i8").tolist()
                values.append(record[begin : begin + length])
            else:
                numbers_ = np.frombuffer(part, {"i64": "<i8", "f32": "<f4"}[field.dtype]).tolist()
                values.append(str(numbers_ if field.shape else numbers_[0]))
        rows.append(tuple(values))
    return rows


def by_python(text: str) -> list[tuple[object, ...]]:
    rows = []
    for row in csv.DictReader(io.StringIO(text, newline=""), strict=True):
        pair = [float(np.float32(row[name])) for name in ("x", "y")]
        rows.append((row["name"].encode(), str(int(row["label"])), str(pair), row["note"].encode()))
    return rows


@pytest.mark.parametrize("window", [1, 7, 1 << 22])
def test_rows_are_those_that_python_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(tables, "WINDOW", window)
    (tmp_path / "a.csv").write_text(TABLE, newline="")
    other = "note,name,label,x,y,\nn,m,1,2,3,4\n" + '"",",",-1,0,0,'
    (tmp_path / "b.csv").write_bytes(b"\xef\xbb\xbf" + other.encode())
    with TableFiles([tmp_path / "a.csv", tmp_path / "b.csv"], "fail", LAYOUT) as files:
        wanted = by_python(TABLE) + by_python(other)
        assert records(files, np.arange(5)) == wanted
        assert records(files, np.array([4, 0, 2, 1, 2])) == [wanted[number] for number in (4, 0, 2, 1, 2)]
        assert all(files.sizes(np.arange(5)) >= files.read(np.arange(5)).frames.lengths)


def test_without_a_head_fields_are_in_the_order_of_columns(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("n\t1\t2\t3\tm\n")
    with TableFiles([tmp_path / "a.tsv"], "fail", LAYOUT, head=False, separator="\t") as files:
        assert records(files, np.arange(1)) == [(b"n", "1", "[2.0, 3.0]", b"m")]


DAMAGED = {
    "it has 4 cells, and 5 are wanted": "1,2,3,n",
    "it has 1 cell, and 5 are wanted": "1",
    "it has 6 cells, and 5 are wanted": "1,2,3,n,m,",
    "the cell 1.5 is no i64, in the column label": "1.5,2,3,n,m",
    "an empty cell is no i64, in the column label": ",2,3,n,m",
    r"the cell abc is no f32, in the column x \+ 1": "1,2,abc,n,m",
    "the cell 1e39 is no f32, in the column x$": "1,1e39,3,n,m",
    'the cell a"b" is no text in quotes, in the column name; write the text in quotes, and a quote .*': '1,2,3,a"b",m',
    'the cell "a"b"" is no text in quotes, in the column name': '1,2,3,"a"b"",m',
    "it has 4 cells, and 5 are wanted  # open": '1,2,3,"n,m',
}


@pytest.mark.parametrize("reason", DAMAGED)
def test_a_damaged_row_is_an_error_with_its_place_or_left_out(tmp_path: Path, reason: str) -> None:
    path = tmp_path / "a.csv"
    text = f"label,x,y,name,note\n1,2,3,n,m\n{DAMAGED[reason]}"
    path.write_text(text if "open" in reason else f"{text}\n1,2,3,n,m\n")
    with TableFiles([path], "fail", LAYOUT) as files:
        assert len(files.read(np.array([0])).frames) == 1
        with pytest.raises(RecordError, match=f"a.csv: row 2 at byte 30: {reason.split('  #')[0]}") as caught:
            files.read(np.arange(files.count))
        assert (caught.value.code, caught.value.record, caught.value.offset) == ("E0914", 1, 30)
    with TableFiles([path], "skip", LAYOUT) as files:
        batch = files.read(np.arange(files.count))
        assert 1 not in batch.numbers and len(batch.skipped) == files.count - len(batch.numbers) >= 1


def test_no_more_of_wide_rows_is_read_ahead_than_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "BATCH_BYTES", 30)
    (tmp_path / "a.csv").write_text("x,note\n" + f"1,{'n' * 8}\n" * 5)
    with TableFiles([tmp_path / "a.csv"], "fail", RecordLayout((Field("x", "i64"),))) as files:
        assert [len(files.prefetch(np.arange(count)).lengths) for count in (1, 3, 5)] == [1, 3, 3]


FOREIGN = {
    "it is empty: the first line names the columns": b"",
    "it has no column x; did you mean x0.; its columns: name, label, x0, x1, note": b"name,label,x0,x1,note\n",
    "it has no column name; did you mean names.; its columns: label, names": b"label,names\n1,2\n",
    "x has 2 cells, and 1 column begins there": b"name,label,note,x\n",
    "its first line is no head": b"a,a\n",
    "it is compressed by gzip": b"\x1f\x8b\x08" + bytes(20),
}


@pytest.mark.parametrize("reason", FOREIGN)
def test_a_file_that_has_not_these_columns_is_refused(tmp_path: Path, reason: str) -> None:
    (tmp_path / "a.csv").write_bytes(FOREIGN[reason])
    with pytest.raises(RecordError, match=f"a.csv holds no rows of .*: {reason}") as caught:
        TableFiles([tmp_path / "a.csv"], "fail", LAYOUT)
    assert caught.value.code == "E0916"
