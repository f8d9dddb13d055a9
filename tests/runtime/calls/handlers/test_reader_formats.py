"""Readers of other files than those of records: the same order, parts, positions and errors, in each format."""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc_runtime.calls.handlers import readers
from dfc_runtime.calls.hosts import HostRequest
from dfc_runtime.errors import LimitError, RecordError, UnsupportedError
from dfc_runtime.module import Module
from dfc_runtime.records.stream import RecordStream
from dfc_target_cpu.entries.records import requests
from dfc_target_cpu.llvm.values import i64
from tests.support.columnar_files import some_table, write_parquet
from tests.support.pipelines import compiled, drained

LINES = """
var lines = line_files("*.txt"ARGUMENTS, longest = 64)
entry next() -> (bytes: u8[?], at: i64) {
  let line = lines.next()
  let [N] bytes: u8[N] = decode_raw(line, u8)
  return bytes, lines.position()
}
"""
TEXTS = [b"line %d " % number * (number % 5) for number in range(12)]


def program(folder: Path, text: str, arguments: str = "", **data: str | Path) -> Module:
    return dfc.loads(compiled(text.replace("ARGUMENTS", arguments)), threads=1, folder=folder, data=data)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The positions of which the run side was asked what comes there: native code knows the others."""
    positions: list[int] = []
    answer = readers.Reader.next

    def counted(reader: readers.Reader, request: HostRequest) -> None:
        positions.append(int(request.inputs[0][0]))
        answer(reader, request)

    monkeypatch.setattr(readers.Reader, "next", counted)
    return positions


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Three files with five, none and seven lines."""
    for name, part in (("a", TEXTS[:5]), ("b", []), ("c", TEXTS[5:])):
        (tmp_path / f"{name}.txt").write_bytes(b"".join(line + b"\r\n" for line in part))
    return tmp_path


@pytest.mark.parametrize("shuffled", ["", "files", "records"])
def test_lines_come_in_the_order_of_the_stream_without_the_run_side(
    texts: Path, asked: list[int], shuffled: str
) -> None:
    shuffle = f', passes = 3, shuffle = "{shuffled}", seed = 5' if shuffled else ", passes = 3"
    got = [bytes(each.bytes) for each in drained(program(texts, LINES, shuffle).next)]
    order = RecordStream((5, 0, 7), shuffled, 5).elements(np.arange(36)).tolist()
    assert got == [TEXTS[number] for number in order]
    assert asked == [0, 36]


def test_parts_share_the_lines_and_a_position_says_where_to_go_on(texts: Path) -> None:
    shares = [
        [bytes(each.bytes) for each in drained(program(texts, LINES, f", part = {part}, parts = 2").next)]
        for part in range(2)
    ]
    assert shares == [TEXTS[0::2], TEXTS[1::2]]
    model = program(texts, LINES)
    model.state["lines"] = np.array([7, 0])
    assert [bytes(each.bytes) for each in drained(model.next)] == TEXTS[7:]


def test_what_is_wrong_with_lines_names_the_line(texts: Path) -> None:
    other = texts / "other"
    other.write_bytes(b"a\n" + bytes(65))
    model = program(texts, LINES, lines=other)
    assert bytes(model.next().bytes) == b"a"
    with pytest.raises(LimitError, match=r"(?s)line 2 of .*other, at byte 2, has 65 .*line_files\(\.\., longest = 65"):
        model.next()
    other.write_bytes(b"")
    with pytest.raises(RecordError, match=r"the files of the reader lines hold no lines: .*other") as caught:
        program(texts, LINES, lines=other).next()
    assert caught.value.code == "E0916"
    model = program(texts, LINES)
    drained(model.next)
    with pytest.raises(dfc.EndOfData, match="the reader lines has nothing more: 1 pass of 12 lines"):
        model.next()


ROWS = """
var rows = csv_files("*.csv", (name = string, label = i64, x = f32[2])ARGUMENTS)
entry next() -> (name: u8[?], label: i64, x: f32[2], skipped: i64) {
  let row = rows.next()
  let [N] name: u8[N] = decode_raw(row.name, u8)
  return name, row.label, row.x, rows.skipped()
}
"""


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Two files with four rows each, of which one is damaged."""
    for number, bad in enumerate(("one", "2")):
        lines = [f"{row}.5,-1,{'bad' if row == 1 else row},name {number}{row}" for row in range(4)]
        text = "\n".join(["x,y,label,name", *lines]) + "\n"
        (tmp_path / f"{number}.csv").write_text(text.replace("bad", bad))
    return tmp_path


def test_fields_of_rows_are_taken_without_the_run_side(
    rows: Path, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (rows / "0.csv").unlink()
    for name in ("parse", "decode"):
        monkeypatch.delattr(readers, name)
    got = drained(program(rows, ROWS, ', shuffle = "records", passes = 2').next)
    order = RecordStream((4,), "records").elements(np.arange(8)).tolist()
    assert [bytes(each.name) for each in got] == [b"name 1%d" % row for row in order]
    assert [each.label for each in got] == [{1: 2}.get(row, row) for row in order]
    assert [each.x.tolist() for each in got] == [[row + 0.5, -1] for row in order]
    assert asked == [0, 8]


def test_what_code_leaves_to_the_run_side_is_the_same(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (rows / "0.csv").unlink()
    native = drained(program(rows, ROWS).next)
    monkeypatch.setattr(readers.RecordBlock, "fill", lambda block, data, **columns: block.empty())
    monkeypatch.setattr(requests.RecordCall, "_unpack", lambda call: i64(0))
    model = dfc.loads(dfc.compile(text=f"dfg 1\n{ROWS.replace('ARGUMENTS', '')}").to_bytes(), threads=1, folder=rows)
    for each, other in zip(native, drained(model.next), strict=True):
        assert (bytes(each.name), each.label, each.x.tolist()) == (bytes(other.name), other.label, other.x.tolist())


def test_a_damaged_row_is_an_error_or_left_out_and_counted(rows: Path) -> None:
    model = program(rows, ROWS)
    assert model.next().label == 0
    for _ in range(2):
        with pytest.raises(RecordError, match=r"0\.csv: row 2 at byte 32: the cell one is no i64, in the column label"):
            model.next()
    got = drained(program(rows, ROWS, ', passes = 3, on_error = "skip"').next)
    assert [bytes(each.name)[-2:] for each in got] == [b"00", b"02", b"03", b"10", b"11", b"12", b"13"] * 3
    assert got[-1].skipped == 3


def test_strings_that_have_no_room_say_how_much_they_need(rows: Path) -> None:
    with pytest.raises(
        LimitError, match=r"(?s)row 1 of .*0.csv, .* 16 bytes, .* room for 8.*csv_files\(\.\., longest = 16"
    ):
        program(rows, ROWS, ", longest = 8").next()


ARRAYS = """
var digits = array_files("*.npz", (image = u8[2, 3], label = i16, odd = bool)ARGUMENTS)
entry next() -> (image: u8[2, 3], label: i16, odd: bool) {
  let digit = digits.next()
  return digit.image, digit.label, digit.odd
}
"""


def test_rows_of_arrays_are_taken_without_the_run_side(tmp_path: Path, asked: list[int]) -> None:
    images = np.arange(48, dtype=np.uint8).reshape(8, 2, 3)
    labels, odd = np.arange(8, dtype=np.int16) - 4, np.arange(8) % 2 == 1
    for number, part in enumerate((slice(0, 5), slice(5, 8))):
        np.savez(tmp_path / f"{number}.npz", image=images[part], label=labels[part], odd=odd[part])
    got = drained(program(tmp_path, ARRAYS, ', passes = 2, shuffle = "records", seed = 3').next)
    order = RecordStream((5, 3), "records", 3).elements(np.arange(16))
    np.testing.assert_array_equal([each.image for each in got], images[order])
    assert [(each.label, each.odd) for each in got] == [(labels[row], odd[row]) for row in order]
    assert asked == [0, 16]


SAMPLES = """
var samples = tar_files("*.tar", (cls = i64, jpg = string)ARGUMENTS)
entry next() -> (label: i64, image: u8[?], skipped: i64) {
  let sample = samples.next()
  let [N] image: u8[N] = decode_raw(sample.jpg, u8)
  return sample.cls, image, samples.skipped()
}
"""


def test_samples_of_archives_are_taken_without_the_run_side(tmp_path: Path, asked: list[int]) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for number in range(6):
            for ending, data in (("cls", b"%d" % number), ("jpg", b"image" * number)):
                if (number, ending) != (2, "cls"):
                    member = tarfile.TarInfo(f"{number}.{ending}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    with pytest.raises(RecordError, match=r"sample 2 at byte \d+: it has no file that ends in \.cls"):
        drained(program(tmp_path, SAMPLES).next)
    asked.clear()
    got = drained(program(tmp_path, SAMPLES, ', on_error = "skip", passes = 2').next)
    assert [(each.label, bytes(each.image)) for each in got] == [(n, b"image" * n) for n in (0, 1, 3, 4, 5)] * 2
    assert (got[-1].skipped, asked) == (2, [0, 2, 8, 12])


def test_an_archive_that_is_cut_short_has_one_damaged_sample_more(tmp_path: Path) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for number in range(3):
            for ending, text in (("cls", b"7"), ("jpg", b"image")):
                member = tarfile.TarInfo(f"{number}.{ending}")
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text))
    for blocks, skipped in ((12, [0] * 6), (11, [1, 1, 2, 2]), (9, [1, 1, 2, 2])):
        (tmp_path / "a.tar").write_bytes(data.getvalue()[: 512 * blocks])
        got = drained(program(tmp_path, SAMPLES, ', on_error = "skip", passes = 2').next)
        assert [each.skipped for each in got] == skipped


def test_missing_rows_at_the_end_of_a_file_of_arrays_count_as_one(tmp_path: Path) -> None:
    text = """
var rows = array_files("*.npy", (x = i64), on_error = "skip")
entry next() -> i64 {
  let row = rows.next()
  return row.x
}
"""
    np.save(tmp_path / "a.npy", np.arange(9))
    np.save(tmp_path / "b.npy", np.arange(9, 12))
    path = tmp_path / "a.npy"
    path.write_bytes(path.read_bytes()[:-20])
    model = program(tmp_path, text)
    assert drained(model.next) == [0, 1, 2, 3, 4, 5, 9, 10, 11]
    assert model.state["rows"].tolist() == [10, 1]


def test_the_order_of_a_million_rows_is_less_than_ten_kilobytes_of_a_checkpoint(tmp_path: Path) -> None:
    text = """
var rows = array_files("*.npy", (x = i64), passes = 2, shuffle = "records", seed = 5)
queue read: i64 = fifo(capacity = 16)
runner ahead with copies = 2 {
  let row = rows.next()
  read.put(row.x)
}
entry next() -> i64 { return read.take() }
"""
    np.save(tmp_path / "a.npy", np.arange(10**6))
    model = program(tmp_path, text)
    first = [int(model.next()) for _ in range(5)]
    Module.save(model, tmp_path / "saved")
    assert sum(each.stat().st_size for each in (tmp_path / "saved").rglob("*") if each.is_file()) < 10_000
    model.init()
    Module.restore(model, tmp_path / "saved")
    order = RecordStream((10**6,), "records", 5).elements(np.arange(10))
    assert first + [int(model.next()) for _ in range(5)] == order.tolist()


COLUMNS = """
var rows = parquet_files("*.parquet", (box = f32[2, 2], name = string, label = i64)ARGUMENTS, longest = 64)
entry next() -> (box: f32[2, 2], name: u8[?], label: i64, skipped: i64) {
  let row = rows.next()
  let [N] name: u8[N] = decode_raw(row.name, u8)
  return row.box, name, row.label, rows.skipped()
}
"""


@pytest.fixture
def columns(tmp_path: Path) -> Path:
    """Files with five and seven rows, in groups of three."""
    for number, count, begin in ((0, 5, 0), (1, 7, 5)):
        write_parquet(tmp_path / f"{number}.parquet", some_table(count, begin), 3)
    return tmp_path


def test_rows_of_parquet_files_are_taken_without_the_run_side(columns: Path, asked: list[int]) -> None:
    table = some_table(12)
    for arguments, order in (
        (', passes = 2, shuffle = "records", seed = 3', RecordStream((5, 7), "records", 3).elements(np.arange(24))),
        (", part = 1, parts = 3", np.arange(1, 12, 3)),
    ):
        asked.clear()
        got = drained(program(columns, COLUMNS, arguments).next)
        wanted = table.take(order).to_pydict()
        wanted_pairs = [*zip(wanted["name"], wanted["label"], strict=True)]
        assert [each.box.tolist() for each in got] == wanted["box"]
        assert [(bytes(each.name).decode(), each.label) for each in got] == wanted_pairs
        assert len(asked) == 2
    model = program(columns, COLUMNS)
    model.state["rows"] = np.array([9, 0])
    assert [each.label for each in drained(model.next)] == [9, 10, 11]


def test_columns_with_nulls_and_long_strings_are_errors_or_left_out(columns: Path) -> None:
    names = ["a", "bc" * 33, None, "d"]
    write_parquet(columns / "0.parquet", some_table(4).set_column(3, "name", [names]), 4)
    model = program(columns, COLUMNS)
    assert model.next().label == 0
    with pytest.raises(LimitError, match=r"(?s)row 1 of .*0.parquet, .* has 66 .* parquet_files\(\.\., longest = 66"):
        model.next()
    model.state["rows"] = np.array([2, 0])
    with pytest.raises(RecordError, match=r"0\.parquet: row 2, in row group 0: the column name is null"):
        model.next()
    model = program(columns, COLUMNS, ', on_error = "skip"')
    model.state["rows"] = np.array([2, 0])
    got = model.next()
    assert (got.label, bytes(got.name), got.skipped) == (3, b"d", 1)


def test_without_the_library_a_program_says_what_to_install(columns: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UnsupportedError, match=r"(?s)library pyarrow, .*pip install 'dfc-runtime\[arrow\]'") as caught:
        program(columns, COLUMNS)
    assert caught.value.code == "E1001"
