"""The formatter keeps every word and comment, and leaves a formatted text as it is."""

from __future__ import annotations

from random import Random

import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.syntax.formatter import format_deployment
from dfc.syntax.reader.language import load_language
from tests.support.corpus import DEPLOYMENTS
from tests.support.deploying import HEAD


def formatted(text: str) -> str:
    return format_deployment(SourceFile("x.deploy", text))


def words(text: str) -> list[str]:
    lexed = load_language("deploy").lex(text)
    found = sorted([*lexed.tokens, *lexed.comments], key=lambda token: token.start_pos)
    return [token.value.rstrip() for token in found]


@pytest.mark.parametrize("path", DEPLOYMENTS, ids=lambda path: path.stem)
def test_the_samples_are_formatted(path) -> None:
    assert formatted(path.read_text()) == path.read_text()


CASES = {
    "spaces": ("job  ps   tasks 4  with cpu=8 ,gpu =1", "job ps tasks 4 with cpu = 8, gpu = 1"),
    "columns of neighbours": ("job ps tasks 4\njob worker tasks 8", "job ps     tasks 4\njob worker tasks 8"),
    "no columns over an empty line": ("job ps tasks 4\n\njob worker tasks 8", "job ps tasks 4\n\njob worker tasks 8"),
    "columns of each keyword alone": (
        'job ps tasks 4\nplace "table" on ps\nplace "b" on ps',
        'job ps tasks 4\nplace "table" on ps\nplace "b"     on ps',
    ),
    "no columns elsewhere": (
        'colocate "a" with "b"\ncolocate  "aa" with "b"',
        'colocate "a" with "b"\ncolocate "aa" with "b"',
    ),
    "continuations": ("job ps\ntasks 4\n      with cpu = 8,\ngpu = 1", "job ps\n  tasks 4\n  with cpu = 8,\n  gpu = 1"),
    "empty lines": ("job ps tasks 4\n\n\n\njob w tasks 8\n\n\n", "job ps tasks 4\n\njob w tasks 8"),
    "comments": (
        "   # one  \njob ps tasks 4# two\njob worker tasks 12   #three",
        "# one\njob ps     tasks 4   # two\njob worker tasks 12  #three",
    ),
    "indented statements": ('  place "a" on ps', 'place "a" on ps'),
}


@pytest.mark.parametrize("name", CASES)
def test_the_layout_is_the_expected_one(name: str) -> None:
    text, expected = CASES[name]
    assert formatted(HEAD + text) == f"{HEAD}{expected}\n"


@pytest.mark.parametrize("seed", range(6))
def test_spaces_and_line_breaks_change_no_word_and_the_second_time_nothing(seed: int) -> None:
    random = Random(seed)
    text = DEPLOYMENTS[0].read_text()
    tokens = load_language("deploy").lex(text).tokens
    pieces: list[str] = []
    for line in text.split("\n"):
        if line.startswith("#") or not line:
            pieces.append(f"{' ' * random.randrange(3)}{line}\n")
            continue
        for word in words(line):
            pieces += [word, random.choice([" ", "  ", "   ", "\n   "])]
        pieces.append(random.choice(["\n", "  # remark\n", "\n\n\n"]))
    changed = "".join(pieces)
    once = formatted(changed)
    assert words(once) == words(changed)
    assert len(words(once)) >= len(tokens)
    assert formatted(once) == once
    assert all(line == line.rstrip() for line in once.splitlines())


def test_what_does_not_parse_is_not_touched() -> None:
    with pytest.raises(CompileError) as refused:
        formatted(f"{HEAD}job ps task 4\n")
    assert [each.code for each in refused.value.diagnostics] == ["E0180"]


def test_what_parses_but_means_nothing_is_formatted() -> None:
    assert formatted(f'{HEAD}place  "x" on nowhere\n') == f'{HEAD}place "x" on nowhere\n'
