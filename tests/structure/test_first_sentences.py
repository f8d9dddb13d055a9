"""How files open: each module of the targets with what it is, in a sentence of its own (two that say the same do the
same); the `__init__` of a folder with what comes in, what goes out, and what to read first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from tests.support.source_code import python_files, text_of

SOURCES = ("dfc/", "runtime/", "targets/")


def first_sentence(text: str) -> str:
    """Of a module's docstring, in small letters; empty without one."""
    documentation = re.match(r'(?:#.*\n|\s)*"""([^"]+)', text)
    words = " ".join(documentation[1].split()) if documentation else ""
    return re.split(r"[.:](?:\s|$)", words, maxsplit=1)[0].lower()


def repeated(texts: Mapping[str, str]) -> list[str]:
    """The files that open with nothing, or as another one does."""
    sentences = {file: first_sentence(text) for file, text in texts.items()}
    counts = Counter(sentences.values())
    return sorted(file for file, sentence in sentences.items() if not sentence or counts[sentence] > 1)


ASKED = {
    "in": r"(?i)\bin(:| comes?\b|,| and out:)|\bcomes? in\b",
    "out": r"(?i)\bout(:| comes?\b|,| goes\b)|\bgo(es)? out\b",
    "first": r"(?i)\bread\b.*\bfirst\b",
}
"""Of a folder: what comes in, what goes out, where to begin."""


def missing(text: str) -> list[str]:
    """What the docstring of a folder does not say."""
    documentation = re.match(r'(?:#.*\n|\s)*"""(.*?)"""', text, re.DOTALL)
    words = " ".join(documentation[1].split()) if documentation else ""
    return [name for name, pattern in ASKED.items() if not re.search(pattern, words)]


def test_folders_say_what_comes_in_what_goes_out_and_what_to_read_first() -> None:
    folders = [file for file in python_files() if file.startswith(SOURCES) and file.endswith("/__init__.py")]
    assert len(folders) > 90
    assert {file: said for file in folders if (said := missing(text_of(file)))} == {}


def test_modules_of_targets_open_with_a_sentence_of_their_own() -> None:
    texts = {file: text_of(file) for file in python_files() if file.startswith("targets/")}
    assert len(texts) > 100
    assert repeated(texts) == []


def test_a_folder_that_says_less_is_seen() -> None:
    assert missing('"""Plans. In: a step. Out: JSON. Read first: `plan`."""') == []
    assert missing('"""Reads plans.\n\nIn come plans, the first one first."""') == ["out", "first"]
    assert missing("x = 1") == ["in", "out", "first"]


def test_the_same_sentence_is_seen() -> None:
    texts = {
        "a": '"""Reads plans: one way.\n\nMore."""',
        "b": '"""Reads\nplans. Another way."""',
        "c": '"""Writes plans."""',
        "d": "x = 1",
        "e": '# first\n\n"""\n  Writes\n  tables."""\n"""Reads plans."""',
    }
    assert repeated(texts) == ["a", "b", "d"]
