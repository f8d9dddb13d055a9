"""lark on the two languages: text to tokens, and tokens to what builders make of them.

Assumes the tables that `tables` made of the grammars. Guarantees that any text is cut into tokens and read in linear
time, without recursion; that nodes are built bottom-up, a method of the builder for each rule; and that what is nested
deeper than a limit is refused. The parsers have no state of a text: threads may share them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from threading import local
from typing import Any, Protocol, cast

from lark import Lark, UnexpectedToken
from lark import Token as LarkToken

from dfc.syntax.reader.node_builder import Children, NodeBuilder
from dfc.syntax.reader.tokens import END, Lexed, Token

NESTING_LIMIT = 200
NESTING_SYMBOLS = frozenset({"LPAR", "LSQB", "LBRACE", "NOT", "POWER", "THEN", "ARROW"})
CLOSING_SYMBOLS = frozenset({"RPAR", "RSQB", "RBRACE"})


class Rejected(Exception):
    """The text cannot go on with `token`."""

    def __init__(self, token: Token) -> None:
        super().__init__(token.value)
        self.token = token


class TooDeep(Rejected):
    """At `token` the text is nested more than `NESTING_LIMIT` deep."""


class _Session(Protocol):
    """What is used of lark's `InteractiveParser`: a text on its way through the parser."""

    lexer_thread: Any
    parser_state: Any

    def feed_token(self, token: Token) -> object:
        """Puts together what `token` ends, then takes it; gives the value of the text if it is the end."""

    def accepts(self) -> set[str]: ...


class _Reading(local):
    """What one thread reads: lark is shared, and its callbacks know no text."""

    def __init__(self) -> None:
        self.builder: NodeBuilder | None = None
        self.comments: list[Token] = []
        self.strange: list[int] = []


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
        tables["data"]["options"] |= {
            "transformer": _Nodes(self._reading),
            "lexer_callbacks": {"COMMENT": self._keep_comment, "STRANGE": self._keep_strange},
        }
        self._lark: Any = cast(Any, Lark).load(tables)
        patterns = [terminal.pattern for terminal in self._lark.terminals]
        words: list[str] = [pattern.value for pattern in patterns if pattern.type == "str"]
        self.keywords = frozenset(word for word in words if word.isidentifier())

    def _keep_comment(self, token: Token) -> Token:
        self._reading.comments.append(token)
        return token

    def _keep_strange(self, token: Token) -> Token:
        self._reading.strange.append(token.start_pos)
        return token

    def lex(self, text: str) -> Lexed:
        """Cuts a text, whatever it is, into tokens."""
        reading = self._reading
        reading.comments, reading.strange = [], []
        session: _Session = self._lark.parse_interactive(text)
        tokens: list[Token] = list(session.lexer_thread.lex(session.parser_state))
        return Lexed(tokens, reading.comments, reading.strange)

    def read(self, tokens: Sequence[Token], builder: NodeBuilder) -> object:
        """What `builder` makes of a whole text; raises `Rejected` at the first token that does not fit."""
        session: _Session = self._lark.parse_interactive()
        values: list[object] = session.parser_state.value_stack
        next_check = NESTING_LIMIT
        builder.end = 0
        self._reading.builder = builder
        try:
            for token in tokens:
                session.feed_token(token)
                builder.end = token.end_pos
                if len(values) > next_check:
                    nesting = _nesting(values)
                    if nesting > NESTING_LIMIT:
                        raise TooDeep(token)
                    next_check = len(values) + NESTING_LIMIT - nesting
            return session.feed_token(new_token(END, "", builder.end))
        except UnexpectedToken as failure:
            raise Rejected(cast(Token, failure.token)) from None
        finally:
            self._reading.builder = None

    def expected_after(self, tokens: Sequence[Token]) -> frozenset[str]:
        """The kinds of token that could follow `tokens`, which are the beginning of some text."""
        session: _Session = self._lark.parse_interactive()
        try:
            for token in tokens:
                session.feed_token(token)
        except UnexpectedToken:
            return frozenset()
        return frozenset(session.accepts())


def new_token(kind: str, text: str, start: int) -> Token:
    """A token that no lexer made."""
    return cast(Token, LarkToken(kind, text, start_pos=start, end_pos=start + len(text)))


def _nesting(values: Sequence[object]) -> int:
    """How many brackets, prefix operators and the like are open among what lark has read and not yet put together."""
    kinds = [value.type if isinstance(value, LarkToken) else "" for value in values]
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
