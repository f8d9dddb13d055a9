"""Lines of text are those that Python finds, wherever windows of a pass end."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.errors import FileError, RecordError
from dfc_runtime.records.text import lines
from dfc_runtime.records.text.lines import LineFiles
from tests.support.record_files import framed

TEXTS = {
    "nothing": b"",
    "one end": b"\n",
    "no end": b"a",
    "two ends": b"\n\n",
    "ends of both kinds": b"one\r\n\r\ntwo\n\rthree\r\r\n\nfour\r",
    "any bytes": bytes(range(256)) * 3,
}


def read(paths: list[Path]) -> list[bytes]:
    with LineFiles(paths) as files:
        batch = files.read(np.arange(files.count))
        return [batch.frames.record(row) for row in range(len(batch.frames))]


def by_python(data: bytes) -> list[bytes]:
    return [line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line for line in io.BytesIO(data)]


@pytest.mark.parametrize("window", [1, 2, 3, 1 << 22])
def test_lines_are_those_that_python_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(lines, "WINDOW", window)
    paths = [tmp_path / f"{number}.txt" for number in range(len(TEXTS))]
    for path, data in zip(paths, TEXTS.values(), strict=True):
        path.write_bytes(data)
        assert read([path]) == by_python(data)
    assert read(paths) == [line for data in TEXTS.values() for line in by_python(data)]


def test_a_line_is_named_as_editors_number_it(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"0\n1\n")
    with LineFiles([tmp_path / "a", tmp_path / "b"]) as files:
        where, path, line = files.described(3)
    assert (where, path, line) == (f"line 2 of {tmp_path / 'b'}", str(tmp_path / "b"), 1)


FOREIGN = {
    r"compressed by gzip; .*: gunzip -c .* > NEW": gzip.compress(b"text\n"),
    "it is a NumPy array": b"\x93NUMPY\x01\x00" + bytes(40),
    "it is a file of records: read it with record_files": framed(b"a record"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a.txt").write_bytes(FOREIGN[kind])
    with pytest.raises(RecordError, match=f"a.txt holds no lines of text: .*{kind}") as caught:
        LineFiles([tmp_path / "a.txt"])
    assert caught.value.code == "E0916"


@pytest.mark.parametrize("text", [b"BZhang", b"PAR1s", b"dfg 1\n", b"x^\x00 deflated?"])
def test_a_text_that_begins_like_something_else_is_a_text(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(text)
    assert read([tmp_path / "a.txt"]) == [text.removesuffix(b"\n")]


def test_a_file_that_is_cut_short_or_gone_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\n")
    with LineFiles([path]) as files:
        path.write_bytes(b"one\n")
        with pytest.raises(RecordError, match=r"a\.txt has changed since it was opened"):
            files.read(np.array([1]))
        path.unlink()
        with pytest.raises(FileError, match=r"a\.txt"):
            files.read(np.array([0]))
