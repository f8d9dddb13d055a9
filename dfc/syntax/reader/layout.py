"""What the grammar is too lenient to see: one statement on a line, and statements that do something.

Newlines are white space to the grammar, so it accepts `let a = 1 let b = 2`, and `let y = 2 x` as two statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from dfc.diagnostics.diagnostic import Diagnostic, error, warning
from dfc.diagnostics.fixes import replacing
from dfc.diagnostics.source import SourceFile
from dfc.diagnostics.suggestions import closest
from dfc.syntax.reader.tokens import Token
from dfc.syntax.tree.tree import Call, CallStatement, Final, Module, Name, Node, Rebind, Statement

EDITION = 1
LONGEST_LINE = 100
FIRST_WORD = re.compile(r'\w+|"[^"\n]*"|\S')
LAST_WORD = re.compile(r'(?:\w+|"[^"\n]*"|\S)\Z')


def check_statements(file: SourceFile, statements: Sequence[Statement], final: Final | None) -> Iterator[Diagnostic]:
    """One message for each pair on one line, and for each statement without effect."""
    together: set[int] = set()
    nodes: list[Node] = [*statements] if final is None else [*statements, final]
    for first, second in pairwise(nodes):
        if "\n" in file.text[first.span.end : second.span.start]:
            continue
        together.update((id(first), id(second)))
        yield _misspelled_keyword(first, second) or _missing_between(file, first, second)
    for statement in statements:
        if not isinstance(statement, CallStatement) or isinstance(statement.call, Call):
            continue
        if id(statement) not in together:
            yield error(
                "E0138",
                "this statement does nothing",
                statement.span,
                "its value is lost",
                helps=["bind it with `let`, or delete it"],
            )


def _misspelled_keyword(first: Node, second: Node) -> Diagnostic | None:
    """`retrun y` and `lte y = x`: a name alone, close to a keyword that what follows it fits behind."""
    if not isinstance(first, CallStatement) or not isinstance(first.call, Name):
        return None
    keywords = ("let",) if isinstance(second, Rebind) else ("return", "emit", "yield", "assert")
    near = closest(first.span.text, keywords)
    if not near or not isinstance(second, Rebind | CallStatement):
        return None
    fix = replacing(f"change `{first.span.text}` to `{near}`", first.span, near)
    return error("E0132", f"`{first.span.text}` is no keyword", first.span, f"did you mean `{near}`?", helps=[fix])


def _missing_between(file: SourceFile, first: Node, second: Node) -> Diagnostic:
    word = FIRST_WORD.match(file.text, second.span.start)
    start = second.span.start
    span = file.span(start, word.end() if word else start + 1)
    if not isinstance(second, CallStatement):
        return _one_per_line("statement", file, second)
    last = LAST_WORD.search(file.text[max(first.span.start, first.span.end - 40) : first.span.end])
    title = f"something is missing between `{last.group() if last else ''}` and `{span.text}`"
    return error("E0132", title, span, "expected an operator, or a new line")


def check_items(file: SourceFile, items: Sequence[Node]) -> Iterator[Diagnostic]:
    """One message for each definition that does not begin a line of its own."""
    for first, second in pairwise(items):
        if "\n" not in file.text[first.span.end : second.span.start]:
            yield _one_per_line("definition", file, second)


def _one_per_line(what: str, file: SourceFile, node: Node) -> Diagnostic:
    word = FIRST_WORD.match(file.text, node.span.start)
    span = file.span(node.span.start, word.end() if word else node.span.end)
    title = f"every {what} stands on a line of its own"
    return error("E0106", title, span, "expected a new line before this")


def check_edition(file: SourceFile, tokens: list[Token]) -> Diagnostic | None:
    """Refuses a file of another edition, before anything else is said about it."""
    if len(tokens) < 2 or tokens[0].type != "DFG" or tokens[1].type != "INT":
        return None
    if tokens[1].value == str(EDITION):
        return None
    return error(
        "E0001",
        f"this version of dfc reads edition {EDITION} only",
        file.span(tokens[1].start_pos, tokens[1].end_pos),
        f"edition {tokens[1].value[:20]}",
        helps=[
            replacing(f"write `dfg {EDITION}`", file.span(tokens[1].start_pos, tokens[1].end_pos), str(EDITION)),
            "or install the version of dfc that the program was written for",
        ],
    )


def check_style(source: SourceFile, module: Module) -> Iterator[Diagnostic]:
    """Warns about what `dfc check` alone should mention: no edition, long lines."""
    if module.edition is None:
        remedy = f"write `dfg {EDITION}` on the first line"
        top = source.span(0, 0)
        helps = [replacing(remedy, top, f"dfg {EDITION}\n\n")]
        yield warning("W0001", "this file names no edition", top, helps=helps)
    for number, start in enumerate(source.line_starts, 1):
        length = len(source.line_text(number))
        if length > LONGEST_LINE:
            span = source.span(start + LONGEST_LINE, start + length)
            title = f"this line is longer than {LONGEST_LINE} characters"
            yield warning("W0002", title, span, f"{length} characters")
