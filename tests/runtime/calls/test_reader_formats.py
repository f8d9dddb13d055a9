"""Readers of other files than those of records: the same order, parts, positions and errors, in each format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc_runtime.calls import readers
from dfc_runtime.calls.hosts import HostRequest
from dfc_runtime.errors import LimitError, RecordError
from dfc_runtime.module import Module
from dfc_runtime.records.stream import RecordStream
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
    answer = readers._Reader.next

    def counted(reader: readers._Reader, request: HostRequest) -> None:
        positions.append(int(request.inputs[0][0]))
        answer(reader, request)

    monkeypatch.setattr(readers._Reader, "next", counted)
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
