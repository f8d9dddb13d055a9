"""Files to source texts.

Guarantees that what it gives is text of bounded size: any other bytes are one message about the first bad place.
"""

from __future__ import annotations

from pathlib import Path

from dfc.diagnostics import CompileError, error
from dfc.parsing.limits import SIZE_LIMIT, too_large
from dfc.source import SourceFile

BYTE_ORDER_MARK = "\ufeff"


def read_source(path: Path, name: str | None = None) -> SourceFile:
    """The text of a file under the name that messages shall use; `OSError` is the caller's to report."""
    shown = str(path) if name is None else name
    size = path.stat().st_size
    if size > SIZE_LIMIT:
        raise CompileError([too_large(SourceFile(shown, ""), size)])
    return decode_source(path.read_bytes(), shown)


def decode_source(data: bytes, name: str) -> SourceFile:
    """The text that UTF-8 bytes spell, without a byte order mark."""
    if len(data) > SIZE_LIMIT:
        raise CompileError([too_large(SourceFile(name, ""), len(data))])
    try:
        return SourceFile(name, data.decode().removeprefix(BYTE_ORDER_MARK))
    except UnicodeDecodeError as failure:
        good = data[: failure.start].decode()
        source = SourceFile(name, good + data[failure.start :].decode(errors="replace"))
        place = source.span(len(good), len(good) + 1)
        byte = f"the byte 0x{data[failure.start]:02X} begins no character"
        problem = error("E0141", "this file is not valid UTF-8", place, byte)
        raise CompileError([problem]) from failure
