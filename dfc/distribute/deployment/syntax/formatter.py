"""The one layout of a deployment file: `dfc fmt x.deploy`.

Owns spaces and indentation; the author owns line breaks. It emits the very words and comments it read, so it can
neither change a deployment nor lose a comment. Of neighbouring `job`, `shard` or `place` lines, what follows the name
begins in one column. Guarantees that a formatted text stays as it is.

    job  ps tasks 4  with cpu=8          job ps     tasks 4 with cpu = 8
    job worker   tasks 8             ->  job worker tasks 8
    place "w"                            place "w"
    on ps                                  on ps
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.syntax.parse import KEYWORDS, read_statements
from dfc.syntax.reader.language import load_language
from dfc.syntax.reader.tokens import COMMENT, Token

STEP = 2
ALIGNED = frozenset({"JOB", "SHARD", "PLACE"})
BEGINNINGS = KEYWORDS | {"DEPLOY"}


@dataclass(frozen=True, slots=True)
class Line:
    """`head` is the keyword and the name of a line that can be aligned, `kind` that keyword; else all is in `rest`."""

    indent: int = 0
    kind: str = ""
    head: str = ""
    rest: str = ""
    comment: str = ""

    def code(self, width: int) -> str:
        """Without the comment; the head takes `width` columns."""
        text = f"{self.head:<{width}} {self.rest}" if self.head and self.rest else self.head + self.rest
        return " " * self.indent + text


def format_deployment(source: SourceFile) -> str:
    """The text in its one layout; raises `CompileError` if it does not parse."""
    problems = read_statements(source)[1]
    if problems:
        raise CompileError(problems)
    lexed = load_language("deploy").lex(source.text)
    words = sorted([*lexed.tokens, *lexed.comments], key=lambda token: token.start_pos)
    return "".join(f"{line}\n" for line in _commented(_coded(list(_lines(source, words)))))


def _lines(source: SourceFile, words: list[Token]) -> Iterator[Line]:
    """The lines of the text, at most one empty one between two."""
    last_line = 0
    for number, group in groupby(words, key=lambda word: source.position(word.start_pos)[0]):
        if last_line and number > last_line + 1:
            yield Line()
        yield _line(list(group))
        last_line = number


def _line(words: list[Token]) -> Line:
    comment = words.pop().value.rstrip() if words[-1].type == COMMENT else ""
    if not words:
        return Line(rest=comment)
    first = words[0].type
    indent = 0 if first in BEGINNINGS else STEP
    if first in ALIGNED and len(words) > 1:
        return Line(indent, first, _joined(words[:2]), _joined(words[2:]), comment)
    return Line(indent, "", "", _joined(words), comment)


def _joined(words: list[Token]) -> str:
    """One space between two words, none in front of a comma."""
    text = ""
    for word in words:
        text += word.value if not text or word.type == "COMMA" else f" {word.value}"
    return text


def _coded(lines: list[Line]) -> Iterator[tuple[str, str]]:
    """Code and comment of each line, with the heads of neighbours in one column."""
    for _, group in groupby(lines, key=lambda line: line.kind):
        block = list(group)
        width = max(len(line.head) for line in block)
        for line in block:
            yield line.code(width), line.comment


def _commented(lines: Iterator[tuple[str, str]]) -> Iterator[str]:
    """The lines, with the trailing comments of neighbours in one column."""
    for has_comment, group in groupby(lines, key=lambda line: bool(line[1])):
        block = list(group)
        width = max(len(code) for code, _ in block)
        for code, comment in block:
            yield f"{code:<{width}}  {comment}" if has_comment else code
