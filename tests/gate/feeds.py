"""Damaged feeds: archives, arrays, texts and things that are no files. Each ends in one line and exit code 2, or is a
feed after all; nothing is allocated because a file claims that it needs it, and nothing waits.

    python -m tests.gate.feeds [COUNT] [--seed N]
"""

from __future__ import annotations

import io
import os
import random
import socket
import struct
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from dfc.driver import api
from tests.support import gating

COUNT = 1000
MEMORY = 512 << 20
"""Less than what heads claim, and more than the compressor of LZMA takes that makes some of the cases."""
PROGRAM = "dfg 1\nreadonly entry first[B](x: f32[B, 3]) -> f32 { return sum(x) }\n"
Damage = Callable[[random.Random, Path], str]


# ------------------------------------------------------------------- makers --


def array_bytes(rng: random.Random, shape: tuple[int, ...] = (4, 3), dtype: str = "<f4") -> bytes:
    written = io.BytesIO()
    made = np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
    np.save(written, np.asfortranarray(made) if rng.random() < 0.2 else made)
    return written.getvalue()


def with_head(text: str, rng: random.Random, data: bytes = bytes(48)) -> bytes:
    """An array file with this head, whose length need not be true."""
    version = rng.choice((1, 1, 2, 3))
    head = text.encode("utf-8", "surrogatepass")
    length = rng.choice((len(head),) * 6 + (0, 1, len(head) + 1, 9_999, 65_535, 2**31, 2**32 - 1))
    form, most = ("<H", 0xFFFF) if version == 1 else ("<I", 0xFFFFFFFF)
    return b"\x93NUMPY" + bytes((version, 0)) + struct.pack(form, min(length, most)) + head + data


def archive_bytes(rng: random.Random, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    written = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(written, "w", method) as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, data in members.items():
            with archive.open(name, "w", force_zip64=rng.random() < 0.2) as member:
                member.write(data)
    return written.getvalue()


def an_archive(rng: random.Random, method: int | None = None) -> bytes:
    chosen = method if method is not None else rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    return archive_bytes(rng, {"x.npy": array_bytes(rng, (40, 3)), "y.npy": array_bytes(rng, (5,))}, chosen)


def written(folder: Path, name: str, data: bytes) -> str:
    (folder / name).write_bytes(data)
    return f"{folder / name}:x" if name.endswith(".npz") else str(folder / name)


# ------------------------------------------------------------------- damage --


def disturbed(data: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(data)
    action = rng.randrange(5)
    if action == 0:
        for _ in range(rng.choice((1, 2, 16))):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    elif action == 1:
        del damaged[rng.randrange(len(damaged)) :]
    elif action == 2:
        damaged += rng.randbytes(rng.choice((1, 8, 300)))
    elif action == 3:
        place = rng.randrange(len(damaged))
        damaged[place : place + 8] = rng.choice((b"\0" * 8, b"\xff" * 8, rng.randbytes(8), b"PK\1\2", b"PK\5\6"))
    else:
        start, target = rng.randrange(len(damaged)), rng.randrange(len(damaged))
        damaged[target:target] = damaged[start : start + rng.randrange(200)]
    return bytes(damaged)


def disturbed_array(rng: random.Random, folder: Path) -> str:
    return written(folder, "d.npy", disturbed(array_bytes(rng), rng))


def disturbed_archive(rng: random.Random, folder: Path) -> str:
    return written(folder, "d.npz", disturbed(an_archive(rng), rng))


def disturbed_stream(rng: random.Random, folder: Path) -> str:
    """The compressed bytes alone."""
    data = bytearray(an_archive(rng, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        member = archive.getinfo("x.npy")
    start = member.header_offset + 30 + len("x.npy")
    for _ in range(rng.choice((1, 1, 4))):
        data[start + rng.randrange(member.compress_size)] ^= 1 << rng.randrange(8)
    return written(folder, "s.npz", bytes(data))


def disturbed_directory(rng: random.Random, folder: Path) -> str:
    """One field of a central or local header, or of the end record, is another number."""
    data = bytearray(an_archive(rng))
    mark, fields = rng.choice(
        (
            (b"PK\1\2", ((4, 2), (6, 2), (8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (42, 4))),
            (b"PK\3\4", ((4, 2), (6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2))),
            (b"PK\5\6", ((4, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2))),
        )
    )
    place, size = rng.choice(fields)
    start = data.index(mark) + place
    number = rng.choice((0, 1, 2, 9, 0x21, 0x41, 99, 0x7FFFFFFF, 0xFFFFFFFF, 0xFFFE, rng.randrange(1 << 32)))
    data[start : start + size] = (number % (1 << 8 * size)).to_bytes(size, "little")
    return written(folder, "c.npz", bytes(data))


def other_methods(rng: random.Random, folder: Path) -> str:
    if rng.random() < 0.5:
        data = an_archive(rng, rng.choice((zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)))
        return written(folder, "m.npz", data if rng.random() < 0.3 else disturbed(data, rng))
    data, method = bytearray(an_archive(rng)), rng.choice((1, 2, 6, 8, 9, 12, 14, 93, 95, 98, 99, 65535))
    for mark, place in ((b"PK\1\2", 10), (b"PK\3\4", 8)):
        start = data.index(mark) + place
        data[start : start + 2] = method.to_bytes(2, "little")
    return written(folder, "m.npz", bytes(data))


def encrypted(rng: random.Random, folder: Path) -> str:
    data, bits = bytearray(an_archive(rng)), rng.choice((0x1, 0x41, 0x2001, 0x20, 0x40, 0x800))
    for mark, place in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        start = data.index(mark) + place
        data[start : start + 2] = bits.to_bytes(2, "little")
    return written(folder, "e.npz", bytes(data))


def bomb(rng: random.Random, folder: Path) -> str:
    """Heads that announce much, in front of little, or of much that was compressed to little."""
    rows = rng.choice((2**20, 2**30, 2**40, 2**60, 2**63, 10**30))
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 3), }}\n"
    data = b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + bytes(rng.choice((0, 48, 1 << 20)))
    if rng.random() < 0.4:
        return written(folder, "b.npy", data)
    return written(folder, "b.npz", archive_bytes(rng, {"x.npy": data}))


HEADS = (
    "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }",
    "{'shape': %s, 'fortran_order': True, 'descr': '<f4'}",
    "{'descr': %s, 'fortran_order': False, 'shape': (4, 3)}",
    "{'descr': '%s', 'fortran_order': False, 'shape': (4, 3)}",
    "{'descr': '<f4', 'fortran_order': %s, 'shape': (4, 3)}",
    "{%s: '<f4', 'fortran_order': False, 'shape': (4, 3)}",
    "%s",
)
PIECES = (
    "(4, 3)", "(4L, 3L)", "(-1, 3)", "()", "(,)", "(12)", "[4, 3]", "(4.0, 3)", "(0, 3)", "(0, 4611686018427387904, 4)",
    f"({'1,' * 33})", f"({'1,' * 2000})", "(" * 5000, "[" * 200 + "]" * 200, "-" * 9000 + "1", "~" * 3000, "9" * 9000,
    "(9223372036854775807, 9223372036854775807)", "True", "1", "None", "'", '"', "\\x00", "\x00", "\u202e", "\udc80",
    "__import__('os').abort()", "{}", "{" * 4000, "'<f4' " * 100, "<f4", "|O", "O", "O8", "<U9999999999", "|S0", "<V2",
    "|V2147483647", "<M8[ns]", "<m8[generic]", "f4,f4", "(2,2)f4", "[('a', '<f4')]", "[('a', '|O')]", "<f16", "<c8",
    "<f4000000000", "?" * 50, ">f4", "=f4", "²", "٣", "(٣, 3)", "lambda: 0", "(4, 3)" * 50, "+".join(["1"] * 3000),
)  # fmt: skip


def strange_head(rng: random.Random, folder: Path) -> str:
    data = with_head(rng.choice(HEADS) % rng.choice(PIECES), rng)
    if rng.random() < 0.6:
        return written(folder, "h.npy", data)
    return written(folder, "h.npz", archive_bytes(rng, {"x.npy": data}))


NAMES = (
    "x", "x.npy", "x/", "x/x.npy", "../x.npy", "/x.npy", "X.npy", "x.NPY", ".npy", " x.npy", "x\u202e.npy",
    "x\x1b[31m.npy", "é.npy", "\n.npy", "x.npy.npy", "a" * 60_000, "",
)  # fmt: skip


def strange_names(rng: random.Random, folder: Path) -> str:
    members = {rng.choice(NAMES): array_bytes(rng) for _ in range(rng.choice((0, 1, 2, 5)))}
    data = bytearray(archive_bytes(rng, members, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))))
    if rng.random() < 0.3:
        data = bytearray(bytes(data).replace(b"x.npy", rng.choice((b"\xff.npy", b"x.np\0", b"y.npy", b"\x80\x81npy"))))
    key = rng.choice(("x", "", ":", "x.npy", "../x", "\u202e", "\x1b[2J", "é", "a" * 200))
    return written(folder, "n.npz", bytes(data)).removesuffix("x") + key


def objects(rng: random.Random, folder: Path) -> str:
    made = (
        np.array([1, None, [2, [3]]], dtype=object) if rng.random() < 0.7 else np.zeros(3, [("a", "<f4"), ("b", "O")])
    )
    written_ = io.BytesIO()
    np.save(written_, made, allow_pickle=True)
    if rng.random() < 0.5:
        return written(folder, "o.npy", written_.getvalue())
    return written(folder, "o.npz", archive_bytes(rng, {"x.npy": written_.getvalue()}))


def no_file(rng: random.Random, folder: Path) -> str:
    """Pipes, devices, folders, links, sockets, and names that no file has."""
    kind, ending = rng.randrange(8), rng.choice((".npy", ".npz"))
    path = folder / f"strange{ending}"
    key = ":x" if ending == ".npz" else ""
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind == 2:
        path.symlink_to(path)
    elif kind == 3:
        path.symlink_to(
            rng.choice(("/dev/zero", "/dev/null", "/dev/full", "/proc/self/mem", "/proc/self/environ", "none"))
        )
    elif kind == 4:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    elif kind == 5:
        return f"{folder}/{'n' * rng.choice((300, 5000))}{ending}{key}"
    elif kind == 6:
        name = rng.choice(("a\0b", "x/y", "", ".", "..", "\udc80"))
        return f"{folder}/{name}{ending}{key}"
    else:
        path.write_bytes(rng.choice((b"", b"\x93NUMPY", b"PK\5\6" + bytes(18), b"PK\5\6" + bytes(17))))
    return f"{path}{key}"


TEXTS = (
    "", " ", "nan", "inf", "1e999", "-1e999", "0x" + "f" * 5000, "1" * 5000, "1_000", "٣", "true", "x", "1;2", "[1]",
    "(1,", "\x1b[31m", "\u202e", "1\n2", "\x00", "=", "--", "-", ":", "a.npz:", ".npz:", ".npy", ".npz", "0b2", "1e",
    "1j", "é" * 3000,
)  # fmt: skip


def strange_text(rng: random.Random, folder: Path) -> str:
    return rng.choice(TEXTS)


DAMAGES: tuple[Damage, ...] = (
    disturbed_array, disturbed_archive, disturbed_stream, disturbed_directory, other_methods, encrypted, bomb,
    strange_head, strange_names, objects, no_file, strange_text,
)  # fmt: skip


# -------------------------------------------------------------------- cases --


@cache
def bundle() -> str:
    """The bundle that is fed, on the disk."""
    folder = tempfile.TemporaryDirectory(prefix="dfc-feeds-")
    _KEPT.append(folder)
    path = Path(folder.name) / "first.bundle"
    path.write_bytes(api.compile(text=PROGRAM).to_bytes())
    return str(path)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def cases(seed: int) -> gating.Case:
    """The cases of a seed."""
    path = bundle()

    def case(number: int) -> str:
        rng = gating.generator(number, seed)
        damage = DAMAGES[number % len(DAMAGES)]
        with tempfile.TemporaryDirectory(prefix="dfc-feed-") as folder:
            feed = damage(rng, Path(folder))
            code, out, err = gating.outcome("run", path, "first", "--feed", f"x={feed}")
        return fault(damage.__name__, code, out, err)

    return case


def fault(what: str, code: int, out: str, err: str) -> str:
    """What is not as it should be; "" if all is."""
    if code == 0 and not err:
        return ""
    if code == 2 and err.startswith("error") and len(err.splitlines()) <= 3 and not out and "a bug in dfc" not in err:
        return ""
    return f"{what}: exit code {code}\n{out[-500:]}{err[-1000:]}"


if __name__ == "__main__":
    sys.exit(gating.main(__doc__ or "", cases, COUNT, memory=MEMORY))
