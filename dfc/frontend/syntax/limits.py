"""What a source text may be before it is looked at: readable, without NUL, and not too large or too deep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast, get_args

from dfc.diagnostics import Diagnostic, error
from dfc.frontend.syntax.automaton import NESTING_LIMIT
from dfc.frontend.syntax.lexer import Token
from dfc.frontend.syntax.tree import Expression, Module, Node, spine, walk
from dfc.source import SourceFile

SIZE_LIMIT = 64 * 1024 * 1024
CHAIN_LIMIT = 10_000
OPENERS = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
EXPRESSIONS: tuple[type, ...] = get_args(Expression)
CLOSERS = {closer: opener for opener, closer in OPENERS.items()}


def check_text(file: SourceFile) -> Diagnostic | None:
    """What makes a text unreadable as a whole, if anything."""
    text = file.text
    if len(text) > SIZE_LIMIT:
        return too_large(file, len(text))
    nul = text.find("\0")
    if nul >= 0:
        return error("E0142", "this file holds a NUL character", file.span(nul, nul + 1), "not text")
    if not text.isascii():
        return _check_surrogates(file)
    return None


def too_large(file: SourceFile, size: int) -> Diagnostic:
    note = f"{size} bytes; the limit is {SIZE_LIMIT}"
    return error("E0143", "this file is too large", file.span(0, 0), notes=[note])


def _check_surrogates(file: SourceFile) -> Diagnostic | None:
    try:
        file.text.encode()
    except UnicodeEncodeError as failure:
        place = file.span(failure.start, failure.start + 1)
        return error("E0141", "this file is not valid UTF-8", place, "half of a surrogate pair")
    return None


def check_nesting(file: SourceFile, tokens: list[Token]) -> Diagnostic | None:
    """Refuses brackets in brackets beyond the limit, whether they are closed or not."""
    depth = 0
    for token in tokens:
        if token.kind in OPENERS:
            depth += 1
            if depth > NESTING_LIMIT:
                return too_deep(file, token)
        elif token.kind in CLOSERS and depth:
            depth -= 1
    return None


def too_deep(file: SourceFile, token: Token) -> Diagnostic:
    return error(
        "E0140",
        f"this is nested more than {NESTING_LIMIT} deep",
        file.span(token.start, token.end),
        f"level {NESTING_LIMIT + 1}",
        helps=["give a part of it a name with `let`, or make it a function"],
    )


def check_chains(module: Module) -> Iterator[Diagnostic]:
    """Refuses expressions of more operands than the phases behind the parser are made for."""
    for item in module.items:
        if item.span.end - item.span.start <= CHAIN_LIMIT:
            continue  # too short a text to hold a chain that long
        yield from _long_chains(item)


def _long_chains(item: Node) -> Iterator[Diagnostic]:
    inside: set[int] = set()
    for node in walk(item):
        if id(node) in inside or not isinstance(node, EXPRESSIONS):
            continue
        chain = spine(cast(Expression, node))
        inside.update(id(each) for each in chain)
        if len(chain) > CHAIN_LIMIT:
            title = f"this expression has more than {CHAIN_LIMIT} operands in a row"
            remedy = "put the operands into a tensor and reduce it, or split the line"
            yield error("E0147", title, chain[-1].span, f"{len(chain)} operands begin here", helps=[remedy])
