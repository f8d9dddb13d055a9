"""An index beside its file: used where it is of this file, and noticed where it is not."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from dfc_runtime.errors import FileError
from dfc_runtime.formats.source import FileSource
from dfc_runtime.formats.tensors import NewTensor
from dfc_runtime.formats.tensors import write as write_tensors
from dfc_runtime.records import stored_index
from dfc_runtime.records.index import scan
from dfc_runtime.records.stored_index import Stale, index_path, open_index, read_index, write_index
from tests.support.record_files import some_records, write_records
from tests.support.sweeping import few

RECORDS = some_records(30)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with its index."""
    file = write_records(tmp_path / "a.rec", RECORDS)
    source = FileSource(file)
    write_index(source, scan(source))
    source.close()
    return file


def test_it_is_what_a_pass_over_the_file_finds(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = FileSource(path)
    expected = scan(source)
    monkeypatch.setattr(stored_index, "scan", None)  # must not be needed
    index = open_index(source)
    assert index.starts.tolist() == expected.starts.tolist() and index.lengths.tolist() == expected.lengths.tolist()
    assert (index.size, index.modified, index.path) == (expected.size, expected.modified, expected.path)


def test_other_readers_of_safetensors_read_it(path: Path) -> None:
    arrays = safetensors.numpy.load_file(index_path(path))
    assert arrays["lengths"].tolist() == [len(record) for record in RECORDS]


def reason(path: Path) -> str:
    with pytest.raises(Stale) as raised:
        read_index(FileSource(path))
    return str(raised.value)


def test_a_file_that_has_changed_makes_it_stale(path: Path) -> None:
    data, status = path.read_bytes(), path.stat()
    path.write_bytes(data + data)
    assert reason(path) == "the file has another size"
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert reason(path) == "the file has changed since"
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert reason(path) == "the file has changed since"


def test_a_stale_one_is_a_warning_and_a_pass_over_the_file(path: Path) -> None:
    write_records(path, RECORDS[:7])
    with pytest.warns(UserWarning, match="a.rec.index is not used: the file has"):
        assert open_index(FileSource(path)).count == 7


def test_any_byte_of_it_may_be_another_one(path: Path) -> None:
    """Then it is refused, or still the same index."""
    index = Path(index_path(path))
    data = index.read_bytes()
    source = FileSource(path)
    expected = read_index(source).lengths.tolist()
    refused = 0
    for at in (offsets := few(range(len(data)), 70)):
        index.write_bytes(data[:at] + bytes([data[at] ^ 0x11]) + data[at + 1 :])
        try:
            assert read_index(source).lengths.tolist() == expected
        except Stale:
            refused += 1
    assert refused > 0.8 * len(offsets)
    for size in few(range(len(data)), 30):
        index.write_bytes(data[:size])
        with pytest.raises(Stale):
            read_index(source)


@pytest.mark.parametrize("lengths", [[2**64 - 1, 2**64 - 1], [2**63] * 3, [10**6], [], [3, 4]])
def test_lengths_that_do_not_fill_the_file_are_refused(path: Path, lengths: list[int]) -> None:
    """With checksums that fit, as whoever forges one would write them."""
    source = FileSource(path)
    data = np.array(lengths, np.uint64).tobytes()
    about = {"format": "dfc.record-index", "version": "1", **stored_index._described(source, data)}
    pieces = write_tensors([NewTensor("lengths", "U64", (len(lengths),), data)], about)
    Path(index_path(path)).write_bytes(b"".join(pieces))
    assert reason(path) == "its records do not fill the file"


def test_it_is_no_index_of_more_records_than_the_file_has_room_for(path: Path) -> None:
    count = path.stat().st_size // 16 + 1
    data = bytes(8 * count)
    about = {"format": "dfc.record-index", "version": "1", "size": str(path.stat().st_size)}
    Path(index_path(path)).write_bytes(b"".join(write_tensors([NewTensor("lengths", "U64", (count,), data)], about)))
    assert reason(path) == "it has more records than the file has room for"


def test_where_it_cannot_be_written_is_one_message(path: Path) -> None:
    os.unlink(index_path(path))
    os.mkdir(index_path(path))
    source = FileSource(path)
    with pytest.raises(FileError, match=r"cannot write .*a.rec.index"):
        write_index(source, scan(source))
