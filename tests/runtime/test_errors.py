"""Messages count things as people do."""

from __future__ import annotations

import pytest

from dfc.ir.dims import Symbol, dim
from dfc_runtime.errors import counted


@pytest.mark.parametrize(
    ("count", "noun", "form", "words"),
    [
        (1, "task", "", "1 task"),
        (0, "task", "", "0 tasks"),
        (-1, "task", "", "-1 tasks"),
        ("no", "value", "", "no values"),
        (1, "axis", "", "1 axis"),
        (2, "axis", "", "2 axes"),
        (3, "index", "", "3 indices"),
        (2, "entry", "", "2 entries"),
        (21, "row", "", "21 rows"),
        (1, "rank", ",", "1 rank"),
        (12_345, "byte", ",", "12,345 bytes"),
        (dim(Symbol("N")), "element", "", "N elements"),
    ],
)
def test_a_noun_follows_its_number(count: object, noun: str, form: str, words: str) -> None:
    assert counted(count, noun, form) == words
