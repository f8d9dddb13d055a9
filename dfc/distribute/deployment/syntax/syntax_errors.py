"""Explains what is wrong with the syntax of a statement, and what it should look like."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import Edit, Help, alone, editing, replacing
from dfc.diagnostics.source import SourceFile, Span
from dfc.diagnostics.suggestions import closest, did_you_mean, listed
from dfc.distribute.deployment.syntax.statements import STATEMENTS
from dfc.syntax.reader.language import Language
from dfc.syntax.reader.tokens import END, Token

FORMS = {
    "deploy": 'deploy 1 for "PROGRAM.dfg"',
    "job": "job worker tasks 2 with cpu = 8",
    "place": 'place "NAME" on worker task 0',
    "colocate": 'colocate "NAME" with "OTHER"',
    "shard": 'shard "NAME" axis 0 over ps by modulo',
    "replicate": 'replicate train over worker with mode = "sync", split = "B"',
    "compress": 'compress worker to ps with format = "bf16"',
    "checkpoint": 'checkpoint every "10 min" to "FOLDER" with keep = 5',
    "step": 'step "train/logits" from "images"',
}
NAMES = {
    "NAME": "a name",
    "INT": "a whole number",
    "FLOAT": "a number",
    "STRING": "a string in quotes",
    "EQUAL": "`=`",
    "COMMA": "`,`",
    END: "the end of the statement",
}
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
QUOTED = re.compile(r"'([^'\"\\\n]*)'")
SIGNS = {
    ";": "a statement ends where the next line begins; delete the `;`",
    ":": "a setting is written `name = value`",
    "'": 'strings are written with double quotes: `"..."`',
    "-": "numbers are not negative here, and names hold no `-`; names of the program stand in quotes",
    "*": 'globs stand in quotes: `place "net.**" on ps`',
    "/": 'device names in parts stand in quotes: `place "w" on "/job:ps/task:0"`',
    ".": "names of the program stand in quotes",
}


def edition_missing(source: SourceFile, tokens: Sequence[Token]) -> Diagnostic:
    """The message for a file that does not begin as one."""
    span = source.span(tokens[0].start_pos, tokens[0].end_pos) if tokens else source.span(0, 0)
    title = "a deployment file begins with its edition and the program it is for"
    return error("E0180", title, span, helps=[f"write `{FORMS['deploy']}` on the first line"])


def explain_character(source: SourceFile, offset: int) -> Diagnostic:
    """The message for a character that begins no word."""
    sign = source.text[offset]
    if sign == '"':
        title = "this string is never closed"
        label = "it must end on the line it starts on"
        return error("E0180", title, source.span(offset, offset + 1), label, helps=['add the closing `"`'])
    shown = f"`{sign}`" if " " < sign <= "~" else f"U+{ord(sign):04X}"
    title = f"the character {shown} means nothing in a deployment file"
    return error("E0180", title, source.span(offset, offset + 1), helps=_helps_for(source, offset))


def _helps_for(source: SourceFile, offset: int) -> list[Help]:
    """What to write in place of a character that means something elsewhere; with the edit where it is certain."""
    text, sign = source.text, source.text[offset]
    if sign not in SIGNS:
        return []
    if sign == ";":
        return [replacing(SIGNS[sign], source.span(offset, offset + 1), "")]
    quoted = QUOTED.match(text, offset)
    if quoted is not None:
        return [replacing(f'write `"{quoted[1]}"`', source.span(offset, quoted.end()), f'"{quoted[1]}"')]
    return [SIGNS[sign]]


def explain(
    source: SourceFile, language: Language, before: Sequence[Token], tokens: Sequence[Token], bad: Token
) -> Diagnostic:
    """The message for a statement whose word `bad`, or its end, does not fit; `before` is what it was read behind."""
    index = next((number for number, token in enumerate(tokens) if token is bad), len(tokens))
    expected = language.expected_after([*before, *tokens[:index]])
    if index == 0:
        return _no_statement(source, tokens)
    form = f"for example `{FORMS[tokens[0].value]}`" if tokens[0].value in FORMS else ""
    helps: list[Help] = [form] if form else []
    expected_text = _expected_text(expected)
    if index == len(tokens):
        span = Span(source, tokens[-1].end_pos, tokens[-1].end_pos)
        return error("E0180", "this statement is not finished", span, f"expected {expected_text}", helps=helps)
    span = source.span(bad.start_pos, bad.end_pos)
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    special = _special(bad, following, span, expected, language)
    if special:
        return error("E0180", special[0], span, f"expected {expected_text}", helps=special[1])
    return error("E0180", f"`{bad.value}` does not fit here", span, f"expected {expected_text}", helps=helps)


def _no_statement(source: SourceFile, tokens: Sequence[Token]) -> Diagnostic:
    bad = tokens[0]
    span = source.span(bad.start_pos, bad.end_pos)
    if bad.type == "DEPLOY":
        helps = [replacing("delete this line", alone(source.span(bad.start_pos, tokens[-1].end_pos)), "")]
        return error("E0180", "the edition stands once, on the first line", span, helps=helps)
    title = f"no statement begins with `{bad.value}`"
    label = did_you_mean(closest(bad.value, STATEMENTS))
    return error("E0180", title, span, label, notes=[f"the statements are {listed(STATEMENTS)}"])


def _special(
    bad: Token, following: Token | None, span: Span, expected: frozenset[str], language: Language
) -> tuple[str, list[Help]] | None:
    """Title and remedies for the likely mistakes with quotes and reserved words."""
    if "NAME" in expected and bad.value in language.keywords:
        return f"`{bad.value}` is a word of deployment files", ["choose another name"]
    if "STRING" in expected and "NAME" not in expected and bad.type == "NAME":
        quoted = replacing(f'write `"{bad.value}"`', span, f'"{bad.value}"')
        return "names and globs of the program stand in quotes", [quoted]
    if "NAME" in expected and "STRING" not in expected and bad.type == "STRING":
        name = bad.value[1:-1]
        helps = [replacing(f"write `{name}`", span, name)] if PLAIN.fullmatch(name) else []
        return "names of jobs and entries stand without quotes", helps
    if "WITH" in expected and following is not None and (bad.type, following.type) == ("NAME", "EQUAL"):
        inserted = Edit(Span(span.file, span.start, span.start), "with ")
        return "settings stand behind `with`", [editing(f"write `with {bad.value} = ...`", [inserted])]
    if "INT" in expected and "FLOAT" not in expected and bad.type == "FLOAT":
        whole, _, fraction = bad.value.partition(".")
        helps = list[Help]() if fraction.strip("0_") else [replacing(f"write `{whole}`", span, whole)]
        return f"`{bad.value}` is no whole number", helps
    return None


def _expected_text(expected: frozenset[str]) -> str:
    """What could stand there, without the beginnings of further statements."""
    if {"NAME", "EVERY"} <= expected:  # an entry may be called like a word of deployment files
        return NAMES["NAME"]
    beginnings = {word.upper() for word in STATEMENTS}
    kinds = sorted(expected - beginnings, key=lambda kind: (kind == END, kind))
    names = list(dict.fromkeys(NAMES.get(kind, f"`{kind.lower()}`") for kind in kinds))
    return listed(names).replace(" and ", " or ")
