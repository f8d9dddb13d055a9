"""Readers in programs: which records come, what is in them, and what is said of those that are not right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dfc
from dfc_runtime.calls.handlers import readers
from dfc_runtime.calls.hosts import HostRequest
from dfc_runtime.errors import FeedError, FileError, LimitError, RecordError, RunError
from dfc_runtime.module import Module
from dfc_runtime.records import files as record_files
from dfc_runtime.records.example import encode_example
from dfc_runtime.records.stream import RecordStream
from tests.support.pipelines import compiled, drained
from tests.support.record_files import framed, some_records, write_records

COUNTS = (5, 0, 7, 3)
RECORDS = some_records(sum(COUNTS), longest=30)
READ = """
var files = record_files("part-*.rec"ARGUMENTS, longest = 64)
entry next() -> (bytes: u8[?], at: i64, skipped: i64) {
  let record = files.next()
  let [N] bytes: u8[N] = decode_raw(record, u8)
  return bytes, files.position(), files.skipped()
}
entry again() { initialize(program) }
"""
PIPELINE = """
var files = record_files("part-*.rec", passes = 2, longest = 64)
queue found: i64 = fifo(capacity = 4)
var odd: i64 = 0
runner read with copies = COPIES {
  let record = files.next()
  let [N] bytes: u8[N] = decode_raw(record, u8)
  if N % 2 == 0 { found.put(sum(bytes as i64)) } else { odd += 1 }
}
entry next() -> i64 { return found.take() }
entry odds() -> i64 { return odd }
"""
EXAMPLE = """
var files = record_files("part-*.rec", longest = 256)
entry next() -> (image: u8[?], label: i64, weights: f32[2, 2], half: i16[?]) {
  let record = files.next()
  let fields = parse_example(record, (image = string, label = i64, weights = f32[2, 2]))
  let [N] image: u8[N] = decode_raw(fields.image, u8)
  let [M] half: i16[M] = decode_raw(fields.image, i16)
  return image, fields.label, fields.weights, half
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four files of fifteen records, one of them without any."""
    begin = 0
    for number, count in enumerate(COUNTS):
        write_records(tmp_path / f"part-{number}.rec", RECORDS[begin : begin + count])
        begin += count
    return tmp_path


def program(folder: Path, text: str, arguments: str = "", **data: str | Path) -> Module:
    return dfc.loads(compiled(text.replace("ARGUMENTS", arguments)), threads=1, folder=folder, data=data)


def read(model: Module) -> list[bytes]:
    """All records, to the end of the data."""
    return [bytes(each.bytes) for each in drained(model.next)]


def numbered(records: list[bytes]) -> list[int]:
    return [RECORDS.index(each) for each in records]


def test_passes_go_through_the_files_in_the_order_of_their_names(folder: Path) -> None:
    model = program(folder, READ, ", passes = 3")
    assert read(model) == RECORDS * 3
    with pytest.raises(dfc.EndOfData, match="the reader files has nothing more: 3 passes of 15 records"):
        model.next()
    model.again()
    assert read(model) == RECORDS * 3


@pytest.mark.parametrize(("shuffle", "order"), [("true", "files"), ('"files"', "files"), ('"records"', "records")])
def test_each_pass_is_shuffled_anew_as_its_seed_says(folder: Path, shuffle: str, order: str) -> None:
    got = numbered(read(program(folder, READ, f", passes = 3, shuffle = {shuffle}, seed = 5")))
    assert got == RecordStream(COUNTS, order, 5).elements(np.arange(45)).tolist()
    assert [sorted(got[begin : begin + 15]) for begin in (0, 15, 30)] == [list(range(15))] * 3
    assert got[:15] != got[15:30]


def test_parts_have_every_record_once_in_each_pass(folder: Path) -> None:
    shares = [
        numbered(read(program(folder, READ, f', passes = 2, shuffle = "records", part = {part}, parts = 2')))
        for part in range(2)
    ]
    whole = numbered(read(program(folder, READ, ', passes = 2, shuffle = "records"')))
    assert shares == [whole[part::2] for part in range(2)]


def test_records_come_from_their_own_files_if_more_are_read_than_are_open_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_files, "MOST_OPEN", 2)
    for file in range(6):  # alike, so that each would be taken for a record of any other
        write_records(tmp_path / f"part-{file}.rec", [bytes([file, record]) for record in range(4)])
    got = [tuple(each) for each in read(program(tmp_path, READ, ', passes = 2, shuffle = "records"'))]
    order = RecordStream((4,) * 6, "records").elements(np.arange(48)).tolist()
    assert got == [divmod(number, 4) for number in order]


def test_a_reader_goes_on_where_its_position_says(folder: Path) -> None:
    model = program(folder, READ, ', passes = 2, shuffle = "records"')
    whole = read(model)
    model.state["files"] = np.array([21, 0])
    assert read(model) == whole[21:]


@pytest.mark.parametrize("copies", [1, 3])
def test_a_runner_reads_to_the_end_which_closes_its_queue(folder: Path, copies: int) -> None:
    model = program(folder, PIPELINE.replace("COPIES", str(copies)))
    even = [sum(each) for each in RECORDS if len(each) % 2 == 0]
    assert drained(model.next) == even * 2
    assert model.odds() == 2 * (len(RECORDS) - len(even))


def damage(folder: Path, file: int, record: int) -> int:
    """Changes a byte of a record; where its frame begins."""
    path = folder / f"part-{file}.rec"
    records = RECORDS[sum(COUNTS[:file]) :]
    at = sum(len(framed(each)) for each in records[:record])
    data = bytearray(path.read_bytes())
    data[at + 12] ^= 4
    path.write_bytes(data)
    return at


def test_a_damaged_record_is_an_error_at_its_turn_that_says_where(folder: Path) -> None:
    at = damage(folder, 2, 1)
    model = program(folder, READ)
    for record in RECORDS[:6]:
        assert bytes(model.next().bytes) == record
    for _ in range(2):
        with pytest.raises(RecordError, match=f"part-2.rec: record 1 at byte {at}: its .* are damaged") as caught:
            model.next()
        assert (caught.value.code, caught.value.record, caught.value.offset) == ("E0914", 1, at)
    assert model.state["files"].tolist() == [6, 0]


def test_damaged_records_are_left_out_and_counted(folder: Path) -> None:
    damage(folder, 0, 4), damage(folder, 2, 0), damage(folder, 3, 2)
    model = program(folder, READ, ', passes = 3, on_error = "skip"')
    got = drained(model.next)
    kept = [each for number, each in enumerate(RECORDS) if number not in (4, 5, 14)]
    assert [bytes(each.bytes) for each in got] == kept * 3
    assert [(each.at, each.skipped) for each in got[3:5]] == [(4, 0), (7, 2)]
    assert got[-1].skipped == 8  # the last one is behind it


def test_the_lost_end_of_a_file_is_counted_in_each_pass(folder: Path) -> None:
    for number in (0, 3):
        path = folder / f"part-{number}.rec"
        path.write_bytes(path.read_bytes()[:-1])
    got = drained(program(folder, READ, ', passes = 3, on_error = "skip"').next)
    kept = [each for number, each in enumerate(RECORDS) if number not in (4, 14)]
    assert [bytes(each.bytes) for each in got] == kept * 3
    assert [(each.at, each.skipped) for each in (got[0], got[4], got[-1])] == [(2, 1), (6, 1), (45, 6)]
    shares = [
        drained(program(folder, READ, f', on_error = "skip", shuffle = "records", part = {part}, parts = 2').next)
        for part in range(2)
    ]
    assert sorted(bytes(each.bytes) for each in (*shares[0], *shares[1])) == sorted(kept)


def test_what_fails_in_a_runner_reaches_whoever_takes(folder: Path) -> None:
    damage(folder, 0, 2)
    model = program(folder, PIPELINE.replace("COPIES", "3"))
    with pytest.raises(RunError, match=r"the runner `read` has failed in iteration 2: .*part-0.rec: record 2 at byte"):
        drained(model.next)


def test_a_record_that_has_no_room_says_how_much_it_needs(folder: Path) -> None:
    write_records(folder / "part-0.rec", [b"a", bytes(65)])
    model = program(folder, READ)
    assert bytes(model.next().bytes) == b"a"
    with pytest.raises(LimitError, match=r"(?s)record 1 of .*part-0.rec, at byte 17, has 65 bytes, .*longest = 65\)"):
        model.next()


def test_files_are_named_when_the_program_is_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "other").mkdir()
    write_records(folder / "other" / "part-0.rec", [b"other"])
    monkeypatch.chdir(folder)
    assert read(program(folder, READ, files="other/*.rec")) == [b"other"]
    (folder / "other" / "program.bundle").write_bytes(compiled(READ.replace("ARGUMENTS", "")))
    assert read(dfc.load("other/program.bundle", threads=1)) == [b"other"]
    with pytest.raises(FeedError, match=r"no reader file; did you mean files\?; its readers: files"):
        program(folder, READ, file="other/*.rec")


@pytest.mark.parametrize("data", ["a.rec", {"files": None}, {"files": ["a.rec"]}, {3: "a.rec"}])
def test_data_that_names_no_files_is_refused(folder: Path, data: Any) -> None:
    with pytest.raises(FeedError, match=r"(is no mapping|names no files)\n  write data=\{.files.: ") as caught:
        dfc.loads(compiled(READ.replace("ARGUMENTS", "")), threads=1, folder=folder, data=data)
    assert caught.value.code == "E0901"


def test_files_that_are_not_there_or_hold_nothing_are_one_line(tmp_path: Path) -> None:
    model = program(tmp_path, READ)
    with pytest.raises(FileError, match=r"no file is called part-\*.rec in .*: the reader files has none"):
        model.next()
    (tmp_path / "part-0.rec").write_bytes(b"")
    with pytest.raises(RecordError, match=r"the files of the reader files hold no records: .*part-\*.rec"):
        model.next()
    (tmp_path / "part-0.rec").write_bytes(b"\x1f\x8b" + bytes(40))
    with pytest.raises(RecordError, match=r"part-0\.rec") as caught:
        model.next()
    assert caught.value.code == "E0916"


def test_a_name_with_brackets_is_that_of_a_file_if_there_is_one(tmp_path: Path) -> None:
    write_records(tmp_path / "part-[1].rec", RECORDS[:2])
    write_records(tmp_path / "part-1.rec", RECORDS[2:5])
    assert read(program(tmp_path, READ, files=tmp_path / "part-[1].rec")) == RECORDS[:2]
    (tmp_path / "part-[1].rec").unlink()
    assert read(program(tmp_path, READ, files=tmp_path / "part-[1].rec")) == RECORDS[2:5]


def test_a_folder_is_no_file_of_records(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sub").mkdir()
    monkeypatch.chdir(folder)
    for pattern, place, remedy in (("sub", "sub", "sub/*.rec"), ("", str(folder), "*.rec")):
        with pytest.raises(FileError) as caught:
            program(folder, READ, files=pattern).next()
        assert f"{place} is a folder, and the reader files wants files" in str(caught.value)
        assert f"--data 'files={remedy}'" in str(caught.value)


def examples() -> Iterator[tuple[bytes, int, np.ndarray]]:
    for number in range(4):
        weights = np.linspace(number, -2.5, 4, dtype=np.float32).reshape(2, 2)
        yield bytes(range(10 * number, 12 * number)), (-1) ** number << 40 + number, weights


def test_features_of_examples_are_strings_and_numbers(tmp_path: Path) -> None:
    made = list(examples())
    packed = [
        encode_example({"image": image, "label": np.array([label]), "weights": weights, "more": b"x"})
        for image, label, weights in made
    ]
    write_records(tmp_path / "part-0.rec", packed)
    for (image, label, weights), got in zip(made, drained(program(tmp_path, EXAMPLE).next), strict=True):
        assert (bytes(got.image), got.label) == (image, label)
        np.testing.assert_array_equal(got.weights, weights)
        np.testing.assert_array_equal(got.half, np.frombuffer(image, "<i2"))


GOOD = {"image": b"1234", "label": np.array([1]), "weights": np.zeros(4, np.float32)}
WRONG = {
    "is no example: at its byte 1": b"\xff",
    "is no example: at its byte 6: a name is not UTF-8": b"\x0a\x06\x0a\x04\x0a\x02\xff\xfe",  # and none is `label`
    "has no feature label; did you mean lable.; its features: image, lable, weights": {
        **{name: GOOD[name] for name in ("image", "weights")},
        "lable": GOOD["label"],
    },
    "the feature label of .* holds floats, and whole numbers are wanted": {**GOOD, "label": np.ones(1, np.float32)},
    "the feature weights of .* has 3 numbers, and 4 are wanted": {**GOOD, "weights": np.zeros(3, np.float32)},
    "the feature image of .* has 2 strings, and one is wanted": {**GOOD, "image": [b"a", b"b"]},
    "a string of 3 bytes in .* is no whole number of 2 bytes each": {**GOOD, "image": b"abc"},
}


@pytest.mark.parametrize("message", WRONG)
def test_a_record_with_something_else_in_it_says_which_one_and_what(tmp_path: Path, message: str) -> None:
    wrong = WRONG[message]
    data = wrong if isinstance(wrong, bytes) else encode_example(wrong)
    write_records(tmp_path / "part-0.rec", [encode_example(GOOD), data])
    model = program(tmp_path, EXAMPLE)
    assert bytes(model.next().image) == b"1234"
    with pytest.raises(RecordError, match=message) as caught:
        model.next()
    assert (caught.value.code, caught.value.record) == ("E0915", 1)
    assert "record 1 of" in str(caught.value) and "part-0.rec" in str(caught.value)


def test_a_module_that_is_closed_holds_no_file_open(folder: Path) -> None:
    model = program(folder, READ)
    model.next()
    assert _open_files(folder)
    model.close()
    assert not _open_files(folder)


def _open_files(folder: Path) -> list[Path]:
    targets = [each.resolve() for each in Path("/proc/self/fd").iterdir()]
    return [each for each in targets if folder in each.parents]


def asked_for(monkeypatch: pytest.MonkeyPatch, most: int | None = None) -> list[int]:
    """The positions of which the run side is asked what comes there. `most`: what a block says it has, of all rows."""
    asked: list[int] = []
    answer = readers.Reader.next

    def counted(reader: readers.Reader, request: HostRequest) -> None:
        asked.append(int(request.inputs[0][0]))
        answer(reader, request)
        if most is not None:
            reader.block._header.count = min(most, reader.block._header.count)

    monkeypatch.setattr(readers.Reader, "next", counted)
    return asked


@pytest.mark.parametrize("arguments", ["", ', shuffle = "records", seed = 5', ', on_error = "skip"'])
def test_the_run_side_is_asked_for_the_first_record_and_the_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    asked = asked_for(monkeypatch)
    damage(folder, 2, 1) if "skip" in arguments else None
    model = program(folder, READ, f", passes = 3{arguments}")
    assert len(read(model)) == 45 - 3 * ("skip" in arguments)
    assert asked == ([0, 6, 21, 36, 45] if "skip" in arguments else [0, 45])


def test_native_code_takes_all_rows_that_a_block_has_and_none_behind_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows behind them are right, too: what tells is who answers."""
    asked = asked_for(monkeypatch, most=3)
    assert len(read(program(folder, READ, ", passes = 3"))) == 45
    assert asked == [*range(0, 45, 3), 45]


def test_the_run_side_is_not_asked_what_is_in_a_plain_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_records(tmp_path / "part-0.rec", [encode_example(GOOD)] * 3)
    for name in ("parse", "decode"):
        monkeypatch.delattr(readers, name)
    assert [bytes(each.image) for each in drained(program(tmp_path, EXAMPLE).next)] == [b"1234"] * 3


def test_a_file_that_changes_while_it_is_read_is_an_error(folder: Path) -> None:
    model = program(folder, READ, ', passes = 2, shuffle = "records"')
    model.next()
    for number in range(4):
        path = folder / f"part-{number}.rec"
        path.write_bytes(bytes(len(path.read_bytes())))
    with pytest.raises(RecordError, match="E0914"):
        read(model)
