"""`dfc data make`: what is made of each kind of source, and what is said of one that is none."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, ipc, parquet

from dfc_runtime.checkpoints.files import Disk
from dfc_runtime.records.example import Values, decode_example
from dfc_runtime.records.reading import RecordFiles
from tests.support.command_line import Command, command


@pytest.fixture
def dfc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return command(monkeypatch, capsys)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DFC_TRACEBACK", raising=False)
    return tmp_path


def examples(*paths: str) -> list[dict[str, object]]:
    """All examples of files, with lists in place of arrays."""
    with RecordFiles(paths) as files:
        frames = files.read(np.arange(files.count)).frames
        return [{n: plain(v) for n, v in decode_example(frames.record(row)).items()} for row in range(len(frames))]


def plain(values: Values) -> object:
    return values if isinstance(values, list) else values.tolist()


def test_rows_of_arrays(dfc: Command) -> None:
    images = np.arange(24, dtype=np.uint8).reshape(3, 2, 4)
    np.savez("a.npz", image=images, label=np.array([5, -6, 7], np.int8), w=np.float16([[1], [2], [0.5]]))
    np.savez("b.npz", image=images[:1], label=np.array([8], np.int8), w=np.float16([[3]]))
    done = dfc("data", "make", "out.rec", "--from", "a.npz", "b.npz")
    assert (done.code, done.err) == (
        0,
        "",
    ) and done.out == f"wrote 4 examples to out.rec ({os.path.getsize('out.rec')} B)\n"
    expected = [(images[n % 3].tobytes(), label, w) for n, (label, w) in enumerate([(5, 1), (-6, 2), (7, 0.5), (8, 3)])]
    assert examples("out.rec") == [{"image": [i], "label": [n], "w": [w]} for i, n, w in expected]


def archive(path: str, *files: tuple[str, bytes]) -> None:
    with tarfile.open(path, "w") as tar:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def test_samples_of_tar_archives(dfc: Command) -> None:
    archive("a.tar", ("d/1.jpg", b"\xff\xd8"), ("d/1.cls", b" -3\n"), ("d/2.cls", b"7"), ("d/2.seg.png", b""))
    assert dfc("data", "make", "out.rec", "--from", "a.tar").code == 0
    assert examples("out.rec") == [{"jpg": [b"\xff\xd8"], "cls": [-3]}, {"cls": [7], "seg.png": [b""]}]
    for files, reason in (
        ([("1.jpg", b""), ("1.jpg", b"")], "two files of 1 end in .jpg"),
        (
            [("1.jpg", b""), ("2.jpg", b""), ("1.cls", b"1")],
            "files of 1 stand apart in it: write it with tar --sort",
        ),
        ([("1", b"")], "1 has no ending that names a feature"),
        ([("1.cls", b"cat")], "1.cls holds no number of a class: cat"),
        ([("1.cls", b"9" * 30)], "1.cls holds no number of a class"),
    ):
        archive("b.tar", *files)
        assert reason in dfc("data", "make", "b.rec", "--from", "b.tar").message
    whole = Path("a.tar").read_bytes()
    Path("b.tar").write_bytes(whole[:600])
    assert "b.tar: at byte " in dfc("data", "make", "b.rec", "--from", "b.tar").message
    assert not Path("b.rec").exists()


def test_rows_of_columns(dfc: Command) -> None:
    table = pa.table(
        {
            "x": pa.array([[[0.5], [1.0]], None], pa.list_(pa.list_(pa.float64()))),
            "name": pa.array(["a", "bc"]).dictionary_encode(),
            "image": [{"bytes": b"\xff\xd8", "path": ""}, {"bytes": None, "path": "p"}],
            "row": pa.array([[1, 2], [3, 4]], pa.list_(pa.uint8(), 2)),
            "odd": [True, None],
        }
    )
    expected = [
        {"x": [0.5, 1.0], "name": [b"a"], "image": [b"\xff\xd8"], "row": [b"\1\2"], "odd": [1]},
        {"x": [], "name": [b"bc"], "image": [], "row": [b"\3\4"], "odd": []},
    ]
    parquet.write_table(table, "a.parquet", row_group_size=1)
    feather.write_feather(table, "a.feather")
    with ipc.new_stream("a.arrows", table.schema) as stream:
        stream.write_table(table)
    for ending in ("parquet", "feather", "arrows"):
        done = dfc("data", "make", f"{ending}.rec", "--from", f"a.{ending}")
        assert (done.code, done.err, examples(f"{ending}.rec")) == (0, "", expected)
    for values, reason in (
        (pa.array([0.1]), "row 0: 'x' is no f32, as an example holds"),
        (pa.array([[1, None]]), "row 0: 'x' has a null in its list"),
        (pa.array([2**63], pa.uint64()), "row 0: 'x' holds a number that is larger"),
        (pa.array([0], pa.date32()), "'x' is date32[day], and .*: write column.cast\\(pyarrow.int32\\(\\)\\)"),
    ):
        parquet.write_table(pa.table({"x": values}), "b.parquet")
        assert re.search(reason.replace("[", "\\["), dfc("data", "make", "b.rec", "--from", "b.parquet").message)
    Path("b.arrow").write_bytes(Path("a.feather").read_bytes()[:-4])
    assert "its footer is missing" in dfc("data", "make", "b.rec", "--from", "b.arrow").message


def test_some_arrays_of_an_archive_under_other_names(dfc: Command) -> None:
    np.savez("a.npz", x_train=np.arange(3), x_test=np.arange(2))
    assert dfc("data", "make", "out.rec", "--from", "a.npz", "--feature", "x=x_train").code == 0
    assert examples("out.rec") == [{"x": [n]} for n in range(3)]
    assert "'x_train' has 3 rows, and 'x_test' has 2" in dfc("data", "make", "o.rec", "--from", "a.npz").message


def test_arrays_side_by_side_texts_and_exact_doubles(dfc: Command) -> None:
    np.save("name.npy", np.array(["ä", "b"]))
    np.save("tag.npy", np.array([b"\xff", b""]))
    np.save("half.npy", np.array([0.5, np.nan]))
    assert dfc("data", "make", "out.rec", "--from", "name.npy", "tag.npy", "half.npy").code == 0
    first, second = examples("out.rec")
    assert first == {"name": ["ä".encode()], "tag": [b"\xff"], "half": [0.5]} and second["name"] == [b"b"]
    np.save("third.npy", np.array([1 / 3]))
    message = dfc("data", "make", "o.rec", "--from", "third.npy").message
    assert message == (
        "error[E0917]: third.npy: 'third' is float64, and an example holds f32: write third.astype('float32')\n"
    )


def test_a_table(dfc: Command, folder: Path) -> None:
    (folder / "a.csv").write_text('id, score,name\n1,2.5,x\n-2,3,"a, b"\n\n3,,\n')
    (folder / "b.csv").write_text("id, score,name\n9223372036854775807,1e3,7\n")
    assert dfc("data", "make", "out.rec", "--from", "a.csv", "b.csv").code == 0
    assert examples("out.rec") == [
        {"id": [1], "score": [2.5], "name": [b"x"]},
        {"id": [-2], "score": [3.0], "name": [b"a, b"]},
        {"id": [3], "score": [], "name": []},
        {"id": [2**63 - 1], "score": [1000.0], "name": [b"7"]},
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"a,b\n1,2\n3\n", "line 3: 1 cells, and the head has 2"),
        (b"a,a\n1,2\n", "line 1: the head names each column"),
        (b"a,\n1,2\n", "line 1: the head names each column"),
        (b"", "it is empty"),
        (b"a\n\xff\n", "it is no UTF-8"),
        (b'a\n"x', "line 2: unexpected end of data"),
    ],
)
def test_tables_that_are_none(dfc: Command, folder: Path, text: bytes, reason: str) -> None:
    (folder / "t.csv").write_bytes(text)
    done = dfc("data", "make", "out.rec", "--from", "t.csv")
    assert done.code == 2 and done.message.startswith("error[E0917]: t.csv: ") and reason in done.message
    assert done.err.count("\n") == 1 and os.listdir() == ["t.csv"]


def test_lines_of_text(dfc: Command, folder: Path) -> None:
    (folder / "t.log").write_bytes(b"one\r\n\n\xfftwo")
    assert dfc("data", "make", "out.rec", "--from", "t.log", "--as", "txt").code == 0
    assert examples("out.rec") == [{"text": [text]} for text in (b"one", b"", b"\xfftwo")]
    message = dfc("data", "make", "o.rec", "--from", "t.log").message
    kinds = "npz, npy, csv, txt, tar, parquet, arrow, images"
    assert f"t.log: its name does not say how to read it; add --as, one of {kinds}" in message


def test_a_folder_of_images(dfc: Command, folder: Path) -> None:
    strange = os.fsdecode(b"b\xff\n")
    for name in ("cat/1.png", "cat/.hidden", f"{strange}/2.JPG"):
        (folder / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "images" / name).write_bytes(name.encode("utf-8", "surrogateescape"))
    assert dfc("data", "make", "out.rec", "--from", "images").code == 0
    second = b"b\xff\n/2.JPG"
    assert examples("out.rec") == [
        {"image": [second], "label": [0], "class": [b"b\xff\n"], "file": [second]},
        {"image": [b"cat/1.png"], "label": [1], "class": [b"cat"], "file": [b"cat/1.png"]},
    ]
    (folder / "images" / strange / "x\x1b[2J.txt").touch()
    message = dfc("data", "make", "o.rec", "--from", "images").message
    assert message.count("\n") == 1 and r"images/b\udcff\n/x\x1b[2J.txt: it is no image" in message


def test_made_up_examples_depend_on_seed_name_and_number_alone(dfc: Command) -> None:
    both, one = "image=u8[30],label=i64..10,x=f32[2,3]", "x=f32[2,3]"
    for out, spec, count, seed in (("a", both, 40, 0), ("b", one, 9, 0), ("c", both, 9, 1)):
        assert dfc("data", "make", f"{out}.rec", "--synthetic", spec, "--count", count, "--seed", seed).code == 0
    first, second, third = examples("a.rec"), examples("b.rec"), examples("c.rec")
    assert [each["x"] for each in first[:9]] == [each["x"] for each in second]
    assert [each["x"] for each in first[:9]] != [each["x"] for each in third]
    labels = {each["label"][0] for each in first}  # type: ignore[index]
    assert labels <= set(range(10)) and len(labels) > 5
    assert all(len(each["x"]) == 6 and min(each["x"]) >= 0 and max(each["x"]) < 1 for each in first)  # type: ignore
    assert zlib.crc32(json.dumps([first[3]["label"], first[3]["x"]]).encode()) == KEPT


KEPT = 2873024760
"""Of one example: made-up data are the same for ever."""


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--synthetic x=f64 --count 1", "with a TYPE of f32, i64 or u8"),
        ("--synthetic x=u8..300 --count 1", "the limit of u8 is from 1 to 256"),
        ("--synthetic x=f32..3 --count 1", "the limit of f32 is none"),
        ("--synthetic x=i64..0 --count 1", "the limit of i64 is from 1 to 4294967296"),
        ("--synthetic x=f32,x=u8 --count 1", "names 'x' twice"),
        ("--synthetic x=f32[99999,99999] --count 1", "numbers an example"),
        ("--synthetic x=f32", "wants --count"),
        ("", "say what examples are made of"),
        ("--from a.npz --count 3", "are for --synthetic"),
        ("--from a.npz b.csv", "sources of different kinds, csv, npz"),
        ("--from missing.npz", "cannot read missing.npz: there is no such file"),
        ("a.npz", "write --from before a.npz"),
        ("--from a.npz --feature =x", "names none"),
    ],
)
def test_mistakes_in_the_words_are_one_line(dfc: Command, folder: Path, words: str, reason: str) -> None:
    np.savez("a.npz", x=np.arange(2))
    (folder / "b.csv").write_text("x\n1\n")
    done = dfc("data", "make", "out.rec", *words.split())
    assert reason in done.message and done.err.count("\n") == 1
    assert not (folder / "out.rec").exists()


def test_a_source_is_never_the_new_file(dfc: Command) -> None:
    np.savez("a.npz", x=np.arange(2))
    before = Path("a.npz").read_bytes()
    for words in (("--from", "b.npz", "a.npz", "c.rec"), ("a.npz", "--from", "a.npz")):
        assert "is a source: the new file comes first" in dfc("data", "make", *words, "--force").message
    assert Path("a.npz").read_bytes() == before


def test_nothing_is_left_of_what_could_not_be_made(dfc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second archive is seen to be a wrong one when the first is written; and then the disk is full."""
    np.savez("a.npz", x=np.arange(600))
    np.savez("b.npz", y=np.arange(600))
    assert "b.npz: it holds y" in dfc("data", "make", "out.rec", "--from", "a.npz", "b.npz").message
    assert sorted(os.listdir()) == ["a.npz", "b.npz"]

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Disk, "write", full)
    done = dfc("data", "make", "out.rec", "--from", "a.npz", "--shards", "3")
    assert (done.code, done.err) == (6, "error[E0909]: cannot write out-00000-of-00003.rec: No space left on device\n")
    assert sorted(os.listdir()) == ["a.npz", "b.npz"]


def test_overwriting_is_said(dfc: Command) -> None:
    words = ("data", "make", "out.rec", "--synthetic", "x=f32", "--count")
    assert dfc(*words, 3).code == 0
    assert dfc(*words, 4).message == "error[E0909]: cannot write out.rec: it is there already (--force overwrites it)\n"
    assert len(examples("out.rec")) == 3
    assert dfc(*words, 4, "--force", "--index").code == 0
    assert len(examples("out.rec")) == 4 and sorted(os.listdir()) == ["out.rec", "out.rec.index"]
