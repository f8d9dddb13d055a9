"""Text to syntax tree.

Guarantees that a text gives a tree or at least one message, in time proportional to its length, and that no
text, however broken, overflows a stack.
"""

from __future__ import annotations

from typing import cast

from dfc.diagnostics import Diagnostics, error
from dfc.frontend.syntax.automaton import Rejected, TooDeep, load_automaton
from dfc.frontend.syntax.build_items import TreeBuilder
from dfc.frontend.syntax.documentation import find_documentation
from dfc.frontend.syntax.lexer import END, Token
from dfc.frontend.syntax.limits import check_nesting, check_text, too_deep
from dfc.frontend.syntax.tree import Module
from dfc.source import SourceFile


def parse(source: SourceFile) -> Module:
    """The tree of a program; raises `CompileError` with all messages if it has mistakes."""
    diagnostics = Diagnostics()
    module = parse_recovering(source, diagnostics)
    diagnostics.raise_if_errors()
    if module is None:
        raise AssertionError("a text without a tree must have a message")
    return module


def parse_recovering(source: SourceFile, diagnostics: Diagnostics) -> Module | None:
    """Like `parse`, but records the messages and gives what could be read, if anything."""
    problem = check_text(source)
    if problem is not None:
        diagnostics.add(problem)
        return None
    automaton = load_automaton()
    lexed = automaton.lexer.lex(source.text)
    if lexed.stop is not None:
        place = source.span(lexed.stop, lexed.stop + 1)
        diagnostics.add(error("E0100", "this character means nothing here", place))
        return None
    problem = check_nesting(source, lexed.tokens)
    if problem is not None:
        diagnostics.add(problem)
        return None
    builder = TreeBuilder(source, find_documentation(source.text, lexed.tokens, lexed.comments))
    size = len(source.text)
    try:
        module = automaton.run([*lexed.tokens, Token(END, "", size, size)], builder.builders())
    except TooDeep as failure:
        diagnostics.add(too_deep(source, failure.token))
        return None
    except Rejected as failure:
        token = failure.token
        place = source.span(token.start, token.end)
        diagnostics.add(error("E0199", f"`{token.text}` does not fit here", place))
        return None
    diagnostics.extend(builder.problems)
    return cast(Module, module)
