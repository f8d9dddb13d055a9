"""Where summaries go: the sink for what the caller of `load` names.

Assumes nothing of a path. Guarantees that the library behind event files is imported by those alone who write them.
"""

from __future__ import annotations

import os
from pathlib import Path

from dfc_runtime.observe.summaries import JsonLines, Recent, Sink

Destination = str | os.PathLike[str] | Sink


def opened(destination: Destination | None) -> Sink:
    """The sink for what `load` was given: a path ending in `.jsonl` is a file of lines, another one a folder of event
    files for TensorBoard, nothing means that the latest events are kept in memory."""
    if destination is None:
        return Recent()
    if not isinstance(destination, (str, os.PathLike)):
        return destination
    path = Path(os.fspath(destination))
    if path.suffix == ".jsonl":
        return JsonLines(path)
    from dfc_runtime.observe.event_files import EventFiles  # the library behind it is optional, and slow to import

    return EventFiles(path)
