"""Explains brackets that do not pair up, blaming the one that looks wrong.

Indentation helps: a `}` that begins its line and stands further left than the line of the bracket it would close
tells that this bracket was never closed.
"""

from __future__ import annotations

from dfc.diagnostics import Diagnostic, error
from dfc.frontend.syntax.limits import CLOSERS, OPENERS
from dfc.parsing.lexer import Token
from dfc.source import SourceFile, Span

TEXTS = {"LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "LBRACE": "{", "RBRACE": "}"}


def is_balanced(tokens: list[Token]) -> bool:
    stack: list[str] = []
    for token in tokens:
        if token.kind in OPENERS:
            stack.append(OPENERS[token.kind])
        elif token.kind in CLOSERS and (not stack or stack.pop() != token.kind):
            return False
    return not stack


def stray_closer(tokens: list[Token]) -> int | None:
    """The index of the first bracket that closes nothing, if all before it pair up."""
    stack: list[str] = []
    for index, token in enumerate(tokens):
        if token.kind in OPENERS:
            stack.append(OPENERS[token.kind])
        elif token.kind in CLOSERS:
            if not stack:
                return index
            if stack.pop() != token.kind:
                return None
    return None


def explain_brackets(file: SourceFile, tokens: list[Token]) -> Diagnostic | None:
    """The message for the first bracket that does not pair up, if there is one."""
    stack: list[Token] = []
    suspect: tuple[Token, Token] | None = None
    for token in tokens:
        if token.kind in OPENERS:
            stack.append(token)
        elif token.kind in CLOSERS:
            if not stack:
                if suspect is not None:
                    break
                return _closes_nothing(file, token)
            opener = stack.pop()
            if OPENERS[opener.kind] != token.kind:
                return _mismatch(file, opener, token)
            if suspect is None and _outdented(file, opener, token):
                suspect = (opener, token)
    if not stack:
        return None
    if suspect is not None:
        return unclosed(file, suspect[0], suspect[1], "closes it, but stands further left")
    return unclosed(file, stack[-1], tokens[-1], "nothing closes it up to here")


def _outdented(file: SourceFile, opener: Token, closer: Token) -> bool:
    """`closer` begins its line and stands left of the line of `opener`."""
    line_start = file.text.rfind("\n", 0, closer.start) + 1
    if file.text[line_start : closer.start].strip():
        return False
    return closer.start - line_start < _indentation(file, opener.start)


def _indentation(file: SourceFile, offset: int) -> int:
    line_start = file.text.rfind("\n", 0, offset) + 1
    line = file.text[line_start:offset]
    return len(line) - len(line.lstrip())


def _closes_nothing(file: SourceFile, closer: Token) -> Diagnostic:
    title = f"this `{closer.text}` closes nothing"
    return error("E0110", title, Span(file, closer.start, closer.end), helps=["delete it"])


def _mismatch(file: SourceFile, opener: Token, closer: Token) -> Diagnostic:
    if opener.kind == "LBRACE":  # a line is more often wrong than the frame of a body
        return _closes_nothing(file, closer)
    if "\n" in file.text[opener.end : closer.start]:
        return unclosed(file, opener)
    return error(
        "E0111",
        f"`{opener.text}` is closed by `{closer.text}`",
        Span(file, closer.start, closer.end),
        f"expected `{TEXTS[OPENERS[opener.kind]]}`",
        secondary=[(Span(file, opener.start, opener.end), "opened here")],
    )


def unclosed(file: SourceFile, opener: Token, witness: Token | None = None, words: str = "") -> Diagnostic:
    """The message about a bracket; a witness tells more about a `{`, whose closer may be far away."""
    closer = TEXTS[OPENERS[opener.kind]]
    place = Span(file, opener.start, opener.end)
    title, label = f"this `{opener.text}` is never closed", f"the matching `{closer}` is missing"
    if closer != "}":
        return error("E0112", title, place, label, helps=[f"add `{closer}` at the end of line {place.line}"])
    if witness is None or "\n" not in file.text[opener.end : witness.start]:
        return error("E0112", title, place, label)
    return error("E0112", title, place, label, secondary=[(Span(file, witness.start, witness.end), words)])
