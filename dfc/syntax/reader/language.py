"""lark on the two languages: text to tokens, and tokens to what builders make of them.

Assumes the tables that `tables` made of the grammars. Guarantees that any text is cut into tokens and read in linear
time, without recursion; that nodes are built bottom-up, a method of the builder for each rule; and that what is nested
deeper than a limit is refused. The parsers have no state of a text: threads may share them. Of lark there are the
tables, what it makes of them, and its order of terminals; the loops over letters and tokens are here and in
`shift_reduce`, because lark's take twice as long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from threading import local
from typing import Any, cast

from lark import Lark

from dfc.syntax.reader.node_builder import Children, NodeBuilder
from dfc.syntax.reader.shift_reduce import Automaton, Rejected, Stack
from dfc.syntax.reader.tokens import COMMENT, END, NAME, STRANGE, WHITE_SPACE, Lexed, Token

NESTING_LIMIT = 200
NESTING_SYMBOLS = frozenset({"LPAR", "LSQB", "LBRACE", "NOT", "POWER", "THEN", "ARROW"})
CLOSING_SYMBOLS = frozenset({"RPAR", "RSQB", "RBRACE"})


class TooDeep(Rejected):
    """At `token` the text is nested more than `NESTING_LIMIT` deep."""


class _Reading(local):
    """What one thread builds: lark is shared, and its callbacks know no text."""

    def __init__(self) -> None:
        self.builder: NodeBuilder | None = None


class _Nodes:
    """What lark takes for a transformer: hands the children of each rule to the builder of this thread."""

    def __init__(self, reading: _Reading) -> None:
        self._reading = reading

    def __getattr__(self, rule: str) -> Callable[[Children], object]:
        if rule.startswith("_") or rule.isupper():  # lark splices the former, and the latter are terminals
            raise AttributeError(rule)
        reading, method = self._reading, f"build_{rule}"

        def build(children: Children) -> object:
            builder = reading.builder
            return None if builder is None else getattr(builder, method)(children)

        return build


class Language:
    """The parser of a language, shared by all texts."""

    def __init__(self, name: str) -> None:
        self._reading = _Reading()
        tables = _tables(name)
        tables["data"]["options"] |= {"transformer": _Nodes(self._reading)}
        loaded: Any = cast(Any, Lark).load(tables)
        self._automaton = Automaton(loaded.parse_interactive().parser_state.parse_conf)
        scanned: list[Any] = loaded.parser.lexer.scanner.terminals  # in the order in which they are tried
        self._pattern = re.compile("|".join(f"(?P<{one.name}>{one.pattern.to_regexp()})" for one in scanned))
        names = {one.name for one in scanned}
        self._words: dict[str, str] = {one.pattern.value: one.name for one in loaded.terminals if one.name not in names}
        self.keywords = frozenset(self._words)

    def lex(self, text: str) -> Lexed:
        """Cuts a text, whatever it is, into tokens."""
        lexed = Lexed([], [], [])
        words, keep = self._words, lexed.tokens.append
        for match in self._pattern.finditer(text):
            kind = match.lastgroup
            if kind == WHITE_SPACE:
                continue
            if kind == STRANGE:
                lexed.strange.append(match.start())
                continue
            assert kind is not None, "each alternative of the pattern has a name"
            word = match[0]
            token = Token(word)
            token.type = words.get(word, NAME) if kind == NAME else kind
            token.start_pos, token.end_pos = match.span()
            if kind == COMMENT:
                lexed.comments.append(token)
            else:
                keep(token)
        return lexed

    def read(self, tokens: Sequence[Token], builder: NodeBuilder) -> object:
        """What `builder` makes of a whole text; raises `Rejected` at the first token that does not fit."""
        stack = Stack(self._automaton)
        values = stack.values
        next_check = NESTING_LIMIT
        builder.end = 0
        self._reading.builder = builder
        try:
            for token in tokens:
                stack.take(token)
                builder.end = token.end_pos
                if len(values) > next_check:
                    nesting = _nesting(values)
                    if nesting > NESTING_LIMIT:
                        raise TooDeep(token)
                    next_check = len(values) + NESTING_LIMIT - nesting
            stack.take(new_token(END, "", builder.end))
            return values[-1]
        finally:
            self._reading.builder = None

    def expected_after(self, tokens: Sequence[Token]) -> frozenset[str]:
        """The kinds of token that could follow `tokens`, which are the beginning of some text."""
        stack = Stack(self._automaton)
        try:
            for token in tokens:
                stack.take(token)
        except Rejected:
            return frozenset()
        return stack.expected()


def new_token(kind: str, text: str, start: int) -> Token:
    """A token that no text has."""
    token = Token(text)
    token.type, token.start_pos, token.end_pos = kind, start, start + len(text)
    return token


def _nesting(values: Sequence[object]) -> int:
    """How many brackets, prefix operators and the like are open among what lark has read and not yet put together."""
    kinds = [value.type if isinstance(value, Token) else "" for value in values]
    negations = sum(kind == "MINUS" and before != "" for before, kind in pairwise(kinds))
    opened = sum(kind in NESTING_SYMBOLS for kind in kinds)
    return negations + opened - sum(kind in CLOSING_SYMBOLS for kind in kinds)


def _tables(name: str) -> dict[str, Any]:
    """The tables as `Lark.load` takes them: JSON has no objects whose keys are numbers."""
    tables: dict[str, Any] = json.loads(Path(__file__).with_name(f"{name}.json").read_text())
    tables["memo"] = _numbered(tables["memo"])
    parser: dict[str, Any] = tables["data"]["parser"]["parser"]
    parser["states"] = _numbered(parser["states"])
    return tables


def _numbered(entries: list[object]) -> dict[int, object]:
    return dict(enumerate(entries))


@cache
def load_language(name: str) -> Language:
    """The parser of `dfg` or `deploy`."""
    return Language(name)
