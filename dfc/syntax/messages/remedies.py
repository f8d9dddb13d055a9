"""What an author can type in place of tokens that do not fit, where the tokens around them say it exactly."""

from __future__ import annotations

from dfc.diagnostics.fixes import Help, replacing
from dfc.diagnostics.source import Span
from dfc.syntax.messages.situation import OPERATORS, Situation
from dfc.syntax.reader.tokens import Token

GOES_ON = (OPERATORS | {"DOT", "LPAR", "LSQB"}) - {"AND", "OR"}  # more of an operand follows


def comment(situation: Situation, sign: Token) -> Help:
    """`#` for a `//`; a comment of several lines has a sign for each of them."""
    text, end = situation.file.text, sign.end_pos
    if sign.value == "/":
        return "write `# ...` on each of its lines"
    return situation.replacing("write `# ...`", sign, "#" if text[end : end + 1] in ("", " ", "\n") else "# ")


def comparing(situation: Situation, sign: Token) -> Help:
    return situation.replacing("write `==`", sign, "==")


def without_parentheses(situation: Situation) -> list[Help]:
    """`let a, b` for `let (a, b)`, if nothing but names stands between the parentheses."""
    names: list[str] = []
    for token in situation.tokens[situation.index + 1 :]:
        if token.type == "RPAR" and names:
            span = situation.span(situation.token).to(situation.span(token))
            text = ", ".join(names)
            return [replacing(f"write `let {text} = ...`", span, text)]
        if token.type == "NAME":
            names.append(token.value)
        elif token.type != "COMMA":
            break
    return ["write `let a, b = ...`"]


def two_comparisons(situation: Situation) -> Help:
    """`0 < x and x < 1` for `0 < x < 1`, where single words are compared."""
    before, first, middle = (situation.at(distance) for distance in (-4, -2, -1))
    last, behind = situation.at(1), situation.at(2)
    parts = (situation.at(-3), first, middle, situation.token, last)
    words = [each for each in parts if each is not None]
    simple = len(words) == 5 and all(each.type in ("NAME", "INT", "FLOAT") for each in (words[0], words[2], words[4]))
    ends = before is None or before.type not in OPERATORS | {"DOT"}
    if not simple or not ends or (behind is not None and behind.type in GOES_ON):
        return "write two comparisons, with `and` between them"
    low, sign, word, other, high = (each.value for each in words)
    text = f"{low} {sign} {word} and {word} {other} {high}"
    return replacing(f"write `{text}`", situation.span(words[0]).to(situation.span(words[4])), text)


def without_decorator(situation: Situation) -> list[Help]:
    """The whole line, if a declaration begins the next one."""
    text, start = situation.file.text, situation.token.start_pos
    end = text.find("\n", start) + 1
    if end == 0 or not begins_line(situation, start):
        return ["delete it"]
    return [replacing("delete the line", Span(situation.file, text.rfind("\n", 0, start) + 1, end), "")]


def begins_line(situation: Situation, offset: int) -> bool:
    text = situation.file.text
    return not text[text.rfind("\n", 0, offset) + 1 : offset].strip()
