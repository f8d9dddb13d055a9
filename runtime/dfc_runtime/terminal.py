"""Text on its way to a terminal: whatever would be obeyed instead of shown is shown.

Assumes any text: names of files, what bundles and programs say, what was printed. Guarantees that what comes out moves
no cursor, sets no colour or title, and turns no line around; that text without such characters stays as it is, and so
does what was made visible already.

    "a\\x1b[2Jb"  ->  a\\x1b[2Jb, all of it to be read
"""

from __future__ import annotations

import re

_OBEYED = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters of ASCII and Latin-1, but for tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # marks that turn text around
    "\u2028\u2029"  # separators that some take for the end of a line
    "\ud800-\udfff"  # halves of characters: bytes of file names that are no text
    "]"
)


def visible(text: str) -> str:
    """The text with an escape of Python in place of each such character."""
    return _OBEYED.sub(_escape, text)


def in_one_line(text: str) -> str:
    """The same of the name of a file or a value in the midst of a line: tabs and ends of lines are escapes, too."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
