"""The words of the glossary stand in order, and what they are about is where they say."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "GLOSSARY.md").read_text(encoding="utf-8")


def test_words_stand_in_order_with_places_that_are_there() -> None:
    rows = re.findall(r"^\| ([a-z][^|]*) \|[^|]*\| ([^|]*) \|$", GLOSSARY, re.M)
    words = [word for word, _ in rows][1:]
    assert words == sorted(words) and len(words) > 25
    folders = (ROOT, ROOT / "runtime", ROOT / "dfc" / "kernels")
    for place in re.findall(r"`([\w/.*]+)`", " ".join(places for _, places in rows)):
        assert any(list(folder.glob(place)) for folder in folders), place
