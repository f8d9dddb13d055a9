"""Tables and quantities for people, in plain text: the same on a terminal and in a file."""

from __future__ import annotations

from collections.abc import Collection, Sequence

KILO = 1024
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def seconds(number: float) -> str:
    """A time with three digits that count."""
    for scale, unit in _UNITS:
        if number >= scale:
            return f"{number / scale:.3g} {unit}"
    return f"{number * 1e9:.0f} ns" if number else "0"


def size(number: int) -> str:
    """A number of bytes for people."""
    shown: float = number
    for unit in ("B", "KB", "MB", "GB"):
        if shown < KILO or unit == "GB":
            return f"{shown:.0f} {unit}" if unit == "B" else f"{shown:.1f} {unit}"
        shown /= KILO
    raise AssertionError("the last unit takes everything")


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = (), indent: str = "  "
) -> list[str]:
    """Lines with a head, as wide as needed; columns whose head is in `right` are set to the right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines: list[str] = []
    for row in (head, *rows):
        cells = [
            f"{cell:>{width}}" if name in right else f"{cell:<{width}}"
            for name, cell, width in zip(head, row, widths, strict=True)
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines
