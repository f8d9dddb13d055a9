"""Assertions are rewritten to the same code as pytest's own walk makes, at the same locations."""

from __future__ import annotations

import ast

import pytest
from _pytest.assertion import rewrite

from tests.support import rewriting

ASSERTIONS = """
def test_all(a, b, f):
    assert a
    assert not a, f"no {b}"
    assert (f(*a, c=1, **b).d[0] == 2 < b
            and a in b or (c := f(a)) is not None)
    with f:
        if a:
            assert [x for x in a if x] == b, "several"
        assert -a + b > 0 and all(x > 1 for x in b) and (lambda: a)()
"""


def rewritten(text: str) -> str:
    tree = ast.parse(text)
    rewrite.rewrite_asserts(tree, text.encode())
    return ast.dump(tree, include_attributes=True)


def test_the_code_and_its_locations_are_those_of_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rewrite.traverse_node is rewriting.traverse_node
    found = rewritten(ASSERTIONS)
    monkeypatch.setattr(rewrite, "traverse_node", rewriting.usual)
    assert found == rewritten(ASSERTIONS)
