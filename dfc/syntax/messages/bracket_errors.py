"""Explains brackets that do not pair up, blaming the one that looks wrong.

Indentation helps: a `}` that begins its line and stands further left than the line of the bracket it would close
tells that this bracket was never closed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import Help, replacing
from dfc.diagnostics.source import SourceFile, Span
from dfc.syntax.reader.nesting import CLOSERS, OPENERS
from dfc.syntax.reader.tokens import Token

TEXTS = {"LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "LBRACE": "{", "RBRACE": "}"}
CODE = re.compile(r"""(?:"(?:\\.|[^"\\])*"|[^"#])*""")  # what stands before a comment
GOES_ON = re.compile(r"([-+*/%@=<>,(\[]|\b(and|or|not|as|then|else))$")


def is_balanced(tokens: list[Token]) -> bool:
    stack: list[str] = []
    for token in tokens:
        if token.type in OPENERS:
            stack.append(OPENERS[token.type])
        elif token.type in CLOSERS and (not stack or stack.pop() != token.type):
            return False
    return not stack


def stray_closer(tokens: list[Token]) -> int | None:
    """The index of the first bracket that closes nothing, if all before it pair up."""
    stack: list[str] = []
    for index, token in enumerate(tokens):
        if token.type in OPENERS:
            stack.append(OPENERS[token.type])
        elif token.type in CLOSERS:
            if not stack:
                return index
            if stack.pop() != token.type:
                return None
    return None


def explain_brackets(file: SourceFile, tokens: list[Token]) -> Diagnostic | None:
    """The message for the first bracket that does not pair up, if there is one."""
    stack: list[Token] = []
    suspect: tuple[Token, Token] | None = None
    for token in tokens:
        if token.type in OPENERS:
            stack.append(token)
        elif token.type in CLOSERS:
            if not stack:
                if suspect is not None:
                    break
                return _closes_nothing(file, token)
            opener = stack.pop()
            if OPENERS[opener.type] != token.type:
                return _mismatch(file, opener, token, tokens)
            if suspect is None and _outdented(file, opener, token):
                suspect = (opener, token)
    if not stack:
        return None
    if suspect is not None:
        return unclosed(file, suspect[0], suspect[1], "closes it, but stands further left", tokens)
    return unclosed(file, stack[-1], tokens[-1], "nothing closes it up to here", tokens)


def _outdented(file: SourceFile, opener: Token, closer: Token) -> bool:
    """`closer` begins its line and stands left of the line of `opener`."""
    line_start = file.text.rfind("\n", 0, closer.start_pos) + 1
    if file.text[line_start : closer.start_pos].strip():
        return False
    return closer.start_pos - line_start < _indentation(file, opener.start_pos)


def _indentation(file: SourceFile, offset: int) -> int:
    line_start = file.text.rfind("\n", 0, offset) + 1
    line = file.text[line_start:offset]
    return len(line) - len(line.lstrip())


def _closes_nothing(file: SourceFile, closer: Token) -> Diagnostic:
    title = f"this `{closer.value}` closes nothing"
    span = Span(file, closer.start_pos, closer.end_pos)
    return error("E0110", title, span, helps=[replacing("delete it", span, "")])


def _mismatch(file: SourceFile, opener: Token, closer: Token, tokens: Sequence[Token]) -> Diagnostic:
    if opener.type == "LBRACE":  # a line is more often wrong than the frame of a body
        return _closes_nothing(file, closer)
    if "\n" in file.text[opener.end_pos : closer.start_pos]:
        return unclosed(file, opener, tokens=tokens)
    return error(
        "E0111",
        f"`{opener.value}` is closed by `{closer.value}`",
        Span(file, closer.start_pos, closer.end_pos),
        f"expected `{TEXTS[OPENERS[opener.type]]}`",
        secondary=[(Span(file, opener.start_pos, opener.end_pos), "opened here")],
    )


def _closing(file: SourceFile, opener: Token, closer: str, tokens: Sequence[Token]) -> list[Help]:
    """The bracket at the end of a line, before its comment or the `{` of a body.

    Nothing if the line goes on, or if a comma in inner parentheses tells that it is these that end too late.
    """
    line = file.position(opener.start_pos)[0]
    if _has_pair(file, [each for each in tokens if each.start_pos >= opener.end_pos], line):
        return []
    arrow = next((each for each in tokens if each.type == "ARROW" and each.start_pos > opener.start_pos), None)
    if arrow is not None and file.position(arrow.start_pos)[0] == line:
        start = len(file.text[: arrow.start_pos].rstrip())
        return [replacing(f"add `{closer}` before the `->`", Span(file, start, start), closer)]
    code = CODE.match(file.line_text(line))
    text = code.group().rstrip() if code is not None else ""
    if text.endswith("{"):
        text, remedy = text[:-1].rstrip(), f"add `{closer}` before the `{{` in line {line}"
    else:
        remedy = f"add `{closer}` at the end of line {line}"
    end = file.line_starts[line - 1] + len(text)
    return [] if GOES_ON.search(text) else [replacing(remedy, Span(file, end, end), closer)]


def _has_pair(file: SourceFile, tokens: Sequence[Token], line: int) -> bool:
    """`(a, b)` that is no list of arguments stands among the tokens of a line."""
    groups: list[bool] = []
    previous = ""
    for token in tokens:
        if file.position(token.start_pos)[0] != line:
            return False
        if token.type in OPENERS:
            groups.append(token.type == "LPAR" and previous not in ("NAME", "RPAR", "RSQB"))
        elif token.type in CLOSERS and groups:
            groups.pop()
        elif token.type == "COMMA" and groups and groups[-1]:
            return True
        previous = token.type
    return False


def unclosed(
    file: SourceFile, opener: Token, witness: Token | None = None, words: str = "", tokens: Sequence[Token] = ()
) -> Diagnostic:
    """The message about a bracket; a witness tells more about a `{`, whose closer may be far away."""
    closer = TEXTS[OPENERS[opener.type]]
    span = Span(file, opener.start_pos, opener.end_pos)
    title, label = f"this `{opener.value}` is never closed", f"the matching `{closer}` is missing"
    if closer != "}":
        return error("E0112", title, span, label, helps=_closing(file, opener, closer, tokens))
    if witness is None or "\n" not in file.text[opener.end_pos : witness.start_pos]:
        return error("E0112", title, span, label)
    return error("E0112", title, span, label, secondary=[(Span(file, witness.start_pos, witness.end_pos), words)])
