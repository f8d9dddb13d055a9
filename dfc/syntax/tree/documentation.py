"""Finds the `##` comments that document items, parameters and the file.

A block of `##` lines belongs to the item that begins on the next line. A `##` comment behind a parameter, on its
line, belongs to it. A block that opens the file (below its edition) and is followed by an empty line, or by
nothing, belongs to the module.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.syntax.reader.tokens import Token

MARK = "##"


@dataclass(slots=True)
class Documentation:
    """`above`: by the offset at which an item begins; `behind`: by the offset at which a parameter ends."""

    module: str = ""
    above: dict[int, str] = field(default_factory=dict[int, str])
    behind: dict[int, str] = field(default_factory=dict[int, str])


def find_documentation(text: str, tokens: list[Token], comments: list[Token]) -> Documentation:
    documentation = Documentation()
    starts = [token.start_pos for token in tokens]
    block: list[Token] = []
    for comment in comments:
        if not comment.value.startswith(MARK):
            continue
        if not _stands_alone(text, comment):
            _trail(documentation, tokens, bisect_left(starts, comment.start_pos), comment)
            continue
        if block and not _follows(text, block[-1].end_pos, comment.start_pos):
            _close(documentation, text, tokens, starts, block)
            block = []
        block.append(comment)
    if block:
        _close(documentation, text, tokens, starts, block)
    return documentation


def _stands_alone(text: str, comment: Token) -> bool:
    line_start = text.rfind("\n", 0, comment.start_pos) + 1
    return not text[line_start : comment.start_pos].strip()


def _follows(text: str, end: int, start: int) -> bool:
    """What begins at `start` stands on the line after the one that ends at `end`."""
    gap = text[end:start]
    return gap.count("\n") == 1 and not gap.strip()


def _content(comment: Token) -> str:
    return comment.value[len(MARK) :].removeprefix(" ").rstrip()


def _trail(documentation: Documentation, tokens: list[Token], index: int, comment: Token) -> None:
    """The comment trails the token before `index`, or the one before the comma."""
    if index >= 2 and tokens[index - 1].type == "COMMA":
        index -= 1
    if index:
        documentation.behind[tokens[index - 1].end_pos] = _content(comment)


def _close(documentation: Documentation, text: str, tokens: list[Token], starts: list[int], block: list[Token]) -> None:
    content = "\n".join(_content(comment) for comment in block)
    index = bisect_left(starts, block[0].start_pos)
    if index < len(tokens) and _follows(text, block[-1].end_pos, starts[index]):
        documentation.above[starts[index]] = content
    elif index == 0 or (index == 2 and tokens[0].type == "DFG"):
        documentation.module = documentation.module or content
