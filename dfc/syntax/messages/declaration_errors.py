"""Explains tokens that do not fit into a declaration: imports, parameters, initial values, misplaced words."""

from __future__ import annotations

import re
from collections.abc import Callable

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import Help, alone, replacing
from dfc.diagnostics.source import Span
from dfc.syntax.messages.situation import (
    ITEM_KEYWORDS,
    OPERATORS,
    STATEMENT_KEYWORDS,
    Situation,
    shown,
)
from dfc.syntax.reader.nesting import CLOSERS, OPENERS
from dfc.syntax.reader.tokens import END

MODULE = re.compile(r"\.?[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
STATEMENT_SIGNS = frozenset({"LPAR", "DOT", "EQUAL", "UPDATE", "LSQB"})


def wildcard_import(situation: Situation) -> Diagnostic | None:
    token, previous = situation.token, situation.previous
    if token.value != "*" or previous is None or previous.type != "IMPORT":
        return None
    help_text = "name what you need: `from std.nn import Dense`"
    return situation.error("E0128", "wildcard imports do not exist", token, "", help_text)


def quoted_import(situation: Situation) -> Diagnostic | None:
    token, previous = situation.token, situation.previous
    if token.type != "STRING" or previous is None or previous.type not in ("IMPORT", "FROM"):
        return None
    title, name = "a module is named without quotes", token.value.strip('"').removesuffix(".dfg").replace("/", ".")
    library = name.startswith("std.")
    name = name if library else "." + name.lstrip(".")
    if not MODULE.fullmatch(name):
        return situation.error("E0152", title, token, "", "write `std.nn`, or `.helpers` for a file beside this one")
    remedy = f"write `{name}`" if library else f"write `{name}`, a file beside this one"
    return situation.error("E0152", title, token, "", situation.replacing(remedy, token, name))


def parameter_without_type(situation: Situation) -> Diagnostic | None:
    token, previous = situation.token, situation.previous
    if previous is None or previous.type != "NAME" or situation.expected != frozenset({"COLON"}):
        return None
    if situation.opener_kind != "LPAR":
        return None
    title, label = f"the parameter `{shown(previous)}` has no type", "expected `: type`"
    if token.type != "NAME":
        return situation.error("E0124", title, previous, label, f"write `{previous.value}: f32[...]`")
    span = situation.span(previous).to(situation.span(token))
    text = f"{previous.value}: {token.value}"
    return situation.error("E0124", title, previous, label, replacing(f"write `{text}`", span, text))


def missing_initial_value(situation: Situation) -> Diagnostic | None:
    previous, owner = situation.previous, _state_keyword(situation)
    if previous is None or owner is None or "EQUAL" not in situation.expected:
        return None
    if situation.opener_kind in ("LPAR", "LSQB"):  # inside of the type: this `=` would be that of a named argument
        return None
    if previous.type not in ("RSQB", "NAME", "RPAR") or situation.token.type in ("UPDATE", "COMPARE"):
        return None
    name = situation.tokens[owner + 1]
    return error(
        "E0135",
        f"the variable `{shown(name)}` has no initial value",
        situation.behind(previous),
        "expected `= ...`",
        helps=[situation.adding("write `= 0`", previous, " = 0"), "or an initialiser, such as `= glorot_uniform()`"],
    )


def _state_keyword(situation: Situation) -> int | None:
    """Where the declaration of a variable begins whose `=` has not come yet."""
    for index in range(situation.index - 1, -1, -1):
        kind = situation.tokens[index].type
        if kind in ("PARAM", "VAR"):
            return index if index + 1 < situation.index else None
        if kind in ("EQUAL", "LBRACE", "RBRACE") or kind in ITEM_KEYWORDS - {"FN"}:
            return None
    return None


def missing_type_of_state(situation: Situation) -> Diagnostic | None:
    token, before = situation.token, situation.at(-2)
    if token.type != "EQUAL" or before is None or before.type not in ("PARAM", "QUEUE"):
        return None
    name = situation.tokens[situation.index - 1]
    title = f"`{before.value} {shown(name)}` has no type"
    return situation.error("E0124", title, name, "expected `: type`", f"write `{name.value}: f32[...]`")


def declaration_in_body(situation: Situation) -> Diagnostic | None:
    token, expected = situation.token, situation.expected
    if token.type not in ITEM_KEYWORDS or "LET" not in expected:
        return None
    if token.type in ("CONST", "VAR", "PARAM"):
        title = f"`{token.value}` is a declaration and cannot stand among statements"
        if token.type == "CONST":
            remedy = situation.replacing("write `let` for a value of this call", token, "let")
            return situation.error("E0148", title, token, "", remedy)
        return situation.error("E0148", title, token, "", *_without_state(situation))
    title = f"`{token.value}` cannot stand among statements"
    return situation.error("E0148", title, token, "", "declare it at the top of the file")


def _without_state(situation: Situation) -> list[Help]:
    """What is written into later is declared at the top; a value of this call is not."""
    return ["what outlives a call is declared at the top of the file", "a value of this call is bound with `let`"]


def statement_at_top(situation: Situation) -> Diagnostic | None:
    token, expected, following = situation.token, situation.expected, situation.at(1)
    if "ENTRY" not in expected or situation.opener is not None:
        return None
    if token.type == "NAME" and following is not None and following.type in STATEMENT_SIGNS:
        title = "a statement stands in the body of a function or an entry, not at the top of a file"
        return situation.error("E0149", title, token, "", "write it into an `entry` or a `proc`")
    if token.type not in STATEMENT_KEYWORDS:
        return None
    title = f"`{token.value}` stands in the body of a function or an entry, not at the top of a file"
    if token.type == "LET":
        remedy = situation.replacing("write `const` for a constant", token, "const")
        return situation.error("E0149", title, token, "", remedy, "or `var` or `param` for state")
    return situation.error("E0149", title, token, "", "write it into an `entry` or a `proc`")


def statement_in_block(situation: Situation) -> Diagnostic | None:
    token, expected = situation.token, situation.expected
    if situation.opener_kind != "LBRACE" or "PARAM" not in expected or "LET" in expected:
        return None
    if token.type not in STATEMENT_KEYWORDS | ITEM_KEYWORDS | {"NAME"}:
        return None
    title = f"`{shown(token)}` cannot stand among the members of a block"
    return situation.error("E0149", title, token, "expected `param`, `var`, `const`, `fn` or `proc`")


def body_behind_equals_sign(situation: Situation) -> Diagnostic | None:
    """`entry f(x: f32) -> f32 = 2 * x`: only functions have bodies that are a value."""
    token, owner = situation.token, _braced_item(situation)
    if token.type != "EQUAL" or "LBRACE" not in situation.expected or owner is None:
        return None
    item = situation.tokens[owner]
    article = "an" if item.value == "entry" else "a"
    title = f"the body of {article} {item.value} is written in braces"
    returns = any(each.type == "ARROW" for each in situation.tokens[owner : situation.index])
    rest = _rest_of_line(situation)
    helps = list[Help]()
    if rest is not None and (returns or item.type != "ENTRY"):
        body = f"{{ return {rest.text} }}" if returns else f"{{ {rest.text} }}"
        helps = [replacing(f"write `{body}`", situation.span(token).to(rest), body)]
    return error("E0136", title, situation.span(token), "expected `{`", helps=helps)


def _braced_item(situation: Situation) -> int | None:
    """Where the item begins whose body should begin here, if it is one that needs braces."""
    for index in range(situation.index - 1, -1, -1):
        kind = situation.tokens[index].type
        if kind in ("ENTRY", "TEST", "RUNNER"):
            return index
        if kind in ITEM_KEYWORDS or kind in ("LBRACE", "RBRACE", "EQUAL"):
            return None
    return None


def _rest_of_line(situation: Situation) -> Span | None:
    """What stands behind the token on its line, if it is all of an expression or statement."""
    tokens = situation.tokens[situation.index + 1 :]
    line = [each for each in tokens if situation.same_line(situation.token, each) and each.type != END]
    depth = sum((each.type in _OPENING) - (each.type in _CLOSING) for each in line)
    following = tokens[len(line)] if len(line) < len(tokens) else None
    goes_on = following is not None and following.type in OPERATORS | {"DOT"}
    if not line or depth or goes_on or line[-1].type in OPERATORS:
        return None
    return Span(situation.file, line[0].start_pos, line[-1].end_pos)


_OPENING, _CLOSING = ("LPAR", "LSQB", "LBRACE"), ("RPAR", "RSQB", "RBRACE")


def misplaced_edition(situation: Situation) -> Diagnostic | None:
    token = situation.token
    if token.type != "DFG":
        return None
    title = "the edition stands on the first line of a file, and only there"
    number = situation.at(1)
    span = situation.span(token).to(situation.span(number if number is not None and number.type == "INT" else token))
    return situation.error("E0003", title, token, "", replacing("delete this line", alone(span), ""))


def several_values(situation: Situation) -> Diagnostic | None:
    """`fn f(..) -> (..) = a, b`: what a function gives is one expression, and several values are a tuple."""
    token = situation.token
    if token.type != "COMMA" or situation.opener is not None or situation.tokens[0].type not in ("FN", "PROC"):
        return None
    start = next((index for index in range(situation.index) if _begins_body(situation, index)), None)
    if start is None or situation.tokens[-1] is token:
        return None
    values = situation.span(situation.tokens[start]).to(situation.span(situation.tokens[-1]))
    if "\n" in values.text:
        return situation.error("E0199", "several values stand in parentheses", token)
    fix = replacing(f"write `({values.text})`", values, f"({values.text})")
    return situation.error("E0199", "several values stand in parentheses", token, "", fix)


def _begins_body(situation: Situation, index: int) -> bool:
    """Whether the expression behind the `=` of a function begins here; other `=` stand in brackets."""
    tokens = situation.tokens
    depth = sum((each.type in OPENERS) - (each.type in CLOSERS) for each in tokens[:index])
    return index > 0 and depth == 0 and tokens[index - 1].type == "EQUAL"


DECLARATION_RULES: tuple[Callable[[Situation], Diagnostic | None], ...] = (
    wildcard_import,
    quoted_import,
    parameter_without_type,
    missing_initial_value,
    missing_type_of_state,
    declaration_in_body,
    statement_at_top,
    statement_in_block,
    body_behind_equals_sign,
    misplaced_edition,
    several_values,
)
