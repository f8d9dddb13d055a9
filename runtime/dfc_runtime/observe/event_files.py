"""Event files that TensorBoard shows, written by its own library, which is an extra.

Guarantees that what was recorded is in the file after `close`, and when the interpreter ends.
"""

from __future__ import annotations

import weakref
from importlib import import_module
from pathlib import Path
from typing import Any

from dfc_runtime.errors import FileError, UnsupportedError
from dfc_runtime.observe.summaries import FileSink, Histogram, Summary

LIBRARY = "tensorboard.summary.writer.event_file_writer"
MESSAGES = ("tensorboard.compat.proto.event_pb2", "tensorboard.compat.proto.summary_pb2")


class EventFiles(FileSink):
    """A sink that writes to a new event file in a folder, which is made if it is not there."""

    def __init__(self, folder: Path) -> None:
        try:
            writer = import_module(LIBRARY)
            self._event, self._summary = (import_module(name) for name in MESSAGES)
        except ImportError:
            text = "event files need the library tensorboard: pip install 'dfc[tensorboard]'; or name a file .jsonl"
            raise UnsupportedError(text, code="E1001") from None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._writer: Any = writer.EventFileWriter(str(folder))
        except OSError as problem:
            raise FileError(f"cannot write {folder}: {problem.strerror or problem}", code="E0909") from None
        self._finish = weakref.finalize(self, self._writer.close)

    def __call__(self, event: Summary) -> None:
        if isinstance(event.value, Histogram):
            value = self._summary.Summary.Value(tag=event.tag, histo=self._histogram(event.value))
        else:
            value = self._summary.Summary.Value(tag=event.tag, simple_value=float(event.value))
        summary = self._summary.Summary(value=[value])
        self._writer.add_event(self._event.Event(wall_time=event.time, step=event.step, summary=summary))

    def _histogram(self, summary: Histogram) -> object:
        """The format gives each bucket its right edge; a first one without elements tells where the next begins."""
        return self._summary.HistogramProto(
            min=summary.minimum,
            max=summary.maximum,
            num=summary.count,
            sum=summary.sum,
            sum_squares=summary.sum_of_squares,
            bucket_limit=list(summary.edges),
            bucket=[0, *summary.counts] if summary.edges else [],
        )

    def close(self) -> None:
        self._finish()
