"""Deployment files: read and checked for syntax, then refused, because this version runs a program in one task.

Assumes lark, which parses them directly: a deployment file is short, and no command that has to be quick reads one.
Guarantees that every text is a message: about its syntax, or about the first statement that cannot be carried out.
"""

from __future__ import annotations

from functools import cache
from typing import cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput

from dfc.diagnostics import NOT_SUPPORTED_YET, Diagnostic, error
from dfc.frontend.syntax.limits import check_text
from dfc.frontend.syntax.tables import grammar_path
from dfc.source import SourceFile, Span

FORM = 'a file begins with `deploy 1 for "PROGRAM.dfg"` and has statements such as `job worker tasks 2`'


def check_deployment(source: SourceFile) -> Diagnostic:
    """What stands in the way of this file."""
    problem = check_text(source)
    if problem is not None:
        return problem
    try:
        tree = _parser().parse(source.text)  # pyright: ignore[reportUnknownMemberType]  # lark types it with `Any`
    except UnexpectedInput as failure:
        return _syntax(source, failure)
    return _refusal(source, tree)


@cache
def _parser() -> Lark:
    grammar = grammar_path("deploy.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", propagate_positions=True, maybe_placeholders=True)


def _syntax(source: SourceFile, failure: UnexpectedInput) -> Diagnostic:
    size = len(source.text)
    if isinstance(failure, UnexpectedCharacters):
        position = cast(int, failure.pos_in_stream)  # pyright: ignore[reportUnknownMemberType]
        place = source.span(position, position + 1)
        return error("E0180", "this character means nothing in a deployment file", place, helps=[FORM])
    token = cast("Token | None", getattr(failure, "token", None))
    if token is None or token.type == "$END":
        title = "the deployment file ends in the middle of a statement"
        return error("E0180", title, source.span(size, size), helps=[FORM])
    start = token.start_pos or 0
    return error("E0180", f"`{token}` does not fit here", source.span(start, start + len(token)), helps=[FORM])


def _refusal(source: SourceFile, tree: Tree[Token]) -> Diagnostic:
    statements = [child for child in tree.children if isinstance(child, Tree)]
    first = statements[1] if len(statements) > 1 else statements[0]
    title = "deployment files are not supported yet"
    helps = ["leave the deployment file out: the program then runs in one task"]
    return error(NOT_SUPPORTED_YET, title, _span(source, first), helps=helps)


def _span(source: SourceFile, tree: Tree[Token]) -> Span:
    meta = tree.meta
    return source.span(meta.start_pos, meta.end_pos)
