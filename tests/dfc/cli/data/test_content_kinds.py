"""What is in files of other kinds than records; and the line that reads them is one that a program may have."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from tests.support.command_line import Command, command


@pytest.fixture
def dfc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """The command, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return command(monkeypatch, capsys)


def shown(dfc: Command, path: str) -> list[str]:
    """What is said of a file; the declarations in it are compiled."""
    done = dfc("data", "inspect", path)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    readers = [line.strip() for line in lines if line.startswith("  var ")]
    for reader in readers:
        Path("a.dfg").write_text(
            f"dfg 1\n\n{reader}\n\nentry at() -> i64 {{ return {reader.split()[1]}.position() }}\n"
        )
        assert dfc("check", "a.dfg").err == ""
    (content,) = json.loads(dfc("data", "inspect", path, "--json").out)["contents"]
    assert (content["path"], content["readers"]) == (path, readers)
    return lines


TABLE = {
    "box": pa.array([None, [[1.0, 2.0]], [[3.0, 4.0]]], pa.list_(pa.list_(pa.float32()))),
    "name": ["a", None, "b"],
    "a.b": [1, 2, 3],
    "when": pa.array([1, 2, 3], pa.timestamp("us")),
}


def test_columns(dfc: Command) -> None:
    parquet.write_table(pa.table(TABLE), "a.parquet", row_group_size=2)
    feather.write_feather(pa.table(TABLE), "a.feather")
    head, _, box, name, odd, when, reader = shown(dfc, "a.parquet")
    assert head.startswith("a.parquet: Parquet in 2 row groups, 3 rows, ")
    assert box.endswith("  1 null") and name.split() == ["name", "string", "1", "null"] and "int64" in odd
    assert when.endswith("  write column.cast(pyarrow.int64())")
    assert reader == '  var rows = parquet_files("a.parquet", (name = string))'
    parquet.write_table(pa.table(TABLE).slice(1), "b.parquet")
    assert shown(dfc, "b.parquet")[-1].endswith("(box = f32[1, 2], name = string))")
    lines = shown(dfc, "a.feather")
    assert lines[0].startswith("a.feather: Arrow file of 1 record batch, 3 rows, ")
    assert lines[-1] == '  var rows = arrow_files("a.feather", (box = f32[1, 2], name = string))'


def test_arrays(dfc: Command) -> None:
    np.savez("a.npz", x=np.zeros((5, 2, 3), np.uint8), y=np.zeros(5, bool), z=np.zeros(4), c=np.zeros(4, complex))
    np.savez_compressed("b.npz", x=np.zeros(3))
    np.save("x.npy", np.zeros((3, 2), ">f4"))
    lines = shown(dfc, "a.npz")
    assert lines[0].startswith("a.npz: archive of arrays, 5 rows, ")
    assert lines[-2:] == [
        '  var rows = array_files("a.npz", (x = u8[2, 3], y = bool))',
        '  var rows = array_files("a.npz", (z = f64))',
    ]
    assert shown(dfc, "b.npz")[-1] == "  x       float64[3]  compressed: write it with numpy.savez"
    assert "highest bytes first" in shown(dfc, "x.npy")[-1]


def test_archives_texts_and_folders(dfc: Command) -> None:
    with tarfile.open("a.tar", "w") as tar:
        for name in ("1.jpg", "1.cls", "2.jpg", "2.cls", "2.seg.png"):
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    lines = shown(dfc, "a.tar")
    assert lines[0].startswith("a.tar: tar archive, 2 samples, ") and lines[4].split() == [
        "seg.png",
        "bytes",
        "in",
        "1",
    ]
    assert lines[-1] == '  var rows = tar_files("a.tar", (jpg = string, cls = i64))'
    Path("a.txt").write_text("one\ntwo\n")
    assert shown(dfc, "a.txt") == ["a.txt: text, 2 lines, 8 B", '  var lines = line_files("a.txt")']
    for name in ("cat/1.jpg", "cat/2.jpg", "dog/1.jpg"):
        Path("pets", name).parent.mkdir(parents=True, exist_ok=True)
        Path("pets", name).write_bytes(b"abc")
    assert shown(dfc, "pets") == [
        "pets: folder of images, 3 images, 9 B",
        "  column  type",
        "  cat     2 images",
        "  dog     1 image",
        '  var images = image_files("pets/*/*.jpg")',
    ]


def test_files_that_are_none_are_one_line_each_with_a_code(dfc: Command) -> None:
    Path("a.parquet").write_bytes(b"PAR1" + bytes(20))
    Path("a.npy").write_bytes(b"1,2")
    Path("a.txt").write_text("a\n")
    done = dfc("data", "inspect", "a.parquet", "a.npy", "a.txt", "no.csv")
    assert done.code == 2 and "a.txt: text, 1 line, 2 B" in done.out
    assert [line[:27] for line in done.err.splitlines()] == [
        "error[E0914]: a.parquet: th",
        "error[E0917]: a.npy: it end",
        "error[E0909]: cannot open n",
    ]
