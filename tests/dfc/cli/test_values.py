"""`dfc run`: feeds that do not fit end in one message, before anything runs."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.support.command_line import Command


def write_strange(folder: Path) -> None:
    """Files that are feeds by their names only."""
    np.save(folder / "double.npy", np.zeros((4, 3)))
    np.save(folder / "turned.npy", np.zeros((3, 4), np.float32))
    np.save(folder / "flat.npy", np.zeros(12, np.float32))
    np.save(folder / "swapped.npy", np.zeros((4, 3), ">f4"))
    np.save(folder / "words.npy", np.array(["a", "b"]))
    np.save(folder / "objects.npy", np.array([1, None], dtype=object), allow_pickle=True)
    np.savez(folder / "objects.npz", x=np.array([1, None], dtype=object))
    data = (folder / "data.npz").read_bytes()
    (folder / "short.npz").write_bytes(data[: len(data) // 2])
    (folder / "text.npy").write_text("no array")
    (folder / "empty.npy").write_bytes(b"")
    (folder / "text.npz").write_text("no archive")
    whole = io.BytesIO()
    np.save(whole, np.zeros((4, 3), np.float32))
    (folder / "short.npy").write_bytes(whole.getvalue()[:-5])
    with zipfile.ZipFile(folder / "strange.npz", "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00\xff\xff")
        archive.writestr("y.npy", b"no array at all")


WRONG = [
    ("x=none.npy", "the feed x: there is no file none.npy"),
    ("x=none.npz:x", "the feed x: there is no file none.npz"),
    ("x=data.npz", "the feed x names an archive without a key; write x=data.npz:KEY"),
    ("x=data.npz:z", "the feed x: data.npz has no array 'z'; it holds x, y"),
    ("x=objects.npy", "objects.npy is not a usable array file: it holds Python objects, and a feed is of numbers"),
    (
        "x=objects.npz:x",
        "'x' in objects.npz is not a usable array: it holds Python objects, and a feed is of numbers",
    ),
    ("x=short.npy", "the feed x: short.npy is not a usable array file"),
    ("x=short.npz:x", "the feed x: short.npz is not a usable archive"),
    ("x=text.npy", "text.npy is not a usable array file: it does not begin as one; write it with numpy.save"),
    ("x=empty.npy", "the feed x: empty.npy is not a usable array file"),
    ("x=text.npz:x", "the feed x: text.npz is not a usable archive"),
    ("x=strange.npz:x", "the feed x: 'x' in strange.npz is not a usable array: its head announces 65535 bytes"),
    ("x=strange.npz:y", "the feed x: 'y' in strange.npz is not a usable array: it does not begin as one"),
    ("x=double.npy", "wants x: f32[B, 3], but got float64 of shape (4, 3)"),
    ("x=turned.npy", "wants x: f32[B, 3], but got float32 of shape (3, 4)"),
    ("x=flat.npy", "wants x: f32[B, 3], but got float32 of shape (12,)"),
    ("x=swapped.npy", "wants x: f32[B, 3], but got big-endian float32 of shape (4, 3)"),
    ("x=words.npy", "wants x: f32[B, 3], but got"),
    ("x=1.5", "wants x: f32[B, 3], but got 1.5"),
    ("x=", "'' is no number; write a number, FILE.npy or FILE.npz:KEY"),
    ("z=x.npy", "has no feed z; it takes the feeds x"),
    ("B=4", "takes no feed B: the shapes of its feeds decide that size"),
    ("x", "feed 'x' is not of the form NAME=VALUE"),
    ("=x.npy", "feed '=x.npy' is not of the form NAME=VALUE"),
]


@pytest.mark.parametrize(("pair", "told"), WRONG)
def test_a_wrong_feed_is_told_in_one_message(pair: str, told: str, folder: Path, dfc: Command) -> None:
    write_strange(folder)
    ended = dfc("run", "line.bundle", "predict", "--feed", pair)
    assert ended.code == 2
    assert told in ended.message
    assert len(ended.err.splitlines()) <= 3


@pytest.mark.parametrize(
    ("pairs", "told"),
    [
        ([], "misses the feed part: i32, the feed whole: i32"),
        (["part=1"], "misses the feed whole: i32"),
        (["part=1", "whole=2", "more=3"], "has no feed more; it takes the feeds part, whole"),
        (["part=1", "whole=2", "hole=3"], "has no feed hole; did you mean whole?"),
        (["part=1", "part=2"], "the feed part is given twice"),
        (["part=1.5", "whole=2"], "wants part: i32, but got 1.5"),
        (["part=3000000000", "whole=2"], "it does not fit: i32 holds -2147483648 to 2147483647"),
        (["part=true", "whole=2"], "wants part: i32, but got True"),
        (["part=one", "whole=2"], "'one' is no number"),
        (["part=x.npy", "whole=2"], "wants part: i32, but got float32 of shape (10, 3)"),
    ],
)
def test_wrong_numbers_are_told(pairs: list[str], told: str, folder: Path, dfc: Command) -> None:
    ended = dfc("run", "line.bundle", "share", *[word for pair in pairs for word in ("--feed", pair)])
    assert ended.code == 2
    assert told in ended.message


@pytest.mark.parametrize(("pairs", "told"), [([], "misses the size N"), (["N=-1"], "wants a size of at least 0")])
def test_a_size_no_feed_decides_is_a_feed(pairs: list[str], told: str, folder: Path, dfc: Command) -> None:
    ended = dfc("run", "line.bundle", "grid", "--feed", "first=0", *[w for p in pairs for w in ("--feed", p)])
    assert ended.code == 2
    assert told in ended.message


def test_feeds_that_disagree_on_a_size_are_told(folder: Path, dfc: Command) -> None:
    np.savez("uneven.npz", x=np.zeros((4, 3), np.float32), y=np.zeros(5, np.float32))
    words = ("--feed", "x=uneven.npz:x", "--feed", "y=uneven.npz:y", "--feed", "rate=1")
    for batch in ((), ("--batch", "2")):
        ended = dfc("run", "line.bundle", "train", *words, *batch)
        assert ended.code == 2
        assert "B" in ended.message
        assert "4 in x" in ended.err
        assert "5 in y" in ended.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("add", "--feed", "a=1", "--feed", "b=2"), "no feed with a symbolic size"),
        (("predict", "--feed", "x=1"), "no array with an axis 0"),
        (("predict",), "no feed of `predict` has the size `B`"),
    ],
)
def test_what_cannot_be_cut_into_batches_is_told(words: tuple[str, ...], told: str, folder: Path, dfc: Command) -> None:
    ended = dfc("run", "line.bundle", *words, "--batch", "2")
    assert ended.code == 2
    assert told in ended.message


def test_nothing_runs_when_a_feed_is_wrong(folder: Path, dfc: Command) -> None:
    ended = dfc("run", "line.bundle", "fill", "--feed", "value=x", "--state", "state")
    assert ended.code == 2
    assert not (folder / "state").exists()


def test_no_feeds_at_all_make_no_steps(folder: Path, dfc: Command) -> None:
    np.save("none.npy", np.zeros((0, 3), np.float32))
    ended = dfc("run", "line.bundle", "predict", "--feed", "x=none.npy", "--batch", "4")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("predict: 0 steps")
