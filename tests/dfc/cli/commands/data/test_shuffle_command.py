"""`dfc data shuffle`: all records, in the order of the permutation, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dfc.cli.commands.data import shuffle_command
from dfc_runtime.records.permutation import permutation
from dfc_runtime.records.reading import RecordFiles
from tests.support.command_line import Command, command
from tests.support.record_files import framed, some_records, write_records

RECORDS = some_records(60)


@pytest.fixture
def dfc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return command(monkeypatch, capsys)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with two files of 40 and 20 records."""
    monkeypatch.chdir(tmp_path)
    write_records(tmp_path / "a.rec", RECORDS[:40])
    write_records(tmp_path / "b.rec", RECORDS[40:])
    return tmp_path


def records(*paths: str) -> list[bytes]:
    with RecordFiles(paths) as files:
        frames = files.read(np.arange(files.count)).frames
        return [frames.record(row) for row in range(len(frames))]


def test_records_come_in_the_order_of_the_permutation(dfc: Command) -> None:
    done = dfc("data", "shuffle", "a.rec", "b.rec", "--out", "c.rec", "--seed", 7)
    assert (done.code, done.err) == (0, "") and done.out.startswith("shuffled 60 records to c.rec (")
    assert records("c.rec") == [RECORDS[n] for n in permutation(60, 7, 0).many(np.arange(60)).tolist()]


def test_batches_and_shards_change_no_order(dfc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dfc("data", "shuffle", "a.rec", "b.rec", "--out", "c.rec").code == 0
    monkeypatch.setattr(shuffle_command, "AT_ONCE", 7)
    monkeypatch.setattr(shuffle_command, "BATCH_BYTES", 90)
    assert dfc("data", "shuffle", "a.rec", "b.rec", "--out", "d.rec", "--shards", 3).code == 0
    parts = [records(f"d-0000{n}-of-00003.rec") for n in range(3)]
    assert [parts[n % 3][n // 3] for n in range(60)] == records("c.rec")
    assert records("c.rec") != RECORDS


def test_a_damaged_record_stops_it_or_is_left_out(dfc: Command, folder: Path) -> None:
    data = bytearray((folder / "a.rec").read_bytes())
    data[len(framed(RECORDS[0])) + 12] ^= 1
    data[0] ^= 1
    (folder / "a.rec").write_bytes(data)
    words = ("data", "shuffle", "a.rec", "b.rec", "--out", "c.rec")
    assert dfc(*words).message.startswith("error[E0914]: a.rec: record 0 at byte 0: its head is damaged")
    assert not (folder / "c.rec").exists()
    done = dfc(*words, "--on-error", "skip")
    assert done.code == 0 and sorted(records("c.rec")) == sorted(RECORDS[2:])
    assert sorted(line[:28] for line in done.err.splitlines()) == [
        "skipped: a.rec: record 0 at ",
        "skipped: a.rec: record 1 at ",
    ]


def test_a_file_may_take_the_name_of_a_source(dfc: Command) -> None:
    assert "it is there already" in dfc("data", "shuffle", "a.rec", "--out", "a.rec").message
    assert dfc("data", "shuffle", "a.rec", "--out", "a.rec", "--force").code == 0
    assert sorted(records("a.rec")) == sorted(RECORDS[:40])


def test_nothing_is_a_file_of_no_records(dfc: Command, folder: Path) -> None:
    (folder / "empty.rec").touch()
    assert dfc("data", "shuffle", "empty.rec", "--out", "c.rec").code == 0
    assert (folder / "c.rec").read_bytes() == b""


def test_memory_does_not_grow_with_the_files(dfc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch is larger than the limit, whatever lies in the files."""
    monkeypatch.setenv("DFC_MEMORY_LIMIT", "400")
    monkeypatch.setattr(shuffle_command, "BATCH_BYTES", 300)
    assert dfc("data", "shuffle", "a.rec", "b.rec", "--out", "c.rec").code == 0
    assert sorted(records_of_each("c.rec")) == sorted(RECORDS)


def records_of_each(path: str) -> list[bytes]:
    with RecordFiles([path]) as files:
        return [files.read(np.array([n])).frames.record(0) for n in range(files.count)]
