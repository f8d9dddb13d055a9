"""Examples of lines of text: the feature `text` has the bytes of a line, without its end. Any encoding."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.cli.data.examples import Examples


def from_texts(paths: Sequence[str]) -> Examples:
    """Of files, one behind the other; an empty line is an example, too."""
    for path in paths:
        with open(path, "rb") as file:
            for line in file:
                yield {"text": line.removesuffix(b"\n").removesuffix(b"\r")}
