"""Each module of the targets opens with what it is, in a sentence of its own: two that say the same do the same."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping

from tests.support.module_graph import ROOT, python_files


def first_sentence(text: str) -> str:
    """Of a module's docstring, in small letters; empty without one."""
    documentation = ast.get_docstring(ast.parse(text)) or ""
    return re.split(r"[.:](?:\s|$)", documentation, maxsplit=1)[0].replace("\n", " ").lower()


def repeated(texts: Mapping[str, str]) -> list[str]:
    """The files that open with nothing, or as another one does."""
    sentences = {file: first_sentence(text) for file, text in texts.items()}
    counts = Counter(sentences.values())
    return sorted(file for file, sentence in sentences.items() if not sentence or counts[sentence] > 1)


def test_modules_of_targets_open_with_a_sentence_of_their_own() -> None:
    files = {path.relative_to(ROOT).as_posix(): path for path in python_files()}
    texts = {file: path.read_text() for file, path in files.items() if file.startswith("targets/")}
    assert len(texts) > 50
    assert repeated(texts) == []


def test_the_same_sentence_is_seen() -> None:
    texts = {
        "a": '"""Reads plans: one way.\n\nMore."""',
        "b": '"""Reads\nplans. Another way."""',
        "c": '"""Writes plans."""',
        "d": "x = 1",
    }
    assert repeated(texts) == ["a", "b", "d"]
