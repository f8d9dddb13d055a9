"""Files to source texts.

Guarantees that what it gives is text of bounded size: any other bytes are one message about the first bad place.
"""

from __future__ import annotations

from pathlib import Path

from dfc.diagnostics.diagnostic import CompileError, error
from dfc.diagnostics.source import SourceFile
from dfc.syntax.reader.limits import SIZE_LIMIT, too_large

DEPLOYMENT = ".deploy"
BYTE_ORDER_MARK = "\ufeff"
_LENGTH_BYTES, _HEADER = 8, b'{"'


def _is_bundle(data: bytes) -> bool:
    """Whether it begins as safetensors do: the length of a header of JSON, which never fills all its bytes, and it."""
    return data[_LENGTH_BYTES - 1 : _LENGTH_BYTES + len(_HEADER)] == b"\0" + _HEADER


def is_deployment(source: SourceFile) -> bool:
    """Whether a file is one of deployment: by its name, or for a text without one by its first word."""
    return source.name.endswith(DEPLOYMENT) or (
        source.name.startswith("<") and source.text.lstrip().startswith("deploy ")
    )


def read_source(path: Path, name: str | None = None) -> SourceFile:
    """The text of a file under the name that messages shall use; `OSError` is the caller's to report."""
    shown = str(path) if name is None else name
    size = path.stat().st_size
    if size > SIZE_LIMIT:
        with path.open("rb") as file:
            start = file.read(_LENGTH_BYTES + len(_HEADER))
        if not _is_bundle(start):
            raise CompileError([too_large(SourceFile(shown, ""), size)])
        return decode_source(start, shown)
    with path.open("rb") as file:  # what has no size, such as a pipe or device, may have no end
        return decode_source(file.read(SIZE_LIMIT + 1), shown)


def decode_source(data: bytes, name: str) -> SourceFile:
    """The text that UTF-8 bytes spell, without a byte order mark."""
    if _is_bundle(data):
        nowhere = SourceFile(name, "").span(0, 0)
        help_ = f"`dfc inspect {name}` describes it, and `dfc run {name}` runs it"
        raise CompileError([error("E0141", "this is a bundle, not the text of a program", nowhere, helps=[help_])])
    if len(data) > SIZE_LIMIT:
        raise CompileError([too_large(SourceFile(name, ""), len(data))])
    try:
        return SourceFile(name, data.decode().removeprefix(BYTE_ORDER_MARK))
    except UnicodeDecodeError as failure:
        good = data[: failure.start].decode()
        source = SourceFile(name, good + data[failure.start :].decode(errors="replace"))
        span = source.span(len(good), len(good) + 1)
        byte = f"the byte 0x{data[failure.start]:02X} begins no character"
        problem = error("E0141", "this file is not valid UTF-8", span, byte)
        raise CompileError([problem]) from failure
