"""New files are there whole or not at all, whatever the disk does."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfc_runtime.checkpoints.files import Disk
from dfc_runtime.errors import FileError
from dfc_runtime.records import writing
from dfc_runtime.records.reading import RecordFiles
from dfc_runtime.records.writing import RecordWriter, shard_names
from tests.support.record_files import framed, some_records
from tests.support.sweeping import examples

RECORDS = some_records(30)


def write(out: Path, shards: int | None = None, *, force: bool = False, disk: Disk | None = None) -> RecordWriter:
    with RecordWriter(str(out), shards, force=force, disk=disk or Disk()) as writer:
        for begin in range(0, 30, 7):
            writer.write(RECORDS[begin : begin + 7])
    return writer


def test_a_file_has_all_records_in_their_order(tmp_path: Path) -> None:
    writer = write(tmp_path / "a.rec")
    data = b"".join(map(framed, RECORDS))
    assert (tmp_path / "a.rec").read_bytes() == data
    assert (writer.count, writer.bytes) == (30, len(data))
    assert os.listdir(tmp_path) == ["a.rec"]


@settings(max_examples=examples(20))
@given(st.integers(1, 40), st.integers(1, 200))
def test_records_are_dealt_out_to_shards(shards: int, buffered: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "BUFFERED", buffered)
        paths = write(Path(folder) / "a.rec", shards).paths
        assert [os.path.basename(path) for path in paths] == shard_names("a.rec", shards)
        for number, path in enumerate(paths):
            assert Path(path).read_bytes() == b"".join(map(framed, RECORDS[number::shards]))


def test_names_of_shards() -> None:
    assert shard_names("a/train.rec", None) == ["a/train.rec"]
    assert shard_names("a/train.rec", 2) == ["a/train-00000-of-00002.rec", "a/train-00001-of-00002.rec"]
    assert shard_names("train", 1) == ["train-00000-of-00001"]


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    (tmp_path / "a-00001-of-00002.rec").write_bytes(b"before")
    with pytest.raises(FileError, match=r"a-00001-of-00002.rec: it is there already \(--force"):
        write(tmp_path / "a.rec", 2)
    assert os.listdir(tmp_path) == ["a-00001-of-00002.rec"]
    assert (tmp_path / "a-00001-of-00002.rec").read_bytes() == b"before"
    write(tmp_path / "a.rec", 2, force=True)
    assert len(os.listdir(tmp_path)) == 2


def test_shards_of_another_number_do_not_lie_beside_new_ones(tmp_path: Path) -> None:
    write(tmp_path / "a.rec", 3)
    for force in (False, True):
        with pytest.raises(FileError, match=r"a-00000-of-00003.rec lies there, of another number of shards"):
            write(tmp_path / "a.rec", 2, force=force)


def test_what_cannot_be_written_is_told_before_anything_is(tmp_path: Path) -> None:
    (tmp_path / "folder.rec").mkdir()
    missing = tmp_path / "no" / "a\n.rec"
    for out, reason in ((tmp_path / "folder.rec", "it is a folder"), (missing, "there is no folder")):
        with pytest.raises(FileError, match=reason) as raised:
            write(out, force=True)
        assert raised.value.code == "E0909" and "\n" not in raised.value.message
    for shards in (0, 513):
        with pytest.raises(ValueError):
            RecordWriter(str(tmp_path / "a.rec"), shards)


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a.rec").write_bytes(b"before")
    with pytest.raises(KeyboardInterrupt), RecordWriter(str(tmp_path / "a.rec"), force=True) as writer:
        writer.write(RECORDS)
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["a.rec"] and (tmp_path / "a.rec").read_bytes() == b"before"


class Failing(Disk):
    """A disk whose call number `at` fails."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.names_of: list[str] = []

    def _count(self, name: str) -> None:
        self.names_of.append(name)
        self.left -= 1
        if self.left == -1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def create(self, path: Path) -> int:
        self._count("create")
        return super().create(path)

    def write(self, file: int, piece: bytes | memoryview) -> None:
        self._count("write")
        super().write(file, piece)

    def sync(self, file: int) -> None:
        self._count("sync")
        super().sync(file)

    def rename(self, old: Path, new: Path) -> None:
        self._count("rename")
        super().rename(old, new)


FULL = r"cannot write .*a-0000[01]-of-00002\.rec: No space left on device"


def test_a_full_disk_is_one_message_wherever_it_comes(tmp_path: Path) -> None:
    whole_files = [b"".join(map(framed, RECORDS[number::2])) for number in (0, 1)]
    whole = Failing(1000)
    write(tmp_path / "a.rec", 2, disk=whole)
    before = {path.name: b"before" for path in tmp_path.iterdir()}
    assert whole.names_of == ["create", "create", "write", "write", "sync", "sync", "rename", "rename"]
    for at, name in enumerate(whole.names_of):
        for path in before:
            (tmp_path / path).write_bytes(b"before")
        with pytest.raises(FileError, match=FULL) as raised:
            write(tmp_path / "a.rec", 2, force=True, disk=Failing(at))
        assert raised.value.code == "E0909"
        left = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        if name == "rename":  # a file that has its name is whole
            assert left.keys() == before.keys()
            assert set(left.values()) <= {b"before", *whole_files}
        else:
            assert left == before


def test_what_is_written_is_read(tmp_path: Path) -> None:
    paths = write(tmp_path / "a.rec", 4).paths
    with RecordFiles(paths) as files:
        read = files.read(np.arange(30)).frames
        assert sorted(read.record(row) for row in range(30)) == sorted(RECORDS)
