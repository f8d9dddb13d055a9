"""What a source text may be before it is looked at: readable, without NUL, and not too large."""

from __future__ import annotations

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.source import SourceFile

SIZE_LIMIT = 64 * 1024 * 1024


def check_text(file: SourceFile) -> Diagnostic | None:
    """What makes a text unreadable as a whole, if anything."""
    text = file.text
    if len(text) > SIZE_LIMIT:
        return too_large(file, len(text))
    nul = text.find("\0")
    if nul >= 0:
        return error("E0142", "this file holds a NUL character", file.span(nul, nul + 1), "not text")
    if not text.isascii():
        return _check_surrogates(file)
    return None


def too_large(file: SourceFile, size: int) -> Diagnostic:
    note = f"{size} bytes; the limit is {SIZE_LIMIT}"
    return error("E0143", "this file is too large", file.span(0, 0), notes=[note])


def _check_surrogates(file: SourceFile) -> Diagnostic | None:
    try:
        file.text.encode()
    except UnicodeEncodeError as failure:
        span = file.span(failure.start, failure.start + 1)
        return error("E0141", "this file is not valid UTF-8", span, "half of a surrogate pair")
    return None
