"""Explains why a token does not fit.

An ordered list of rules: each looks at the situation and gives a message, or None if it is not its case. The last
one always has something to say. Lexical mistakes and brackets are explained elsewhere, before the parser runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import Help, replacing
from dfc.syntax.messages.declaration_errors import DECLARATION_RULES
from dfc.syntax.messages.remedies import (
    begins_line,
    comment,
    comparing,
    two_comparisons,
    without_decorator,
    without_parentheses,
)
from dfc.syntax.messages.situation import (
    OPERATORS,
    STATEMENT_KEYWORDS,
    VALUE_END,
    VALUE_START,
    Situation,
    phrase,
    shown,
)
from dfc.syntax.reader.tokens import END, Token

Explain: TypeAlias = Callable[[Situation], Diagnostic | None]
BORROWED = {
    "def": "write `fn`",
    "func": "write `fn`",
    "function": "write `fn`",
    "fun": "write `fn`",
    "class": "write `block`",
    "module": "write `block`",
    "struct": "write `type`",
    "variable": "write `var`",
    "graph": "write `entry`",
    "placeholder": "make it a parameter of an `entry`",
    "elif": "write `else if`",
    "elseif": "write `else if`",
    "mut": "write `var` at the top of the file for what changes, or carry it in a `loop`",
    "export": "write `entry` for what the host calls",
    "pub": "delete it: only names that begin with `_` are private",
    "lambda": "write a `fn` and pass its name",
    "del": "delete the line: values need no clean-up",
    "pass": "delete it: `{ }` may be empty",
    "global": "delete it: variables of the file are visible in its functions",
    "print": "write `debug.print(...)`",
    "async": "delete it: write a `runner` for work in the background",
    "match": "write `if ... else if ...`",
    "switch": "write `if ... else if ...`",
    "use": "write `import`",
    "using": "write `import`",
    "include": "write `import`",
}
WORD = re.compile(r"write `([a-z ]+)`")  # a remedy that is a word for a word
UNFINISHED = OPERATORS | {"EQUAL", "UPDATE", "NOT", "ARROW", "MAPS_TO", "AS", "IN", "DOT", "COLON"}


def explain(situation: Situation) -> Diagnostic:
    """The message for the token that does not fit."""
    for rule in RULES:
        message = rule(situation)
        if message is not None:
            return message
    return does_not_fit(situation)


def comment_sign(situation: Situation) -> Diagnostic | None:
    sign = _comment_sign(situation)
    if sign is None:
        return None
    return situation.error("E0109", "comments begin with `#`", sign, "", comment(situation, sign))


def _comment_sign(situation: Situation) -> Token | None:
    """A `//` or `/*` at the bad token, or before it if words follow that make no expression."""
    token, previous = situation.token, situation.previous
    if token.value in ("//", "/") and (token.value == "//" or _glued(token, situation.at(1))):
        return token
    if previous is not None and previous.value == "/" and _glued(previous, token):
        return previous
    words = token.type in ("NAME", END) or situation.is_keyword(token)
    for index in range(situation.index - 1, -1, -1):
        earlier = situation.tokens[index]
        if not words or not situation.same_line(earlier, token):
            return None
        if earlier.value == "//":
            return earlier
    return None


def _glued(slash: Token, star: Token | None) -> bool:
    return star is not None and star.start_pos == slash.end_pos and star.value in ("*", "**")


def tuple_on_the_left(situation: Situation) -> Diagnostic | None:
    token, previous = situation.token, situation.previous
    if previous is None:
        return None
    if previous.type == "LET" and token.type == "LPAR":
        title = "names on the left of `=` take no parentheses"
        return situation.error("E0120", title, token, "", *without_parentheses(situation))
    if token.type in ("EQUAL", "UPDATE") and previous.type == "RPAR" and situation.opener_kind == "LBRACE":
        opener = situation.matching_opener(situation.index - 1)
        if opener is not None and begins_line(situation, opener.start_pos):
            return situation.error(
                "E0120",
                "a statement cannot begin with `(`",
                opener,
                "read as a continuation of the line above",
                "to bind several names, write `let a, b = ...`",
            )
    return None


def keyword_as_name(situation: Situation) -> Diagnostic | None:
    token, previous, expected = situation.token, situation.previous, situation.expected
    if not situation.is_keyword(token) or "NAME" not in expected or "LET" in expected:
        return None
    only_names = "INT" not in expected
    in_value = situation.same_line(previous, token) and token.type not in STATEMENT_KEYWORDS
    if not only_names and not in_value:
        return None
    if previous is not None and previous.type in UNFINISHED and not situation.same_line(previous, token):
        return None
    remedy = f"call it `{token.value}_` or something more specific"
    if not only_names and token.type == "WHERE":
        remedy = "to choose element by element, write `select(mask, a, b)`"
    if not only_names and token.type == "VAR":
        remedy = "for the variance, write `variance(x)`"
    return situation.error(
        "E0121",
        f"`{token.value}` is a keyword and cannot be a name",
        token,
        "expected a name" if only_names else "expected a value",
        remedy,
    )


def chained_comparison(situation: Situation) -> Diagnostic | None:
    token, previous = situation.token, situation.previous
    if token.type != "COMPARE" or previous is None or previous.type not in VALUE_END:
        return None
    if "AND" not in situation.expected:
        return None
    title = "comparisons cannot be chained"
    return situation.error("E0122", title, token, "a second comparison", two_comparisons(situation))


def cast_to_shape(situation: Situation) -> Diagnostic | None:
    token, previous, before = situation.token, situation.previous, situation.at(-2)
    if token.type != "LSQB" or previous is None or before is None or before.type != "AS":
        return None
    title, helps = "`as` changes the element type, never the shape", list[Help]()
    closer = next((each for each in situation.tokens[situation.index :] if each.type == "RSQB"), None)
    if closer is not None:
        span = situation.span(token).to(situation.span(closer))
        helps = [replacing(f"write `as {previous.value}`", span, "")]
    return situation.error("E0123", title, token, "", *helps, "use `reshape(x, [...])` for the shape")


def bare_point(situation: Situation) -> Diagnostic | None:
    token, previous, following, before = (
        situation.token,
        situation.previous,
        situation.at(1),
        situation.at(-2),
    )
    if token.type == "DOT" and following is not None and following.type == "INT":
        span = situation.span(token).to(situation.span(following))
        title, digits = "a number needs a digit before the point", following.value
        return error("E0125", title, span, helps=[replacing(f"write `0.{digits}`", span, f"0.{digits}")])
    number, point = (previous, token) if token.type == "DOT" else (before, previous)
    if number is not None and point is not None and number.type == "INT" and point.type == "DOT":
        span = situation.span(number).to(situation.span(point))
        title = "a number needs a digit after the point"
        return error("E0125", title, span, helps=[replacing(f"write `{number.value}.0`", span, f"{number.value}.0")])
    return None


def missing_else(situation: Situation) -> Diagnostic | None:
    previous = situation.previous
    recent = situation.tokens[max(0, situation.index - 40) : situation.index]
    if previous is None or "ELSE" not in situation.expected or not any(t.type == "THEN" for t in recent):
        return None
    return error(
        "E0126",
        "`if ... then ...` is a value, so it needs an `else`",
        situation.behind(previous),
        "expected `else`",
        helps=["write what the value is otherwise: `if ... then ... else ...`"],
    )


def assignment_in_expression(situation: Situation) -> Diagnostic | None:
    token, previous, expected = situation.token, situation.previous, situation.expected
    if token.type == "UPDATE" and "EQUAL" in expected and _line_has(situation, "LET"):
        title = f"`let` binds with `=`; `{token.value}` writes a variable"
        if token.value != ":=":
            return situation.error("E0139", title, token, "", "to write a variable, leave out `let`")
        return situation.error("E0139", title, token, "", situation.replacing("write `=`", token, "="))
    if token.type not in ("EQUAL", "UPDATE") or previous is None:
        return None
    if situation.opener_kind == "LPAR" and "RPAR" in expected:
        return situation.error("E0127", "only a plain name can stand before `=` in a call", token)
    if token.type == "EQUAL" and "COMPARE" in expected and _line_has(situation, "IF", "WHILE", "ASSERT", "WHERE"):
        return situation.error("E0129", "`=` does not compare", token, "", comparing(situation, token))
    return None


def _line_has(situation: Situation, *kinds: str) -> bool:
    """One of these words stands before the bad token on its line."""
    for token in reversed(situation.tokens[: situation.index]):
        if not situation.same_line(token, situation.token):
            return False
        if token.type in kinds:
            return True
    return False


def colon_instead_of_brace(situation: Situation) -> Diagnostic | None:
    token, expected = situation.token, situation.expected
    if "LBRACE" not in expected or token.type == END:
        return None
    if token.type == "COLON" and "ARROW" in expected:
        following = situation.at(1)
        if following is not None and situation.same_line(token, following):
            title = "the type of a result stands behind `->`"
            tight = token.start_pos > 0 and not situation.file.text[token.start_pos - 1].isspace()
            arrow = " " * tight + "->" + " " * (following.start_pos == token.end_pos)
            remedy = situation.replacing(f"write `-> {following.value}`", token, arrow)
            return situation.error("E0150", title, token, "expected `->`", remedy)
    title, remedy = "a block is written in braces", "write `{ ... }`; indentation has no meaning"
    previous = situation.previous
    if token.type == "COLON":
        return situation.error("E0136", title, token, "expected `{`", remedy)
    elsewhere = not situation.same_line(previous, token) and token.type in ("NAME", "RBRACE")
    if previous is not None and (elsewhere or token.type in STATEMENT_KEYWORDS):
        return error("E0136", title, situation.behind(previous), "expected `{`", helps=[remedy])
    return None


def nothing_follows(situation: Situation) -> Diagnostic | None:
    previous = situation.previous
    if previous is None or previous.type not in UNFINISHED or situation.token.type in VALUE_START:
        return None
    title = f"nothing follows `{shown(previous)}`"
    label = "expected a name here" if "INT" not in situation.expected else "expected a value here"
    if situation.same_line(previous, situation.token) and situation.token.type in OPERATORS:
        title = f"`{shown(previous)}` and `{shown(situation.token)}` cannot stand side by side"
        return situation.error("E0133", title, situation.token, label.removesuffix(" here"))
    return error("E0133", title, situation.behind(previous), label)


def statement_after_return(situation: Situation) -> Diagnostic | None:
    token, expected = situation.token, situation.expected
    if "RBRACE" not in expected or "LET" in expected or situation.opener_kind != "LBRACE":
        return None
    if token.type not in STATEMENT_KEYWORDS | {"NAME"}:
        return None
    recent = [each for each in situation.tokens[: situation.index] if each.type in ("RETURN", "YIELD")]
    if not recent or situation.same_line(situation.previous, token):
        return None
    word = recent[-1].value
    title = f"`{word}` must be the last statement"
    return situation.error("E0134", title, token, f"nothing runs after a `{word}`")


def lost_value(situation: Situation) -> Diagnostic | None:
    token, expected = situation.token, situation.expected
    starts_value = token.type in (VALUE_START | OPERATORS | {"NOT"}) - {"NAME"}
    if not starts_value or not ("UPDATE" in expected or "LET" in expected):
        return None
    if situation.opener_kind != "LBRACE" or _line_has(situation, "LET", "RETURN", "EMIT"):
        return None
    title = "a statement is a `let`, an assignment or a call"
    following, previous = situation.at(1), situation.previous
    doubled = following is not None and following.value == token.value and following.start_pos == token.end_pos
    if doubled and following is not None and previous is not None and token.value in ("+", "-"):
        text = f"{previous.value} {token.value}= 1"
        span = situation.span(previous).to(situation.span(following))
        alone = previous.type == "NAME" and begins_line(situation, previous.start_pos)
        helps = [replacing(f"write `{text}`", span, text)] if alone else []
        return situation.error("E0137", f"`{token.value * 2}` is not used in .dfg", token, "", *helps)
    return situation.error("E0137", title, token, "this makes it an expression whose value is lost")


def number_glued_to_name(situation: Situation) -> Diagnostic | None:
    token, previous = situation.token, situation.previous
    if token.type != "NAME" or previous is None or previous.type not in ("INT", "FLOAT"):
        return None
    if previous.end_pos != token.start_pos:
        return None
    span = situation.span(previous).to(situation.span(token))
    return error("E0144", "a name cannot begin with a digit", span, "neither a number nor a name")


def missing_between(situation: Situation) -> Diagnostic | None:
    token, previous = situation.token, situation.previous
    if previous is None or token.type not in VALUE_START or previous.type not in VALUE_END:
        return None
    if situation.opener_kind in ("LPAR", "LSQB") and "COMMA" in situation.expected:
        text = shown(token)
        remedy = situation.adding(f"write `, {text}`", previous, "," if previous.end_pos < token.start_pos else ", ")
        return situation.error("E0130", "a comma is missing", token, "expected `,` before this", remedy)
    if situation.same_line(previous, token):
        title = f"an operator is missing between `{shown(previous)}` and `{shown(token)}`"
        return situation.error("E0132", title, token, "or a new line, if a statement ends here")
    return None


def borrowed_keyword(situation: Situation) -> Diagnostic | None:
    token, previous = situation.token, situation.previous
    if token.value in BORROWED and {"LET", "FN"} & situation.expected:
        return _not_a_keyword(situation, token)
    if previous is not None and previous.value == "lambda":
        return _not_a_keyword(situation, previous)
    for index in range(situation.index - 1, -1, -1):
        earlier = situation.tokens[index]
        if not situation.same_line(earlier, token):
            return None
        following = situation.tokens[index + 1] if index + 1 < situation.index else token
        if earlier.value in BORROWED and following.type == "NAME" and _may_begin(situation, index):
            return _not_a_keyword(situation, earlier)
    return None


def _may_begin(situation: Situation, index: int) -> bool:
    """At `tokens[index]` a statement, an item or a declared name may begin."""
    expected = situation.language.expected_after(situation.tokens[:index])
    return "LET" in expected or "FN" in expected or "INT" not in expected


def _not_a_keyword(situation: Situation, token: Token) -> Diagnostic:
    title = f"`{token.value}` is not a keyword of .dfg"
    remedy = BORROWED[token.value]
    word = WORD.fullmatch(remedy)
    helps: list[Help] = [situation.replacing(remedy, token, word[1]) if word is not None else remedy]
    return situation.error("E0131", title, token, "", *helps)


def wrong_context(situation: Situation) -> Diagnostic | None:
    token, expected = situation.token, situation.expected
    if token.type == "WHILE" and "LET" in expected:
        text = "write `loop while c { ... }`, with what changes after `loop`"
        return situation.error("E0131", "`while` stands behind `loop`", token, "", text)
    if token.value == "@" and "FN" in expected:
        return situation.error("E0131", "there are no decorators in .dfg", token, "", *without_decorator(situation))
    if token.type == "ELSE":
        return situation.error("E0151", "this `else` has no `if`", token, "", "write it behind the `}` of an `if`")
    return None


def ends_too_early(situation: Situation) -> Diagnostic | None:
    previous = situation.previous
    if situation.token.type != END or previous is None:
        return None
    last = not situation.file.text[previous.end_pos :].strip()
    title = "the file ends in the middle of a definition" if last else "this definition is not complete"
    return error("E0113", title, situation.behind(previous), f"expected {phrase(situation.expected)}")


def does_not_fit(situation: Situation) -> Diagnostic:
    token = situation.token
    label = f"expected {phrase(situation.expected)}" if situation.expected else ""
    return situation.error("E0199", f"`{shown(token)}` does not fit here", token, label)


RULES: tuple[Explain, ...] = (
    comment_sign,
    tuple_on_the_left,
    number_glued_to_name,
    *DECLARATION_RULES,
    keyword_as_name,
    borrowed_keyword,
    chained_comparison,
    cast_to_shape,
    bare_point,
    missing_else,
    assignment_in_expression,
    colon_instead_of_brace,
    nothing_follows,
    statement_after_return,
    wrong_context,
    lost_value,
    missing_between,
    ends_too_early,
)
