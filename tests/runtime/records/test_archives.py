"""Samples of archives are the files that were put in, by name and ending."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.errors import RecordError
from dfc_runtime.records.archives import SampleFiles
from dfc_runtime.records.fields import Field, RecordLayout

LAYOUT = RecordLayout((Field("cls", "i64"), Field("jpg", "string")))
LONG = "folder/" * 20
IMAGE = bytes(range(250)) * 6
FILES = {
    "README": b"1.jpg", "a/1.jpg": b"first", "a/LICENSE": b"", "a/._1.jpg": b"Mac", "a/1.cls": b"7\n",
    "a/1.json": b"{}", "a": None, "b/1.jpg": b"", "b/1.cls": b" -3\r\n",
    f"{LONG}2.seg.png": b"x", f"{LONG}2.cls": b"0", f"{LONG}2.jpg": IMAGE,
    "n\udcff.cls": b"1", "n\udcff.jpg": b"j",
}  # fmt: skip
SAMPLES = [(7, b"first"), (-3, b""), (0, IMAGE), (1, b"j")]


def archive(path: Path, files: dict[str, bytes | None], form: int = tarfile.GNU_FORMAT) -> Path:
    with tarfile.open(path, "w", format=form) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
            member.size = len(data or b"")
            tar.addfile(member, io.BytesIO(data or b""))
    return path


def read(files: SampleFiles, numbers: np.ndarray) -> list[tuple[int, bytes]]:
    frames = files.read(numbers).frames
    records = [frames.record(row) for row in range(len(frames))]
    heads = [np.frombuffer(record[:24], "<i8").tolist() for record in records]
    return [(label, record[at : at + size]) for record, (label, at, size) in zip(records, heads, strict=True)]


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_files_of_one_name_are_a_sample(tmp_path: Path, form: int) -> None:
    paths = [archive(tmp_path / f"{number}.tar", FILES, form) for number in range(2)]
    with SampleFiles(paths, "fail", LAYOUT) as files:
        assert files.counts == (4, 4)
        for numbers in (np.arange(8), np.array([7, 0, 5, 5, 2]), np.array([3, 0, 1])):
            assert read(files, numbers) == [SAMPLES[number % 4] for number in numbers]
            assert (files.sizes(numbers) == files.read(numbers).frames.lengths).all()


def test_a_sample_that_lacks_something_is_damaged(tmp_path: Path) -> None:
    for name, files in (("no", {"1.jpg": b"x"}), ("text", {"1.jpg": b"x", "1.cls": b"cat\n"})):
        archive(tmp_path / f"{name}.tar", {"0.jpg": b"", "0.cls": b"3", **files, "2.cls": b"4", "2.jpg": b"y"})
    twice = tmp_path / "twice.tar"
    with tarfile.open(twice, "w") as tar:
        pairs = (("0.jpg", b""), ("0.cls", b"3"), ("1.jpg", b"x"), ("1.jpg", b"x"), ("2.cls", b"4"), ("2.jpg", b"y"))
        for name, data in pairs:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    reasons = {
        "no": "it has no file that ends in .cls",
        "text": "its file .cls holds 'cat', which is no i64",
        "twice": "it has no file that ends in .cls",
    }
    for name, reason in reasons.items():
        with SampleFiles([tmp_path / f"{name}.tar"], "fail", LAYOUT) as files:
            with pytest.raises(RecordError, match=rf"{name}\.tar: sample 1 at byte \d+: {reason}") as caught:
                read(files, np.arange(3))
            assert caught.value.code == "E0914"
        with SampleFiles([tmp_path / f"{name}.tar"], "skip", LAYOUT) as files:
            assert read(files, np.arange(3)) == [(3, b""), (4, b"y")]
    message = r"it has several files that end in \.jpg"
    jpg = RecordLayout((Field("jpg", "string"),))
    with SampleFiles([twice], "fail", jpg) as files, pytest.raises(RecordError, match=message):
        files.read(np.array([1]))


def test_an_archive_that_is_damaged_loses_what_is_behind_and_says_so(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", FILES)
    data = path.read_bytes()
    head = data.index(b"b/1.jpg")
    for reason, broken in (
        (rf"at byte {head}: the head of a file is damaged", data[:head] + b"c" + data[head + 1 :]),
        (r"at byte \d+: .*", data[: data.rindex(b"first") + 2]),
        (r"at byte \d+: .*", data[: head + 100]),
    ):
        path.write_bytes(broken)
        with pytest.raises(RecordError, match=rf"a\.tar: {reason}") as caught:
            SampleFiles([path], "fail", LAYOUT)
        assert caught.value.code == "E0914"
        with SampleFiles([path], "skip", LAYOUT) as files:
            assert files.count <= 1 and len(files.damages) == 1


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    for data, reason in ((b"", ""), (b"text" * 300, "it is no tar archive"), (b"\x1f\x8b\x08" + bytes(30), "by gzip")):
        (tmp_path / "a.tar").write_bytes(data)
        with pytest.raises(RecordError, match=rf"a\.tar holds no samples: .*{reason}") as caught:
            SampleFiles([tmp_path / "a.tar"], "fail", LAYOUT)
        assert caught.value.code == "E0916"


def test_a_head_that_announces_too_much_is_damaged(tmp_path: Path) -> None:
    long = tarfile.TarInfo("name")
    long.type, long.size = tarfile.GNUTYPE_LONGNAME, 1 << 62
    many = tarfile.TarInfo("more")
    many.type = tarfile.XHDTYPE
    path = tmp_path / "a.tar"
    for heads in (long.tobuf(tarfile.GNU_FORMAT), many.tobuf(tarfile.USTAR_FORMAT) * 2000):
        archive(path, {"0.jpg": b"", "0.cls": b"3"})
        path.write_bytes(path.read_bytes()[:1536] + heads)
        with SampleFiles([path], "skip", LAYOUT) as files:
            assert files.count == 1 and len(files.damages) == 1
