"""Arrays in files: what NumPy writes is read as NumPy reads it, and nothing else is read."""

from __future__ import annotations

import io
import struct
import zipfile
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dfc.cli.array_files import Archive, read_array
from tests.support.one_test_for_all import one_test_for_all

KINDS = ("<f4", ">f4", "<f8", "<f2", "<i8", "|u1", "|b1", "<c8", "<U3", "|S5", "<M8[s]", "|V3")
SHAPES = ((), (0,), (5,), (4, 3), (2, 0, 3), (1,) * 32)


def written(path: Path, head: str, version: tuple[int, int] = (1, 0), data: bytes = b"") -> str:
    form = "<H" if version[0] == 1 else "<I"
    path.write_bytes(b"\x93NUMPY" + bytes(version) + struct.pack(form, len(head)) + head.encode() + data)
    return str(path)


@one_test_for_all(product(KINDS, SHAPES, (False, True)))
def test_an_array_is_what_numpy_reads(case: tuple[str, tuple[int, ...], bool], tmp_path: Path) -> None:
    kind, shape, turned = case
    count = int(np.prod(shape))
    array = np.frombuffer(bytes(k % 2 for k in range(count * np.dtype(kind).itemsize)), kind).reshape(shape)
    array = np.array(array, order="F" if turned else "C")
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "stored.npz", array)
    np.savez_compressed(tmp_path / "deflated.npz", array)
    wanted = np.load(tmp_path / "x.npy")
    found = [read_array(str(tmp_path / "x.npy"))]
    for name in ("stored", "deflated"):
        with Archive(str(tmp_path / f"{name}.npz")) as archive:
            assert archive.keys == ["arr_0"]
            found.append(archive.read("arr_0"))
    for each in found:
        assert (each.dtype, each.shape) == (wanted.dtype, wanted.shape)
        assert each.tobytes() == wanted.tobytes()
    assert found[0].flags.f_contiguous == wanted.flags.f_contiguous


@pytest.mark.parametrize(
    "head",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n",
        '{"shape":(2,3),"fortran_order":False,"descr":"<f4"}',
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }",
        " { 'shape' : ( 2 , 3 , ) , 'descr' : '<f4' , 'fortran_order' : False } ",
    ],
)
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_heads_of_other_writers_are_read(head: str, version: tuple[int, int], tmp_path: Path) -> None:
    data = np.arange(6, dtype="<f4")
    found = read_array(written(tmp_path / "x.npy", head, version, data.tobytes()))
    assert np.array_equal(found, data.reshape(2, 3))


HEAD = "{'descr': '<f4', 'fortran_order': False, 'shape': %s}"


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (HEAD % "(2,)" + "1", "its head is none"),
        (HEAD % "(-2,)", "its head has no shape"),
        (HEAD % "(2)(", "its head is none"),
        (HEAD % "(2.0,)", "its head has no shape"),
        (HEAD % f"({'1,' * 33})", "its head has no shape"),
        (HEAD % "(99999999999999999999,)", "a shape that no array has"),
        (HEAD % "(1000000000000,)", "announces 4000000000000 bytes, and at most 8 follow"),
        (HEAD % "(3,)", "announces 12 bytes, and at most 8 follow"),
        (HEAD % "(1,)", "something follows its array"),
        ("{'descr': '<f4', 'shape': (2,)}", "its head is none"),
        ("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "its head is none"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "it holds Python objects"),
        ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", "its elements are records"),
        ("{'descr': '|S0', 'fortran_order': False, 'shape': (2,)}", "no bytes"),
        ("{'descr': 'f4,f4', 'fortran_order': False, 'shape': (1,)}", "names no element type"),
        ("{'descr': '<q9', 'fortran_order': False, 'shape': (1,)}", "the unknown element type <q9"),
        ("(" * 9000, "its head is none"),
        ("", "its head is none"),
    ],
)
def test_other_heads_are_refused_for_a_reason(head: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=reason.replace("(", r"\(")):
        read_array(written(tmp_path / "x.npy", head, data=bytes(8)))


def test_a_checksum_that_is_wrong_is_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.arange(12, dtype="f4"))
    data = bytearray((tmp_path / "x.npz").read_bytes())
    data[data.index(np.float32(7).tobytes())] ^= 1
    (tmp_path / "x.npz").write_bytes(data)
    with Archive(str(tmp_path / "x.npz")) as archive, pytest.raises(ValueError, match="CRC"):
        archive.read("x")


def test_an_array_that_is_there_twice_is_none(tmp_path: Path) -> None:
    whole = io.BytesIO()
    np.save(whole, np.zeros(3))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as made, pytest.warns(UserWarning):
        made.writestr("x.npy", whole.getvalue())
        made.writestr("x.npy", whole.getvalue())
    with Archive(str(tmp_path / "x.npz")) as archive, pytest.raises(ValueError, match="more than once"):
        archive.read("x")
