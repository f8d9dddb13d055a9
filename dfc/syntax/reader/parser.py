"""Text to syntax tree.

Guarantees that a text gives a tree or at least one message, in time proportional to its length, and that no
text, however broken, overflows a stack.
"""

from __future__ import annotations

from dfc.diagnostics.diagnostic import Diagnostics
from dfc.diagnostics.source import SourceFile
from dfc.syntax.reader.build_items import TreeBuilder
from dfc.syntax.reader.language import load_language
from dfc.syntax.reader.layout import check_edition
from dfc.syntax.reader.limits import check_text
from dfc.syntax.reader.nesting import check_chains
from dfc.syntax.reader.recovery import Text, read_whole, recover
from dfc.syntax.tree.documentation import find_documentation
from dfc.syntax.tree.tree import Module


def parse(source: SourceFile) -> Module:
    """The tree of a program; raises `CompileError` with all messages if it has mistakes."""
    diagnostics = Diagnostics()
    module = parse_recovering(source, diagnostics)
    diagnostics.raise_if_errors()
    if module is None:
        raise AssertionError("a text without a tree must have a message")
    return module


def parse_recovering(source: SourceFile, diagnostics: Diagnostics) -> Module | None:
    """Like `parse`, but records the messages and gives the items that could be read, if any could."""
    problem = check_text(source)
    if problem is not None:
        diagnostics.add(problem)
        return None
    language = load_language("dfg")
    lexed = language.lex(source.text)
    text = Text(source, language, lexed.tokens, lexed.strange)
    problem = check_edition(source, lexed.tokens)
    if problem is not None:
        diagnostics.add(problem)
        return None
    builder = TreeBuilder(source, find_documentation(source.text, lexed.tokens, lexed.comments))
    collected = Diagnostics()
    outcome = read_whole(text, builder)
    if not isinstance(outcome, Module):
        builder.problems.clear()
        module = recover(text, builder, collected)
        if not collected:  # the items are right one by one, but not together
            collected.add(outcome)
        outcome = module
    collected.extend(builder.problems)
    collected.extend(check_chains(outcome))
    diagnostics.extend(sorted(collected, key=lambda diagnostic: diagnostic.span.start))
    return outcome
