"""Files of images in folders as packed records: the bytes of a file, and the number of the folder that it is in.

Folders are numbered by the order of the bytes of their own names, so `train/cat/1.jpg` and `more/cat/1.jpg` have one
label. Assumes nothing of the bytes: whether they are an image is seen where they are decoded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from dfc_runtime.formats.source import FileSource
from dfc_runtime.records.fields import RecordLayout
from dfc_runtime.records.framing import Frames, Numbers, OnError
from dfc_runtime.records.index import RecordIndex
from dfc_runtime.records.packing import PackedFiles, packed
from dfc_runtime.terminal import in_one_line


class ImageFiles(PackedFiles):
    """A record each. Strings of the layout are the bytes, and numbers the label."""

    def __init__(self, paths: Sequence[str | os.PathLike[str]], on_error: OnError, layout: RecordLayout) -> None:
        folders = [os.path.basename(os.path.dirname(os.path.abspath(path))) for path in paths]
        numbers = {name: number for number, name in enumerate(sorted({*folders}, key=os.fsencode))}
        self._labels = np.array([numbers[name] for name in folders], np.int64)
        super().__init__(paths, on_error, layout)

    def index(self, source: FileSource) -> RecordIndex:
        whole = np.array([source.size], np.int64)
        return RecordIndex(source.name, source.size, source.modified, np.zeros(1, np.int64), whole)

    def described(self, number: int) -> tuple[str, str, int]:
        path = self.indices[number].path
        return f"the file {in_one_line(path)}", path, 0

    def pack(self, numbers: Numbers) -> tuple[Frames, Mapping[int, str]]:
        files, offsets, lengths = self.locate(numbers)
        raw = self._frames(files, offsets, lengths)
        values = {field.name: self._labels[files] for field in self.layout.fields if not field.is_string}
        ranges = raw.starts, raw.starts + lengths
        strings = {field.name: ranges for field in self.layout.fields if field.is_string}
        return packed(self.layout, len(numbers), values, raw.data, strings), {}
