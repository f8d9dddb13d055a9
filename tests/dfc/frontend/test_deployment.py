"""Deployment files parse, and are refused at their first statement."""

from __future__ import annotations

import pytest

from dfc.diagnostics import render
from dfc.frontend.deployment import check_deployment
from dfc.source import SourceFile
from tests.support.corpus import ROOT

SAMPLE = ROOT / "samples" / "language" / "05_sharded_embedding.deploy"


def message(text: str) -> str:
    return render(check_deployment(SourceFile("x.deploy", text)))


def test_the_sample_is_refused_at_its_first_statement() -> None:
    found = message(SAMPLE.read_text())
    assert found.startswith("error[E1001]: deployment files are not supported yet\n --> x.deploy:5:1")
    assert "job ps" in found


def test_a_file_without_statements_is_refused_too() -> None:
    assert "x.deploy:1:1" in message('deploy 1 for "x.dfg"\n')


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "x.deploy:1:1"),
        ('deploy 1 for "x.dfg"\njob ps tasks\n', "x.deploy:3:1"),
        ('deploy 1 for "x.dfg"\njob ps task 4\n', "x.deploy:2:8"),
        ('deploy 1 for "x.dfg"\nplace "a" on ps; \n', "x.deploy:2:16"),
        ("dfg 1\n", "x.deploy:1:1"),
        ('deploy 1 for "x.dfg\n', "x.deploy:1:14"),
    ],
)
def test_a_mistake_in_syntax_is_told_where_it_is(text: str, place: str) -> None:
    found = message(text)
    assert found.startswith("error[E0180]")
    assert place in found
