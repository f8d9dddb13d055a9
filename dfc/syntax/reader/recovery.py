"""Goes on after a syntax error: cuts the file into items and looks at each one alone.

Items begin with a keyword in column 1. A cut inside brackets is undone if that makes the brackets pair up, so
that a body without indentation does not fall apart. Guarantees at most one message per item, and no more than
`MESSAGE_LIMIT` in all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lark import UnexpectedToken

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import Diagnostic, Diagnostics
from dfc.diagnostics.source import SourceFile
from dfc.syntax.messages.bracket_errors import explain_brackets, is_balanced, stray_closer
from dfc.syntax.messages.lexical_errors import explain_character
from dfc.syntax.messages.situation import ITEM_KEYWORDS, Situation
from dfc.syntax.messages.syntax_errors import BORROWED, explain
from dfc.syntax.reader.build_items import TreeBuilder
from dfc.syntax.reader.language import Language, TooDeep
from dfc.syntax.reader.nesting import check_nesting, too_deep
from dfc.syntax.reader.tokens import Token
from dfc.syntax.tree.tree import Module

MESSAGE_LIMIT = 20
LOOKAHEAD = 50
UNFINISHED = frozenset({"READONLY", "COLON", "ARROW", "EQUAL", "COMMA", "FROM"})


@dataclass(frozen=True, slots=True)
class Text:
    """A text cut into tokens, and the offsets of what begins none."""

    file: SourceFile
    language: Language
    tokens: list[Token]
    strange: list[int]


def read_broken(text: Text, builder: TreeBuilder, diagnostics: Diagnostics) -> Module:
    """The items that can be read of a text that has a syntax error, and at least one message."""
    problem = _read(text, text.tokens, text.strange, builder)
    builder.problems.clear()
    module = _read_items(text, builder, diagnostics)
    if not diagnostics and isinstance(problem, Diagnostic):  # the items are right one by one, but not together
        diagnostics.add(problem)
    return module


def _read_items(text: Text, builder: TreeBuilder, diagnostics: Diagnostics) -> Module:
    """The items that can be read, with a message for each one that cannot."""
    modules: list[Module] = []
    count = 0
    for tokens, strange in _chunks(text):
        if count == MESSAGE_LIMIT:
            break
        outcome = _read(text, tokens, strange, builder)
        if isinstance(outcome, Module):
            modules.append(outcome)
        else:
            count += 1
            if count == MESSAGE_LIMIT:
                outcome = replace(outcome, notes=(*outcome.notes, "further syntax errors are not shown"))
            diagnostics.add(outcome)
    items = tuple(item for module in modules for item in module.items)
    edition = modules[0].edition if modules else None
    whole = text.file.span(0, len(text.file.text))
    return Module(edition, items, documentation=builder.documentation.module, span=whole)


def _read(text: Text, tokens: list[Token], strange: list[int], builder: TreeBuilder) -> Module | Diagnostic:
    file, language = text.file, text.language
    if strange:
        return explain_character(file, strange[0])
    problem = check_nesting(file, tokens)
    if problem is not None:
        return problem
    try:
        value = language.read(tokens, builder)
    except TooDeep as failure:
        return too_deep(file, failure.token)
    except UnexpectedToken as failure:
        return _explain(text, tokens, failure.token)
    if not isinstance(value, Module):
        raise AssertionError("the start rule builds a module")
    return value


def _explain(text: Text, tokens: list[Token], bad: Token) -> Diagnostic:
    """Brackets first, unless the first stray one comes behind a token that does not fit."""
    index = next((number for number, token in enumerate(tokens) if token is bad), len(tokens))
    stray = stray_closer(tokens)
    if stray is None or stray <= index:
        message = explain_brackets(text.file, tokens)
        if message is not None:
            return message
    return explain(Situation(text.file, text.language, tokens, index))


def _chunks(text: Text) -> Iterator[tuple[list[Token], list[int]]]:
    """The tokens and the strange characters of each item."""
    tokens = text.tokens
    starts = [0, *(i for i in range(1, len(tokens)) if _begins_item(text.file.text, tokens, i)), len(tokens)]
    strange = iter([*text.strange, len(text.file.text) + 1])
    next_strange = next(strange)
    number = 0
    while number < len(starts) - 1:
        last = _closing_start(tokens, starts, number)
        chunk = tokens[starts[number] : starts[last]]
        end = tokens[starts[last]].start_pos if starts[last] < len(tokens) else len(text.file.text) + 1
        boundaries: list[int] = []
        while next_strange < end:
            boundaries.append(next_strange)
            next_strange = next(strange)
        yield chunk, boundaries
        number = last


def _begins_item(text: str, tokens: list[Token], index: int) -> bool:
    token = tokens[index]
    if token.start_pos and text[token.start_pos - 1] != "\n":
        return False
    if tokens[index - 1].type in UNFINISHED:
        return False
    return token.type in ITEM_KEYWORDS or token.type == "LET" or token.value in BORROWED


def _closing_start(tokens: list[Token], starts: list[int], first: int) -> int:
    """The next cut, or a later one if the brackets pair up only there."""
    chunk = tokens[starts[first] : starts[first + 1]]
    if is_balanced(chunk) or stray_closer(chunk) is not None:
        return first + 1
    for last in range(first + 2, min(first + LOOKAHEAD, len(starts))):
        if is_balanced(tokens[starts[first] : starts[last]]):
            return last
    return first + 1
