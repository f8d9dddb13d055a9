"""Examples of samples in tar archives: files of one name that follow each other are an example, a feature an ending.

The feature `cls` is the number of a class, as WebDataset has it; all others are the bytes of a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dfc.cli.data.examples import Example, Examples, unusable
from dfc_runtime.errors import RecordError
from dfc_runtime.formats.fields import shown
from dfc_runtime.formats.source import FileSource
from dfc_runtime.records.archives import members_of, split_name
from dfc_runtime.records.example import Values

LABEL = "cls"
MOST_DIGITS = 20
_LARGEST = 1 << 63


def from_samples(paths: Sequence[str]) -> Examples:
    """Of `.tar` files, one behind the other."""
    for path in paths:
        source = FileSource(path)
        try:
            yield from _examples(source)
        finally:
            source.close()


def _examples(source: FileSource) -> Iterator[Example]:
    damages: list[RecordError] = []
    last, names = "", set[str]()
    example: dict[str, Values | bytes] = {}
    for member in members_of(source, damages):
        name, ending = split_name(member.name)
        if example and name != last:
            yield example
            example = {}
        if name != last and name in names:
            text = f"files of {shown(name)} stand apart in it: write it with tar --sort=name"
            raise unusable(source.name, text)
        last = name
        names.add(name)
        if not ending or any("\ud800" <= letter <= "\udfff" for letter in ending):
            raise unusable(source.name, f"{shown(member.name)} has no ending that names a feature")
        if ending in example:
            raise unusable(source.name, f"two files of {shown(name)} end in .{shown(ending)}")
        data = source.read(member.offset_data, member.size)
        example[ending] = _label(source.name, member.name, data) if ending == LABEL else data
    if damages:
        raise damages[0]
    if example:
        yield example


def _label(path: str, name: str, data: bytes) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    text = data.strip()
    is_whole = len(text) <= MOST_DIGITS and text.removeprefix(b"-").isdigit()
    if not is_whole or not -_LARGEST <= int(text) < _LARGEST:
        raise unusable(path, f"{shown(name)} holds no number of a class: {shown(text[:40].decode('utf-8', 'replace'))}")
    return np.array([int(text)], np.int64)
