"""A help is a promise: every one that can be applied is, to every message of the golden cases and of the pages.

What it makes of the program stands in `helps.cases` (reviewed, like all golden files); it must compile, but for the
consequences named here. Where a program computes something, it is run, and compared with the program that was meant.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dfc.diagnostics.diagnostic import Diagnostic
from dfc.diagnostics.fixes import Fix, applied
from dfc.diagnostics.source import SourceFile
from dfc.driver import api
from tests.support.building import graph_of, run
from tests.support.documents import code_blocks
from tests.support.golden import read_cases
from tests.support.one_test_for_all import one_test_for_all

HERE = Path(__file__).parent
PAGES = HERE.parents[1] / "dfc" / "diagnostics" / "explanations"
GOLDEN = HERE / "helps.cases"
IN_WORDS = HERE / "helps_in_words.txt"
STYLE = {"W0001", "W0002"}  # what golden cases leave out for brevity

LEFT = {
    "17 Dividing integers with /": "E0307",  # the exact quotient is no whole number any more
    "E0303": "E0307",
    "assignment as a condition": "E0201",  # a part of a program, whose variables are missing
    "elif": "E0201",
    "an increment": "E0201",
    "01": "E0201",
    "01_unclosed": "E0201",
    "02": "E0201",
    "02_missing_comma": "E0201",
    "07_quotes": "E1001",
    "11_cast_shape": "E0307",  # two mistakes: the other help is about the shape
    "another edition": "E0133",
}


@cache
def programs() -> dict[str, str]:
    found: dict[str, str] = {}
    for file in ("elaborate/mistakes.cases", "syntax/messages/syntax_errors.cases"):
        found |= {case.name: case.source for case in read_cases(HERE / file)}
    for folder in ("likely", "mistakes"):
        files = sorted((HERE / "syntax" / "messages" / folder).glob("*.dfg"))
        found |= {path.stem: path.read_text(encoding="utf-8") for path in files}
    for page in sorted(PAGES.glob("*.md")):
        blocks = [block for block in code_blocks(page) if block.language == "dfg" and block.heading == "Fails"]
        found.update((page.stem, block.text) for block in blocks)
    return found


@cache
def check(text: str) -> list[Diagnostic]:
    return [each for each in api.check(SourceFile("model.dfg", text), {}) if each.code not in STYLE]


def fixes(text: str) -> Iterator[tuple[Diagnostic, Fix]]:
    for message in check(text):
        yield from ((message, fix) for fix in message.fixes)


def changed(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def story(name: str) -> str:
    """What every help of a program makes of it, and what is said about that."""
    text, lines = programs()[name], list[str]()
    for message, fix in fixes(text):
        after = applied(text, fix.edits)
        lines += [f"{message.code}: {fix.help}", *changed(text, after)]
        lines += [f"still {each.code}: {each.title}" for each in check(after) if not _is_other(text, each)]
    return "\n".join(lines)


def _is_other(text: str, message: Diagnostic) -> bool:
    """Whether a message is one of those that the program had before."""
    return any((each.code, each.title) == (message.code, message.title) for each in check(text))


NAMES = sorted(programs())


def test_there_are_helps_to_apply() -> None:
    assert sum(1 for name in NAMES for _ in fixes(programs()[name])) > 100


def test_every_help_makes_what_is_stated(bless: bool) -> None:
    told = "\n".join(f"[case {name}]\n{text}\n" for name in NAMES if (text := story(name)))
    if bless:
        GOLDEN.write_text(told, encoding="utf-8")
    assert told == GOLDEN.read_text(encoding="utf-8")


def test_the_helps_that_are_words_alone_are_those_that_were_reviewed(bless: bool) -> None:
    found: dict[str, None] = {}
    for name in NAMES:
        for message in check(programs()[name]):
            known = {fix.help for fix in message.fixes}
            found.update((f"{message.code}: {text}\n", None) for text in message.helps if text not in known)
    told = "".join(sorted(found))
    if bless:
        IN_WORDS.write_text(told, encoding="utf-8")
    assert told == IN_WORDS.read_text(encoding="utf-8")


@one_test_for_all(NAMES)
def test_a_program_that_followed_a_help_compiles(name: str) -> None:
    text = programs()[name]
    for message, fix in fixes(text):
        after = check(applied(text, fix.edits))
        same = [each for each in after if (each.code, each.title) == (message.code, message.title)]
        assert len(same) < sum((each.code, each.title) == (message.code, message.title) for each in check(text))
        new = {each.code for each in after if each.is_error and not _is_other(text, each)}
        assert new <= {LEFT.get(name)}, f"{name}: after `{fix.help}`"


WORDS = {
    "E0103", "E0121", "E0122", "E0124", "E0131", "E0138", "E0205", "E0210", "E0320", "E0321",
    "E0502", "E0602", "E0701",
}  # fmt: skip
EXACT = re.compile(r"^(?:or )?(?:write|change|delete|promise|declare)\b[^`]*`[^`]*`[^`]*$")


@one_test_for_all(NAMES)
def test_what_reads_as_text_to_type_can_be_applied(name: str) -> None:
    for message in check(programs()[name]):
        known = {fix.help for fix in message.fixes}
        loose = [text for text in message.helps if EXACT.match(text) and "..." not in text and text not in known]
        assert not loose or message.code in WORDS, f"{message.code}: {loose}"


MEANT = {
    "a sum over a loop": (
        "  let t = 0\n  for x in xs {\n    t = t + x\n  }\n  return t",
        "  return sum(xs)",
    ),
    "two sums over a loop": (
        "  let t = 0.0\n  let s = 0.0\n  for x in xs {\n    t = t + x\n    s = s + x * x\n  }\n  return t * s",
        "  return sum(xs) * sum(xs * xs)",
    ),
    "a sum over two loops": (
        "  let t = 0\n  for x in xs {\n    for y in xs {\n      if y > 0 {\n        t = t + x * y\n      }\n    }\n"
        "  }\n  return t",
        "  return sum(xs[:, new] * relu(xs)[new, :])",
    ),
    "a sum beside what is emitted": (
        "  let t = 0\n  let s = for x in xs {\n    t = t + x\n    emit t\n  }\n  return t + s[1]",
        "  return sum(xs) + xs[0] + xs[1]",
    ),
    "a second value of a loop": (
        "  let best = xs[0]\n  let n = loop n: i32 = 0 while n < 3 {\n    n = n + 1\n    best = best * 0.5\n  }\n"
        "  return best * (n as f32)",
        "  return xs[0] / 8 * 3",
    ),
    "a row that is summed up": (
        "  let t = 0\n  for x in stack([xs, xs]) {\n    t = t + x\n  }\n  return t[2]",
        "  return 2 * xs[2]",
    ),
    "a value that one side of an if changes": (
        "  let y = xs[0]\n  if xs[1] > 0 {\n    y = 2 * y\n  }\n  return y",
        "  return if xs[1] > 0 then 2 * xs[0] else xs[0]",
    ),
    "a value that all sides of an if change": (
        "  let y = xs[0]\n  if y > 1 {\n    let z = y + 1\n    y = 2 * z\n  } else if y < 0 {\n    y = -y\n  } else {\n"
        "    y = 0.5\n  }\n  return y",
        "  let y = xs[0]\n  return if y > 1 then 2 * (y + 1) else if y < 0 then -y else 0.5",
    ),
    "a value that an if gives first": (
        "  if xs[0] > 0 {\n    y = 2 * xs[0]\n  } else {\n    y = xs[1]\n  }\n  return y",
        "  return if xs[0] > 0 then 2 * xs[0] else xs[1]",
    ),
    "two values that an if changes": (
        "  let a = xs[0]\n  let b = xs[1]\n  if a > b {\n    a = xs[1]\n    b = xs[0]\n  }\n  return b - a",
        "  return abs(xs[1] - xs[0])",
    ),
    "a value that is changed for each": (
        "  let y = xs[0]\n  each f in [xs, 2 * xs] {\n    y = y * f[1]\n  }\n  return y",
        "  return xs[0] * xs[1] * (2 * xs[1])",
    ),
    "a value that is changed": ("  let y = xs[0]\n  y = y * 2\n  return y", "  return 2 * xs[0]"),
    "one value of a loop that carries two": (
        "  let total = loop t = 0.0, w = 1.0 for x in xs {\n    t = t + x\n    w = w * x\n  }\n  return total",
        "  return sum(xs)",
    ),
    "one of two values, where both are used": (
        '  let both = (sum(xs), max(xs))\n  let _, most = both\n  debug.print("{}", most)\n  return both',
        "  return sum(xs)",
    ),
    "a loop variable that is added to": (
        "  let y = loop y = xs[0] for i in 0..3 { y += xs[1] - 1 }\n  return y",
        "  return xs[0] + (xs[1] - 1) + (xs[1] - 1) + (xs[1] - 1)",
    ),
}
AROUND = "dfg 1\n\nreadonly entry f[N](xs: f32[N]) -> (y: f32) where N >= 4 {{\n{}\n}}\n"


def follow(text: str) -> str:
    """The program after the first fix of each first message, until there is none left."""
    for _ in range(8):
        message = next((each for each in check(text) if each.is_error), None)
        if message is None:
            return text
        assert message.fixes, message
        text = applied(text, message.fixes[0].edits)
    raise AssertionError(text)


@pytest.mark.parametrize("name", MEANT)
def test_the_first_help_computes_what_was_meant(name: str) -> None:
    wrong, meant = (AROUND.format(body) for body in MEANT[name])
    assert any(message.is_error for message in check(wrong))
    fixed = follow(wrong)
    generator = np.random.default_rng(16)
    for _ in range(6):
        xs = generator.normal(0, 2, 5).astype(np.float32)
        found, expected = (float(run(graph_of(text), "f", xs=xs).result) for text in (fixed, meant))
        np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=fixed)
