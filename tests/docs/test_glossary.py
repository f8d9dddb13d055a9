"""The words of the glossary stand in order, live where they say, and stand in for all that the lint of names avoids."""

from __future__ import annotations

import re
from pathlib import Path

from tests.structure.test_names import AVOIDED

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "GLOSSARY.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([a-z][^|]*) \|[^|]*\| ([^|]*) \|$", GLOSSARY, re.M)[1:]


def test_words_stand_in_order() -> None:
    words = [word for word, _ in ROWS]
    assert words == sorted(words) and len(set(words)) == len(words) > 25


def test_every_word_has_a_path_that_exists() -> None:
    folders = (ROOT, ROOT / "runtime", ROOT / "dfc" / "kernels")
    for word, where in ROWS:
        paths = re.findall(r"`([\w/.*]+)`", where)
        assert paths, word
        for path in paths:
            assert any(list(folder.glob(path)) for folder in folders), (word, path)


def test_every_avoided_word_has_another_to_write_instead() -> None:
    rows = re.findall(r"^\| ([^|]*) \| [^|]* \|$", GLOSSARY.split("| not | but |")[1], re.M)
    named = {form for word in re.findall(r"\w+", " ".join(rows)) for form in (word, word + "s", word + "es")}
    assert frozenset() == AVOIDED - named
