"""Help with names that do not exist. Assumes a short list of known names."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing if no known name is close."""
    from difflib import get_close_matches  # only errors need it

    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
