"""Text to deployment.

Assumes that lark's tables of `grammar/deploy.lark` are in step with it. Guarantees that a text gives a
deployment or at least one error, that every statement with a mistake in its syntax is reported by itself, and that no
text, however broken, overflows a stack.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import cast

from lark import UnexpectedToken

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import replacing
from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.model import Deployment
from dfc.distribute.deployment.syntax.assemble import assemble
from dfc.distribute.deployment.syntax.statements import STATEMENTS, Edition, Statement, StatementBuilder, Written
from dfc.distribute.deployment.syntax.syntax_errors import edition_missing, explain, explain_character
from dfc.syntax.reader.language import Language, load_language, new_token
from dfc.syntax.reader.limits import check_text
from dfc.syntax.reader.tokens import Lexed, Token

EDITION = 1
MESSAGE_LIMIT = 20
KEYWORDS = frozenset(word.upper() for word in STATEMENTS)


def parse(source: SourceFile) -> tuple[Deployment | None, list[Diagnostic]]:
    """What a deployment file says, or None if it has mistakes; and all messages, in the order of their places."""
    deployment, diagnostics = parse_partly(source)
    return (None if any(each.is_error for each in diagnostics) else deployment), diagnostics


def parse_partly(source: SourceFile) -> tuple[Deployment, list[Diagnostic]]:
    """What can be read of a deployment file, for messages about it if it has mistakes: a job may not be there, and a
    constraint that has no meaning leaves everything open."""
    written, problems = read_statements(source)
    edition = next((each for each in written if isinstance(each, Edition)), None)
    statements = [each for each in written if isinstance(each, Statement)]
    deployment, more = assemble(source, edition, statements, complete=not problems)
    return deployment, sorted([*problems, *more], key=lambda each: each.span.start)


def read_statements(source: SourceFile) -> tuple[Written, list[Diagnostic]]:
    """The edition and the statements that can be read, and a message for each that cannot."""
    problem = check_text(source) or _program(source)
    if problem is not None:
        return [], [problem]
    language = load_language("deploy")
    lexed = language.lex(source.text)
    problem = _check_edition(source, lexed.tokens)
    if problem is not None:
        return [], [problem]
    reader = _Reader(source, language)
    if reader.read_whole(lexed):
        return reader.written, [*reader.builder.problems, *_crowded(source, reader.written)]
    for tokens, strange in _chunks(source, lexed):
        reader.read(tokens, strange)
        if len(reader.problems) >= MESSAGE_LIMIT:
            last = reader.problems[-1]
            reader.problems[-1] = replace(last, notes=(*last.notes, "further mistakes are not shown"))
            break
    problems = [*reader.problems, *reader.builder.problems, *_crowded(source, reader.written)]
    return reader.written, problems


def _program(source: SourceFile) -> Diagnostic | None:
    """Refuses a program, of whose lines none means anything here."""
    if not source.name.endswith(".dfg"):
        return None
    title = "this is a program, and a deployment file is expected"
    return error("E0809", title, source.span(0, 0), helps=["name the deployment file that stands beside it"])


def _check_edition(source: SourceFile, tokens: Sequence[Token]) -> Diagnostic | None:
    """Refuses a file of another edition, before anything else is said about it."""
    if len(tokens) < 2 or tokens[0].type != "DEPLOY" or tokens[1].type != "INT" or tokens[1].value == str(EDITION):
        return None
    span = source.span(tokens[1].start_pos, tokens[1].end_pos)
    words = f"write `deploy {EDITION}`, or install the version of dfc that the file was written for"
    return error(
        "E0001",
        f"this version of dfc reads edition {EDITION} only",
        span,
        f"edition {tokens[1].value[:20]}",
        helps=[replacing(words, span, str(EDITION))],
    )


class _Reader:
    """Reads the whole text or, where something is wrong with it, one statement after the other."""

    def __init__(self, source: SourceFile, language: Language) -> None:
        self.source = source
        self.language = language
        self.builder = StatementBuilder(source)
        self.written: Written = []
        self.problems: list[Diagnostic] = []
        self.has_edition = False

    def read_whole(self, lexed: Lexed) -> bool:
        """Reads all statements at once, if nothing is wrong with them."""
        if lexed.strange:
            return False
        try:
            value = self.language.read(lexed.tokens, self.builder)
        except UnexpectedToken:
            self.builder.problems.clear()
            return False
        self.written = cast(Written, value)
        return True

    def read(self, tokens: list[Token], strange: list[int]) -> None:
        if strange:
            self.problems.append(explain_character(self.source, strange[0]))
            self.has_edition = True
            return
        is_edition = bool(tokens) and tokens[0].type == "DEPLOY"
        if not is_edition and not self.has_edition:
            self.has_edition = True
            self.problems.append(edition_missing(self.source, tokens))
        # A statement alone is no file: it is read behind an edition, which is dropped again.
        before = list[Token]() if is_edition and not self.has_edition else _edition_tokens()
        self.has_edition = True
        try:
            value = self.language.read([*before, *tokens], self.builder)
        except UnexpectedToken as failure:
            self.problems.append(explain(self.source, self.language, before, tokens, failure.token))
            return
        self.written += cast(Written, value)[1 if before else 0 :]


def _edition_tokens() -> list[Token]:
    words = (("DEPLOY", "deploy"), ("INT", "1"), ("FOR", "for"), ("STRING", '""'))
    return [new_token(kind, text, 0) for kind, text in words]


def _chunks(source: SourceFile, lexed: Lexed) -> Iterator[tuple[list[Token], list[int]]]:
    """The tokens and the strange characters of each statement, the edition being one."""
    text, tokens = source.text, lexed.tokens
    starts = [i for i in range(1, len(tokens)) if _begins_statement(text, tokens[i])]
    bounds = [0, *starts, len(tokens)]
    done = 0
    for first, last in pairwise(bounds):
        end = tokens[last].start_pos if last < len(tokens) else len(text) + 1
        until = bisect_left(lexed.strange, end, done)
        inside, done = lexed.strange[done:until], until
        if last > first or inside or not tokens:
            yield tokens[first:last], inside


def _begins_statement(text: str, token: Token) -> bool:
    """It is a word that begins statements, or an unknown one in the first column; and the first on its line."""
    line_start = text.rfind("\n", 0, token.start_pos) + 1
    if text[line_start : token.start_pos].strip():
        return False
    return token.type in KEYWORDS or token.type == "DEPLOY" or (token.type == "NAME" and line_start == token.start_pos)


def _crowded(source: SourceFile, written: Written) -> Iterator[Diagnostic]:
    """A message for each statement that does not begin a line of its own."""
    spans = [each.span if isinstance(each, Statement) else each.program.span for each in written]
    for first, second in pairwise(spans):
        if first.end <= second.start and "\n" not in source.text[first.end : second.start]:
            span = source.span(second.start, second.start + len(second.text.split()[0]))
            title = "every statement stands on a line of its own"
            yield error("E0106", title, span, "expected a new line before this")
