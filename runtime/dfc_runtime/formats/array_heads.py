"""The heads of arrays as NumPy writes them, in files that anybody may have written.

    mark, version, length of the head, {'descr': '<f4', 'fortran_order': False, 'shape': (10, 3)}, elements

Assumes nothing of the bytes. Guarantees the values of a head, or a `ValueError` of one line: it is read as the few
words that it is made of, never as Python.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import IO, cast

import numpy as np

MARK = b"\x93NUMPY"
LONGEST_HEAD = 10_000
MOST_AXES = 32
_LENGTHS = {1: "<H", 2: "<I", 3: "<I"}
_WORD = re.compile(
    r"""\s*(?:(?P<text>'[^'\\]*'|"[^"\\]*")|(?P<number>\d{1,20})L?(?!\w)|(?P<name>[A-Z]\w*)|(?P<sign>.))""", re.ASCII
)
_KIND = re.compile(r"[<>|=]?[?a-zA-Z]\d{0,10}(\[\w{1,12}\])?", re.ASCII)
_OBJECTS = "it holds Python objects, and a feed is of numbers"


def read_head(file: IO[bytes]) -> tuple[np.dtype[np.generic], tuple[int, ...], bool, int]:
    """Element type, shape, whether the first axis runs fastest, and how many bytes all that took."""
    start = _exactly(file, len(MARK) + 2)
    if start[: len(MARK)] != MARK:
        raise ValueError("it does not begin as one; write it with numpy.save")
    form = _LENGTHS.get(start[-2])
    if form is None or start[-1]:
        raise ValueError(f"its format is {start[-2]}.{start[-1]}; write it with numpy.save")
    (length,) = struct.unpack(form, _exactly(file, struct.calcsize(form)))
    if length > LONGEST_HEAD:
        raise ValueError(f"its head announces {length} bytes of itself, and {LONGEST_HEAD} are the most")
    encoding = "utf-8" if start[-2] == 3 else "latin-1"
    dtype, shape, is_turned = _described(_exactly(file, length).decode(encoding))
    return dtype, shape, is_turned, len(start) + struct.calcsize(form) + length


def _exactly(file: IO[bytes], count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = file.read(count - len(data))
        if not piece:
            raise ValueError("it ends within its head" if data else "it ends before its head")
        data += piece
    return data


def _described(text: str) -> tuple[np.dtype[np.generic], tuple[int, ...], bool]:
    """The head as its three values. `ValueError` if there is anything else in it, or less."""
    words = _words(text)
    fields: dict[str, object] = {}
    _expect(words, "{")
    word = next(words, "")
    while word != "}":
        _expect(words, ":")
        if word in fields or word not in _VALUES:
            raise ValueError("its head is none of an array")
        fields[word] = _VALUES[word](words)
        word = next(words, "")
        if word == ",":
            word = next(words, "")
        elif word != "}":
            raise ValueError("its head is none of an array")
    if len(fields) != len(_VALUES) or next(words, ""):
        raise ValueError("its head is none of an array")
    return cast("tuple[np.dtype[np.generic], tuple[int, ...], bool]", tuple(fields[name] for name in _VALUES))


def _words(text: str) -> Iterator[str]:
    """Texts in single quotes, numbers, names and signs."""
    for match in _WORD.finditer(text.strip()):
        word = match["text"]
        yield f"'{word[1:-1]}'" if word else match["number"] or match["name"] or match["sign"]


def _expect(words: Iterator[str], expected: str) -> None:
    if next(words, "") != expected:
        raise ValueError("its head is none of an array")


def _dtype(words: Iterator[str]) -> np.dtype[np.generic]:
    text = next(words, "")
    if text in ("[", "("):
        raise ValueError("its elements are records, and a feed is of numbers")
    name = text[1:-1]
    if not _KIND.fullmatch(name) or text[:1] != "'":
        raise ValueError("its head names no element type")
    try:
        dtype: np.dtype[np.generic] = np.dtype(name)
    except (TypeError, ValueError, OverflowError, MemoryError):
        raise ValueError(f"its head names the unknown element type {name}") from None
    if dtype.hasobject:
        raise ValueError(_OBJECTS)
    if not dtype.itemsize:
        raise ValueError("its elements have no bytes")
    return dtype


def _flag(words: Iterator[str]) -> bool:
    word = next(words, "")
    if word not in ("True", "False"):
        raise ValueError("its head says not in which order its elements are")
    return word == "True"


def _shape(words: Iterator[str]) -> tuple[int, ...]:
    sizes: list[int] = []
    _expect(words, "(")
    word = next(words, "")
    while word != ")":
        if not word.isdigit() or len(sizes) == MOST_AXES:
            raise ValueError("its head has no shape")
        sizes.append(int(word))
        word = next(words, "")
        if word == ",":
            word = next(words, "")
        elif word != ")":
            raise ValueError("its head has no shape")
    if max(sizes, default=0) > np.iinfo(np.intp).max:
        raise ValueError("its head has a shape that no array has")
    return tuple(sizes)


_VALUES: Mapping[str, Callable[[Iterator[str]], object]] = {
    "'descr'": _dtype, "'shape'": _shape, "'fortran_order'": _flag,
}  # fmt: skip
