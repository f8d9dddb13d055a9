"""`dfc data inspect`: counts, features, damages; one line for what is no file of records."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.records.example import encode_example
from tests.support.command_line import Command, command
from tests.support.record_files import framed, some_records, write_records


@pytest.fixture
def dfc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return command(monkeypatch, capsys)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file of 20 examples."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DFC_TRACEBACK", raising=False)
    write_records(tmp_path / "a.rec", EXAMPLES)
    return tmp_path


EXAMPLES = [
    encode_example({"label": np.arange(n, 3 * n), "text": b"t" * n, "x": np.float32([n, np.nan])}) for n in range(20)
]


def test_what_is_in_examples(dfc: Command) -> None:
    done = dfc("data", "inspect", "a.rec")
    size, lengths = os.path.getsize("a.rec"), [len(example) for example in EXAMPLES]
    first, count, *table = done.out.splitlines()
    assert done.code == 0
    assert first == f"a.rec: 20 records, {size / 1024:.1f} KB, {min(lengths)} to {max(lengths)} bytes each"
    assert count == "20 examples"
    assert table == [
        "  feature  type   values   between        in",
        "  label    int64  0 to 38  1 to 56        20",
        "  text     bytes  1        0 to 19 bytes  20",
        "  x        float  2        0 to 19, NaN   20",
    ]


def test_the_same_as_data(dfc: Command) -> None:
    done = dfc("data", "inspect", "a.rec", "--json")
    told = json.loads(done.out)
    assert told["records"] == told["examples"] == 20
    (file,) = told["files"]
    assert (file["path"], file["bytes"], file["damaged"], file["error"]) == (
        "a.rec",
        os.path.getsize("a.rec"),
        [],
        None,
    )
    assert told["features"]["label"] == {
        "types": ["int64"],
        "examples": 20,
        "values": [0, 38],
        "bytes": None,
        "range": [1, 56],
    }
    assert told["features"]["text"]["bytes"] == [0, 19]


def test_damaged_records_are_listed(dfc: Command, folder: Path) -> None:
    data = bytearray((folder / "a.rec").read_bytes())
    data[len(framed(EXAMPLES[0])) + 13] ^= 1
    (folder / "a.rec").write_bytes(data)
    done = dfc("data", "inspect", "a.rec")
    assert done.code == 2 and "19 examples" in done.out
    assert f"\n  damaged: a.rec: record 1 at byte {len(framed(EXAMPLES[0]))}: its " in done.out
    (told,) = json.loads(dfc("data", "inspect", "a.rec", "--json").out)["files"][0]["damaged"]
    assert (told["record"], told["offset"], told["code"]) == (1, len(framed(EXAMPLES[0])), "E0914")


def test_records_that_are_no_examples_are_records(dfc: Command, folder: Path) -> None:
    write_records(folder / "b.rec", [EXAMPLES[1], b"\x0a\x7f", *some_records(30, 3)])
    done = dfc("data", "inspect", "b.rec")
    assert done.code == 0 and "b.rec: 32 records" in done.out
    assert "  no example: b.rec: record 1 is no example: at its byte 0: a field claims 127 bytes" in done.out
    assert "more\n" in done.out


def test_files_that_hold_no_records_are_one_line_each(dfc: Command, folder: Path) -> None:
    strange = os.fsdecode(b"\xff\x1b[2J\nx.rec")
    (folder / strange).write_text("text " * 30)
    (folder / "z.gz").write_bytes(gzip.compress(b"x" * 50))
    (folder / "empty.rec").touch()
    (folder / "folder").mkdir()
    done = dfc("data", "inspect", strange, "z.gz", "empty.rec", "folder", "missing", "a.rec")
    assert done.code == 2 and "20 examples" in done.out and "empty.rec: no records: the file is empty" in done.out
    folder_line, *lines = done.err.splitlines()
    assert folder_line == "error[E0917]: folder: it holds no classes: images are in FOLDER/CLASS/FILE"
    assert lines[0].startswith(
        r"error[E0916]: \udcff\x1b[2J\nx.rec holds no records: its first 12 bytes are no head of one"
    )
    assert lines[1].startswith("error[E0916]: z.gz holds no records: it is compressed by gzip;")
    assert lines[2:] == [
        "error[E0909]: cannot open missing: No such file or directory",
    ]
    assert [
        file["error"] is None for file in json.loads(dfc("data", "inspect", "z.gz", "a.rec", "--json").out)["files"]
    ] == [
        False,
        True,
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_one_line(dfc: Command, folder: Path) -> None:
    (folder / "a.rec").chmod(0)
    assert dfc("data", "inspect", "a.rec").message == "error[E0909]: cannot open a.rec: Permission denied\n"


def test_one_record(dfc: Command, folder: Path) -> None:
    strange = encode_example({"a\nb": ["\x1b[2J\n€".encode(), b"\xff\x00" * 40], "n": np.arange(12), "e": []})
    write_records(folder / "b.rec", [strange])
    done = dfc("data", "inspect", "a.rec", "b.rec", "--record", 20)
    assert done.code == 0 and done.out == (
        f"b.rec: record 0, {len(strange)} bytes at 12\n"
        f"  a\\nb  bytes  0x1b5b324a0ae282ac (8 bytes), 0x{'ff00' * 15}.. (80 bytes)\n"
        "  e     none  \n"
        "  n     int64  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, .. (12 values)\n"
    )
    told = json.loads(dfc("data", "inspect", "a.rec", "--record", 3, "--json").out)
    assert told["features"]["text"] == {"type": "bytes", "values": ["747474"]}
    assert told["features"]["x"] == {"type": "float", "values": [3.0, "nan"]}
    assert "there is no record 20: the files have 20" in dfc("data", "inspect", "a.rec", "--record", 20).message


def test_an_index_is_written_and_used(dfc: Command, folder: Path) -> None:
    done = dfc("data", "inspect", "a.rec", "--index")
    assert (done.code, done.err) == (0, "wrote a.rec.index\n") and (folder / "a.rec.index").is_file()
    assert dfc("data", "inspect", "a.rec").out == done.out
