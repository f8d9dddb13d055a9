"""Rows of arrays are those that NumPy reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.errors import RecordError
from dfc_runtime.records import arrays
from dfc_runtime.records.arrays import ArrayFiles
from dfc_runtime.records.fields import NUMPY_TYPES, Field, RecordLayout

LAYOUT = RecordLayout((Field("label", "i64"), Field("image", "u8", (5, 3))))


def some(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "image": rng.integers(0, 256, (count, 5, 3), dtype=np.uint8),
        "unused": rng.random(count + 1),
        "label": rng.integers(-(2**63), 2**63 - 1, count),
    }


def packed(parts: list[dict[str, np.ndarray]]) -> list[bytes]:
    """Records by their definition."""
    return [
        part["label"][row].tobytes() + part["image"][row].tobytes()
        for part in parts
        for row in range(len(part["label"]))
    ]


@pytest.mark.parametrize("read_through", [0, 100, 4096])
def test_rows_of_archives_are_read_at_random(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_through: int
) -> None:
    monkeypatch.setattr(arrays, "READ_THROUGH", read_through)
    parts = [some(count, count) for count in (40, 1, 25)]
    for number, part in enumerate(parts):
        np.savez(tmp_path / f"{number}.npz", **part)
    wanted = packed(parts)
    paths = [tmp_path / f"{number}.npz" for number in range(3)]
    for numbers in (np.arange(66), np.random.default_rng(1).permutation(66), np.array([65, 3, 3, 40, 4, 0])):
        with ArrayFiles(paths, "fail", LAYOUT) as files:
            frames = files.read(numbers).frames
            assert [frames.record(row) for row in range(len(numbers))] == [wanted[number] for number in numbers]
            assert files.sizes(numbers).tolist() == frames.lengths.tolist()


@pytest.mark.parametrize("dtype", sorted(NUMPY_TYPES))
def test_a_file_of_one_array_holds_the_one_field(tmp_path: Path, dtype: str) -> None:
    array = np.arange(24).reshape(4, 2, 3).astype(NUMPY_TYPES[dtype])
    np.save(tmp_path / "any.npy", array)
    with ArrayFiles([tmp_path / "any.npy"], "fail", RecordLayout((Field("x", dtype, (6,)),))) as files:
        frames = files.read(np.array([3, 0])).frames
        assert [frames.record(row) for row in range(2)] == [array[3].tobytes(), array[0].tobytes()]


WRONG = {
    "it has no array label; did you mean labels.; its arrays: labels, image": {
        "labels": np.zeros(3, np.int64),
        "image": np.zeros((3, 15), np.uint8),
    },
    r"label is int32\[3\], and rows of i64 are wanted": {"label": np.zeros(3, np.int32)},
    r"image has rows of \[14\], and rows of u8\[5, 3\] are wanted": {"image": np.zeros((3, 14), np.uint8)},
    r"its arrays have other numbers of rows: label 2, image 3": {"label": np.zeros(2, np.int64)},
    "label has its highest bytes first": {"label": np.zeros(3, ">i8")},
    "image lies column by column": {"image": np.zeros((3, 15), np.uint8, order="F")},
    r"label is int64\[\]": {"label": np.array(3)},
}


@pytest.mark.parametrize("reason", WRONG)
def test_arrays_that_are_not_as_wanted_are_refused(tmp_path: Path, reason: str) -> None:
    good = {"label": np.zeros(3, np.int64), "image": np.zeros((3, 15), np.uint8)}
    np.savez(tmp_path / "a.npz", **(WRONG[reason] if "labels" in WRONG[reason] else {**good, **WRONG[reason]}))
    with pytest.raises(RecordError, match=rf"a\.npz holds no arrays that are wanted: {reason}") as caught:
        ArrayFiles([tmp_path / "a.npz"], "fail", LAYOUT)
    assert caught.value.code == "E0916"


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    np.savez_compressed(tmp_path / "a.npz", **some(3))
    compressed = (tmp_path / "a.npz").read_bytes()
    np.save(tmp_path / "a.npy", some(3)["image"])
    kinds = {
        "its array label is compressed, .*: write it with numpy.savez": compressed,
        "it is one array, and the fields label, image are wanted": (tmp_path / "a.npy").read_bytes(),
        "it begins as neither": b"label,image\n",
        "it is compressed by gzip": b"\x1f\x8b\x08" + bytes(30),
        "is not a zip file": compressed[:100],
        "it begins as neither  # empty": b"",
    }
    for reason, data in kinds.items():
        path.write_bytes(data)
        with pytest.raises(RecordError, match=rf"/a holds no arrays that are wanted: .*{reason.split('  #')[0]}"):
            ArrayFiles([path], "fail", LAYOUT)


def test_a_file_that_ends_too_early_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(10.0))
    data = path.read_bytes()
    layout = RecordLayout((Field("x", "f64"),))
    path.write_bytes(data[:-20])
    with pytest.raises(RecordError, match=r"a\.npy: its array has 10 rows, and the file ends after 7 of") as caught:
        ArrayFiles([path], "fail", layout)
    assert (caught.value.code, caught.value.record, caught.value.offset) == ("E0914", 7, len(data) - 20)
    with ArrayFiles([path], "skip", layout) as files:
        assert (files.count, [each.code for each in files.damages]) == (7, ["E0914"])
        path.write_bytes(data[:-40])
        with pytest.raises(RecordError, match="has changed since it was opened"):
            files.read(np.array([6]))
