"""How deep the brackets of a program may be nested, and how long its chains of operands may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast, get_args

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.source import SourceFile
from dfc.syntax.reader.language import NESTING_LIMIT
from dfc.syntax.reader.tokens import Token
from dfc.syntax.tree.tree import Expression, Module, Node, children, spine

CHAIN_LIMIT = 10_000
OPENERS = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
EXPRESSIONS: tuple[type, ...] = get_args(Expression)
CLOSERS = {closer: opener for opener, closer in OPENERS.items()}


def check_nesting(file: SourceFile, tokens: list[Token]) -> Diagnostic | None:
    """Refuses brackets in brackets beyond the limit, whether they are closed or not."""
    depth = 0
    for token in tokens:
        if token.type in OPENERS:
            depth += 1
            if depth > NESTING_LIMIT:
                return too_deep(file, token)
        elif token.type in CLOSERS and depth:
            depth -= 1
    return None


def too_deep(file: SourceFile, token: Token) -> Diagnostic:
    return error(
        "E0140",
        f"this is nested more than {NESTING_LIMIT} deep",
        file.span(token.start_pos, token.end_pos),
        f"level {NESTING_LIMIT + 1}",
        helps=["give a part of it a name with `let` or `const`, or make it a function"],
    )


def check_chains(module: Module) -> Iterator[Diagnostic]:
    """Refuses expressions of more operands than the phases behind the parser are made for."""
    for item in module.items:
        yield from _long_chains(item)


def _long_chains(item: Node) -> Iterator[Diagnostic]:
    inside: set[int] = set()
    waiting = [item]
    while waiting:
        node = waiting.pop()
        if node.span.end - node.span.start <= CHAIN_LIMIT:
            continue  # too short a text to hold a chain that long
        waiting.extend(reversed(tuple(children(node))))
        if id(node) in inside or not isinstance(node, EXPRESSIONS):
            continue
        chain = spine(cast(Expression, node))
        inside.update(id(each) for each in chain)
        if len(chain) > CHAIN_LIMIT:
            title = f"this expression has more than {CHAIN_LIMIT} operands in a row"
            remedy = "put the operands into a list and reduce it, or give parts of it names with `let` or `const`"
            yield error("E0147", title, chain[-1].span, f"{len(chain)} operands begin here", helps=[remedy])
