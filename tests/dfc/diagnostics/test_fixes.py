"""Edits of a text, and helps that are made of them."""

from __future__ import annotations

from dfc.diagnostics.fixes import Edit, Fix, applied, editing, replacing
from dfc.diagnostics.source import NOWHERE, SourceFile

FILE = SourceFile("a.dfg", "one two three")


def test_edits_are_applied_in_any_order() -> None:
    edits = [Edit(FILE.span(8, 13), "3"), Edit(FILE.span(0, 3), "1")]
    assert applied(FILE.text, edits) == "1 two 3"


def test_what_is_inserted_at_one_place_keeps_its_order() -> None:
    fix = editing("help", [Edit(FILE.span(4, 4), "a "), Edit(FILE.span(4, 4), "b ")])
    assert isinstance(fix, Fix)
    assert applied(FILE.text, fix.edits) == "one a b two three"


def test_what_no_author_wrote_cannot_be_edited() -> None:
    assert replacing("help", NOWHERE, "x") == "help"


def test_edits_that_overlap_are_no_fix() -> None:
    assert editing("help", [Edit(FILE.span(0, 5), "x"), Edit(FILE.span(4, 6), "y")]) == "help"
