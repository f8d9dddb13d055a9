"""Text to syntax tree.

Guarantees that a text gives a tree or at least one message, in time proportional to its length, and that no
text, however broken, overflows a stack. What explains mistakes is imported only for a text that has some.
"""

from __future__ import annotations

from lark import UnexpectedToken

from dfc.diagnostics.diagnostic import Diagnostics
from dfc.diagnostics.source import SourceFile
from dfc.syntax.reader.build_items import TreeBuilder
from dfc.syntax.reader.language import Language, load_language
from dfc.syntax.reader.layout import check_edition
from dfc.syntax.reader.limits import check_text
from dfc.syntax.reader.nesting import check_chains, check_nesting
from dfc.syntax.reader.tokens import Lexed
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
    problem = check_edition(source, lexed.tokens)
    if problem is not None:
        diagnostics.add(problem)
        return None
    builder = TreeBuilder(source, find_documentation(source.text, lexed.tokens, lexed.comments))
    collected = Diagnostics()
    module = _read_at_once(source, language, lexed, builder)
    if module is None:
        from dfc.syntax.reader.recovery import Text, read_broken

        module = read_broken(Text(source, language, lexed.tokens, lexed.strange), builder, collected)
    collected.extend(builder.problems)
    collected.extend(check_chains(module))
    diagnostics.extend(sorted(collected, key=lambda diagnostic: diagnostic.span.start))
    return module


def _read_at_once(source: SourceFile, language: Language, lexed: Lexed, builder: TreeBuilder) -> Module | None:
    """The tree of a text without syntax errors; None if there is one."""
    if lexed.strange or check_nesting(source, lexed.tokens) is not None:
        return None
    try:
        module = language.read(lexed.tokens, builder)
    except UnexpectedToken:
        return None
    assert isinstance(module, Module), "the start rule builds a module"
    return module
