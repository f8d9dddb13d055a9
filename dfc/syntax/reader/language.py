"""lark on the two languages: text to tokens, and tokens to what builders make of them.

Assumes the tables that `tables` made of the grammars. Guarantees that any text is cut into tokens and read in linear
time, without recursion; that nodes are built bottom-up, a method of the builder for each rule; and that what is nested
deeper than a limit is refused. The parsers have no state of a text: threads may share them. lark's lexer cuts, and its
interactive parser takes the tokens one by one, so that a parse can be left where the text is nested too deep, and asked
what it would have accepted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from threading import local
from typing import Any, cast

from lark import Lark, UnexpectedToken

from dfc.syntax.reader.node_builder import Children, NodeBuilder
from dfc.syntax.reader.tokens import COMMENT, END, STRANGE, Lexed, Token

NESTING_LIMIT = 200
NESTING_SYMBOLS = frozenset({"LPAR", "LSQB", "LBRACE", "NOT", "POWER", "THEN", "ARROW"})
CLOSING_SYMBOLS = frozenset({"RPAR", "RSQB", "RBRACE"})


class TooDeep(UnexpectedToken):
    """At `token` the text is nested more than `NESTING_LIMIT` deep."""

    def __init__(self, token: Token) -> None:
        super().__init__(token, set())
        self.token = token


class _Reading(local):
    """What one thread reads: lark is shared, and its callbacks know no text."""

    def __init__(self) -> None:
        self.builder: NodeBuilder | None = None
        self.lexed = Lexed([], [], [])

    def keep_comment(self, token: Token) -> Token:
        self.lexed.comments.append(token)
        return token

    def keep_strange(self, token: Token) -> Token:
        self.lexed.strange.append(token.start_pos)
        return token


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
        self._reading = reading = _Reading()
        tables = _tables(name)
        callbacks = {COMMENT: reading.keep_comment, STRANGE: reading.keep_strange}
        tables["data"]["options"] |= {"transformer": _Nodes(reading), "lexer_callbacks": callbacks}
        self._lark: Any = cast(Any, Lark).load(tables)
        patterns = [terminal.pattern for terminal in self._lark.terminals]
        self.keywords = frozenset(
            pattern.value for pattern in patterns if pattern.type == "str" and pattern.value.isidentifier()
        )

    def lex(self, text: str) -> Lexed:
        """Cuts a text, whatever it is, into tokens."""
        self._reading.lexed = lexed = Lexed([], [], [])
        session = self._lark.parse_interactive(text)
        lexed.tokens.extend(session.lexer_thread.lex(session.parser_state))
        return lexed

    def read(self, tokens: Sequence[Token], builder: NodeBuilder) -> object:
        """What `builder` makes of a whole text; raises `UnexpectedToken` at the first token that does not fit."""
        state = self._lark.parse_interactive().parser_state
        values = state.value_stack
        next_check = NESTING_LIMIT
        builder.end = 0
        self._reading.builder = builder
        try:
            for token in tokens:
                state.feed_token(token)
                builder.end = token.end_pos
                if len(values) > next_check:
                    nesting = _nesting(values)
                    if nesting > NESTING_LIMIT:
                        raise TooDeep(token)
                    next_check = len(values) + NESTING_LIMIT - nesting
            return state.feed_token(new_token(END, "", builder.end), is_end=True)
        finally:
            self._reading.builder = None

    def expected_after(self, tokens: Sequence[Token]) -> frozenset[str]:
        """The kinds of token that could follow `tokens`, which are the beginning of some text."""
        session = self._lark.parse_interactive()
        try:
            for token in tokens:
                session.feed_token(token)
        except UnexpectedToken:
            return frozenset()
        return frozenset(session.accepts())


def new_token(kind: str, text: str, start: int) -> Token:
    """A token that no text has."""
    return Token(kind, text, start, end_pos=start + len(text))


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
