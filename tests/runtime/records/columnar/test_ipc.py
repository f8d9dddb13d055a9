"""Arrow's files and streams: dictionaries that change, compressed batches, and what is damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, ipc

from dfc_runtime.errors import RecordError
from dfc_runtime.records.columnar.ipc import ArrowFiles
from dfc_runtime.records.fields import Field, RecordLayout
from tests.support.columnar_files import LAYOUT, Writer, record, some_table, write_file, write_stream

NAMES = RecordLayout((Field("name", "string"),))


def texts(files: ArrowFiles, numbers: list[int]) -> list[bytes]:
    frames = files.read(np.array(numbers)).frames
    return [frames.record(row)[NAMES.size :] for row in range(len(frames))]


@pytest.mark.parametrize("deltas", [False, True])
def test_dictionaries_of_a_stream_are_those_before_a_batch(tmp_path: Path, deltas: bool) -> None:
    words = ["a", "bc", "def", "g"]
    with ipc.new_stream(
        tmp_path / "a",
        pa.schema([("name", pa.dictionary(pa.int32(), pa.string()))]),
        options=ipc.IpcWriteOptions(emit_dictionary_deltas=deltas),
    ) as stream:
        for count in (2, 3, 4):
            there = words[:count] if deltas else words[count - 2 : count]
            column = pa.DictionaryArray.from_arrays(pa.array([0, len(there) - 1], pa.int32()), pa.array(there))
            stream.write_batch(pa.record_batch({"name": column}))
    with ipc.open_stream(tmp_path / "a") as stream:
        wanted = [name.encode() for name in stream.read_all()["name"].to_pylist()]
    with ArrowFiles([tmp_path / "a"], "fail", NAMES) as files:
        assert texts(files, [5, 0, 3, 2, 1, 4]) == [wanted[number] for number in (5, 0, 3, 2, 1, 4)]


def test_feather_files_with_compressed_batches_are_read(tmp_path: Path) -> None:
    feather.write_feather(some_table(500), tmp_path / "a", compression="lz4", chunksize=200)
    with ArrowFiles([tmp_path / "a"], "fail", LAYOUT) as files:
        frames = files.read(np.array([499, 3, 200])).frames
        assert [frames.record(row) for row in range(3)] == [record(row) for row in (499, 3, 200)]
    (tmp_path / "a").write_bytes(b"FEA1" + bytes(20))
    with pytest.raises(RecordError, match="it is of the first version of Feather: write it with"):
        ArrowFiles([tmp_path / "a"], "fail", LAYOUT)


@pytest.mark.parametrize(("write", "mark"), [(write_file, 8), (write_stream, 0)])
def test_what_is_whole_of_a_file_that_ends_too_early_is_read(tmp_path: Path, write: Writer, mark: int) -> None:
    path = tmp_path / "a"
    write(path, some_table(12), 4)
    with ArrowFiles([path], "fail", LAYOUT) as files:
        begins = [files.offset(number) for number in (0, 4, 8)]
    data = path.read_bytes()
    for length, count in ((begins[2] + 100, 8), (begins[1] + 3, 4), (begins[0] + 6, 0)):
        path.write_bytes(data[:length])
        with pytest.raises(RecordError, match=rf"a: behind {count // 4} record batch.*, at byte \d+: ") as caught:
            ArrowFiles([path], "fail", LAYOUT)
        assert (caught.value.code, caught.value.record, caught.value.offset) == ("E0914", count, length)
        with ArrowFiles([path], "skip", LAYOUT) as files:
            assert (files.count, files.turns) == (count, (count + 1,))
            if count:
                frames = files.read(np.arange(count)).frames
                assert [frames.record(row) for row in range(count)] == [record(row) for row in range(count)]
    path.write_bytes(data[: mark + 20])
    with pytest.raises(RecordError, match="a holds no columns that are wanted: "):
        ArrowFiles([path], "skip", LAYOUT)


@pytest.mark.parametrize("write", [write_file, write_stream])
def test_damaged_batches_are_damage_of_their_rows_or_read_as_something_else(tmp_path: Path, write: Writer) -> None:
    path = tmp_path / "a"
    write(path, some_table(8), 4)
    data = path.read_bytes()
    with ArrowFiles([path], "fail", LAYOUT) as files:
        begin, end = files.offset(4), files._batches[0].batches[1].end
    damaged = 0
    for at in range(begin, end, 31):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x81]) + data[at + 1 :])
        try:
            with ArrowFiles([path], "skip", LAYOUT) as files:
                batch = files.read(np.arange(files.count))
                first = [batch.frames.record(row) for row in np.flatnonzero(batch.numbers < 4)]
                assert first == [record(row) for row in range(4)]  # whatever the others are
                damaged += bool(batch.skipped or files.damages)
        except RecordError as error:
            assert error.code in ("E0914", "E0916")
            damaged += 1
    assert damaged


def test_names_that_are_no_text_are_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_stream(path, some_table(3), 3)
    path.write_bytes(path.read_bytes().replace(b"label", b"\xff\xffbel"))
    with pytest.raises(RecordError, match="its schema cannot be read: 'utf-8' codec"):
        ArrowFiles([path], "fail", LAYOUT)
