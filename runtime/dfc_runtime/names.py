"""Help with names that do not exist. Assumes a short list of known names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing if no known name is close."""
    from difflib import get_close_matches  # only errors need it

    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def closest(name: str, known: Sequence[str]) -> str:
    """The one of these names, of which there are some, that is most like it; the first of several."""
    from difflib import SequenceMatcher  # as above

    return max(known, key=lambda each: SequenceMatcher(None, name, each).ratio())
