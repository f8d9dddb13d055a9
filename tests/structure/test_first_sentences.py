"""Each module of the targets opens with what it is, in a sentence of its own: two that say the same do the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from tests.support.source_code import python_files, text_of


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


def test_modules_of_targets_open_with_a_sentence_of_their_own() -> None:
    texts = {file: text_of(file) for file in python_files() if file.startswith("targets/")}
    assert len(texts) > 100
    assert repeated(texts) == []


def test_the_same_sentence_is_seen() -> None:
    texts = {
        "a": '"""Reads plans: one way.\n\nMore."""',
        "b": '"""Reads\nplans. Another way."""',
        "c": '"""Writes plans."""',
        "d": "x = 1",
        "e": '# first\n\n"""\n  Writes\n  tables."""\n"""Reads plans."""',
    }
    assert repeated(texts) == ["a", "b", "d"]
