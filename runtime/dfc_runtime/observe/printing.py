"""Formats of `debug.print`: `{}` stands for a value, `{{` and `}}` for braces.

Guarantees that a value is written as NumPy writes it, and that no format does anything else.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from dfc_runtime.terminal import visible

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SIGNS = re.compile(r"\{\{|\}\}|\{\}|[{}]")


def placeholders(format_: str) -> int:
    """How many values a format has room for; `ValueError` for a brace that is alone."""
    signs = _SIGNS.findall(format_)
    if "{" in signs or "}" in signs:
        raise ValueError("a brace in a format is `{}` for a value, or written twice: `{{`, `}}`")
    return signs.count("{}")


def escaped(text: str) -> str:
    """The format that gives just this text."""
    return text.replace("{", "{{").replace("}", "}}")


def formatted(format_: str, values: Iterable[NDArray[np.generic]]) -> str:
    """The line: each value in its place."""
    rest = iter(values)

    def fill(match: re.Match[str]) -> str:
        return str(next(rest)) if match[0] == "{}" else match[0][0]

    return _SIGNS.sub(fill, format_)


def print_line(text: str) -> None:
    """One line on the standard error, whole even if threads print at the same time. Where it was closed before the
    start there is nobody to print for."""
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        return
    sys.stderr.write(visible(text) + "\n")
    sys.stderr.flush()
