"""The one layout of a program: `dfc fmt`.

Owns spaces and indentation; the author owns line breaks. It emits the very tokens and comments it read, so it can
neither change a program nor lose a comment; it needs a text that parses, because the tree tells where statements
begin. Guarantees that a formatted text stays as it is.

    fn  f( x:f32)->f32{              fn f(x: f32) -> f32 {
    let y = g( x )  # twice    ->      let y = g(x)  # twice
      +  1                                 + 1
    }                                }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import SourceFile
from dfc.syntax.printer.spacing import gap
from dfc.syntax.reader.language import load_language
from dfc.syntax.reader.nesting import CLOSERS, OPENERS
from dfc.syntax.reader.parser import parse
from dfc.syntax.reader.tokens import COMMENT, Token
from dfc.syntax.tree.tree import BlockItem, Module, Suite, walk

STEP = 2
SIGNATURE_STEP = 4
LOOP_WORDS = frozenset({"LOOP", "FOR", "WHILE"})
DECLARING = frozenset({"FN", "PROC", "BLOCK", "TYPE", "ENTRY"})


@dataclass(frozen=True, slots=True)
class Bracket:
    """An open bracket, the indentation of the line that owns it, and whether it holds generic names."""

    kind: str
    indent: int
    generic: bool


@dataclass(frozen=True, slots=True)
class Line:
    code: str
    comment: str


def format_source(source: SourceFile) -> str:
    """The text in its one layout; raises `CompileError` if it does not parse."""
    module = parse(source)
    lexed = load_language("dfg").lex(source.text)
    words = sorted([*lexed.tokens, *lexed.comments], key=lambda token: token.start_pos)
    lines = _Formatter(source, _statement_starts(module)).run(words)
    return "".join(f"{line}\n" for line in _aligned(lines))


def _statement_starts(module: Module) -> frozenset[int]:
    """The offsets at which items and statements begin."""
    starts = {item.span.start for item in module.items}
    if module.edition is not None:
        starts.add(module.edition.span.start)
    for node in walk(module):
        if isinstance(node, Suite):
            starts.update(statement.span.start for statement in node.statements)
            if node.final is not None:
                starts.add(node.final.span.start)
        elif isinstance(node, BlockItem):
            starts.update(member.span.start for member in node.members)
    return frozenset(starts)


class _Formatter:
    """Goes through the lines once, keeping the brackets that are open."""

    def __init__(self, source: SourceFile, starts: frozenset[int]) -> None:
        self.source = source
        self.starts = starts
        self.stack: list[Bracket] = []
        self.item_indent = 0
        self.last_indent = 0
        self.last_first = ""

    def run(self, words: Sequence[Token]) -> list[Line]:
        lines: list[Line] = []
        previous: list[Token] = []
        last_line = 0
        for number, group in groupby(words, key=lambda word: self.source.position(word.start_pos)[0]):
            if lines and number > last_line + 1:
                lines.append(Line("", ""))
            line = list(group)
            lines.append(self._line(line, previous[-2:]))
            previous = [*previous, *(word for word in line if word.type != COMMENT)][-2:]
            last_line = number
        return lines

    def _line(self, words: list[Token], before: list[Token]) -> Line:
        """The words of one line; `before` are the last tokens above it."""
        indent = self._indent(words[0])
        if words[0].start_pos in self.starts:
            self.item_indent = indent
        owner = self.item_indent if words[0].type in ("ARROW", "WHERE") else indent
        comment = words.pop().value.rstrip() if words[-1].type == COMMENT else ""
        code = self._code(words, before, owner)
        self.last_indent, self.last_first = indent, words[0].type if words else ""
        if not words:
            return Line(" " * indent + comment, "")
        return Line(" " * indent + code, comment)

    def _indent(self, first: Token) -> int:
        base = self.stack[-1].indent + STEP if self.stack else 0
        if first.type in CLOSERS:
            return self.stack[-1].indent
        in_brackets = bool(self.stack) and self.stack[-1].kind != "LBRACE"
        if first.type in (COMMENT, "GRADIENT") or first.start_pos in self.starts or in_brackets:
            return base
        if first.type in ("ARROW", "WHERE"):
            return base + SIGNATURE_STEP
        return self.last_indent if self.last_first in LOOP_WORDS else base + STEP

    def _code(self, words: list[Token], before: list[Token], owner: int) -> str:
        pieces: list[str] = []
        context = before
        for word in words:
            inside = self.stack[-1] if self.stack else None
            if pieces:
                is_index = inside is not None and inside.kind == "LSQB" and not inside.generic
                pieces.append(gap(context, word, is_index))
            pieces.append(word.value)
            if word.type in OPENERS:
                self.stack.append(Bracket(word.type, owner, _is_generic(word, context)))
            elif word.type in CLOSERS:
                self.stack.pop()
            context = [*context, word][-3:]
        return "".join(pieces)


def _is_generic(bracket: Token, before: list[Token]) -> bool:
    """The bracket follows a name that is being declared."""
    kinds = [token.type for token in before[-2:]]
    return bracket.type == "LSQB" and len(kinds) == 2 and kinds[0] in DECLARING and kinds[1] == "NAME"


def _aligned(lines: list[Line]) -> Iterator[str]:
    """The lines, with the trailing comments of neighbours in one column."""
    for has_comment, group in groupby(lines, key=lambda line: bool(line.comment)):
        block = list(group)
        width = max(len(line.code) for line in block)
        for line in block:
            yield f"{line.code:<{width}}  {line.comment}" if has_comment else line.code
