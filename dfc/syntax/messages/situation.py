"""What the explanations of syntax errors look at: the token that does not fit, and what stands around it."""

from __future__ import annotations

from functools import cached_property

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import Help, alone, replacing
from dfc.diagnostics.source import SourceFile, Span
from dfc.syntax.reader.language import Language, new_token
from dfc.syntax.reader.nesting import CLOSERS, OPENERS
from dfc.syntax.reader.tokens import END, Token

VALUE_END = frozenset({"NAME", "INT", "FLOAT", "STRING", "RPAR", "RSQB", "TRUE", "FALSE"})
VALUE_START = frozenset({"NAME", "INT", "FLOAT", "STRING", "LPAR", "LSQB", "TRUE", "FALSE"})
OPERATORS = frozenset({"ADD", "MINUS", "MUL", "POWER", "COMPARE", "PIPE", "AND", "OR"})
ITEM_KEYWORDS = frozenset(
    {"IMPORT", "FROM", "CONST", "TYPE", "FN", "PROC", "BLOCK", "PARAM", "VAR", "QUEUE", "RUNNER"}
    | {"READONLY", "ENTRY", "TEST", "DFG"}
)
STATEMENT_KEYWORDS = frozenset(
    {"LET", "IF", "FOR", "LOOP", "EACH", "ASSERT", "EMIT", "RETURN", "YIELD", "WHILE", "ELSE"}
)
NAMES = {
    "NAME": "a name",
    "INT": "a number",
    "FLOAT": "a number",
    "STRING": "a string",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "EQUAL": "`=`",
    "COLON": "`:`",
    "COMMA": "`,`",
    "DOT": "`.`",
    "COMPARE": "a comparison",
    "ADD": "`+`",
    "MINUS": "`-`",
    "MUL": "`*`",
    "POWER": "`**`",
    "UPDATE": "`:=`",
    "ARROW": "`->`",
    "MAPS_TO": "`=>`",
    "PIPE": "`|>`",
    "DOTS": "`..`",
    "QUESTION": "`?`",
    END: "the end of the file",
}
MANY = 5
SHOWN = 40


@dataclass(frozen=True)
class Situation:
    """`tokens` are those of one item; `tokens[index]` does not fit, or the end of the item if there is none."""

    file: SourceFile
    language: Language
    tokens: list[Token]
    index: int

    @cached_property
    def expected(self) -> frozenset[str]:
        """The kinds of token that could have stood here."""
        return self.language.expected_after(self.tokens[: self.index])

    @cached_property
    def token(self) -> Token:
        return self.tokens[self.index] if self.index < len(self.tokens) else self._end

    @cached_property
    def _end(self) -> Token:
        end = self.tokens[-1].end_pos if self.tokens else 0
        return new_token(END, "", end)

    def at(self, distance: int) -> Token | None:
        """The token so far behind the bad one; negative distances look back."""
        index = self.index + distance
        return self.tokens[index] if 0 <= index < len(self.tokens) else None

    @property
    def previous(self) -> Token | None:
        return self.at(-1)

    @cached_property
    def opener(self) -> Token | None:
        """The innermost bracket that is open."""
        stack: list[Token] = []
        for token in self.tokens[: self.index]:
            if token.type in OPENERS:
                stack.append(token)
            elif token.type in CLOSERS and stack:
                stack.pop()
        return stack[-1] if stack else None

    @property
    def opener_kind(self) -> str:
        return self.opener.type if self.opener else ""

    def matching_opener(self, closer_index: int) -> Token | None:
        """The bracket that `tokens[closer_index]` closes."""
        depth = 0
        for token in reversed(self.tokens[: closer_index + 1]):
            depth += (token.type in CLOSERS) - (token.type in OPENERS)
            if depth == 0:
                return token
        return None

    def is_keyword(self, token: Token | None) -> bool:
        return token is not None and token.value in self.language.keywords

    def same_line(self, first: Token | None, second: Token) -> bool:
        return first is not None and "\n" not in self.file.text[first.end_pos : second.start_pos]

    def span(self, token: Token) -> Span:
        return Span(self.file, token.start_pos, token.end_pos)

    def behind(self, token: Token) -> Span:
        """The place just behind a token, where something is missing."""
        return Span(self.file, token.end_pos, token.end_pos)

    def replacing(self, help_: str, token: Token, text: str) -> Help:
        """A help that puts `text` in place of a token."""
        return replacing(help_, self.span(token), text)

    def adding(self, help_: str, token: Token, text: str) -> Help:
        """A help that puts `text` behind a token."""
        return replacing(help_, self.behind(token), text)

    def deleting(self, help_: str, token: Token) -> Help:
        """A help that deletes a token, or its line if it stands there alone."""
        return replacing(help_, alone(self.span(token)), "")

    def error(self, code: str, title: str, token: Token, label: str = "", *helps: Help) -> Diagnostic:
        return error(code, title, self.span(token), label, helps=helps)


def shown(token: Token) -> str:
    """The text of a token, short enough for a title."""
    return token.value if len(token.value) <= SHOWN else token.value[: SHOWN - 3] + "..."


def phrase(expected: frozenset[str]) -> str:
    """`expected` in words."""
    words = sorted({NAMES.get(kind, f"`{kind.lower()}`") for kind in expected})
    if len(words) > MANY or {"LBRACE", "EQUAL"} <= expected:
        words = _groups(expected) or words[:MANY]
    return " or ".join(words)


def _groups(expected: frozenset[str]) -> list[str]:
    groups = {
        "a body, `= ...` or `{ ... }`": {"WHERE"},
        "a definition": {"ENTRY", "FN"},
        "a statement": {"LET", "RETURN"},
        "a value": {"INT", "STRING"},
        "an operator": {"ADD", "MUL", "COMPARE"},
    }
    matching = [name for name, kinds in groups.items() if kinds & expected]
    closers = [NAMES[kind] for kind in ("COMMA", "RPAR", "RSQB", "RBRACE") if kind in expected]
    return [*matching, *closers]
