"""Deployment files in tests: the sample of word vectors as the program `skipgram.dfg`."""

from __future__ import annotations

from functools import cache

from dfc.diagnostics.diagnostic import Diagnostic, render
from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.model import Deployment
from dfc.distribute.deployment.resolution import Resolution
from dfc.distribute.deployment.resolve import resolve
from dfc.distribute.deployment.syntax.parse import parse
from dfc.elaborate import build
from dfc.ir.graph import Graph
from tests.support.corpus import ROOT

PROGRAM = ROOT / "samples" / "language" / "05_sharded_embedding.dfg"
HEAD = 'deploy 1 for "skipgram.dfg"\n'


@cache
def skipgram() -> Graph:
    return build.build(SourceFile("skipgram.dfg", PROGRAM.read_text()))


def deployed(text: str) -> Deployment:
    """The deployment that a text without mistakes says."""
    deployment, diagnostics = parse(SourceFile("skipgram.deploy", text))
    assert deployment is not None, [render(each) for each in diagnostics]
    return deployment


def diagnosed(text: str, graph: Graph | None = None) -> list[Diagnostic]:
    """All messages about a text, and about what it says of a program."""
    deployment, diagnostics = parse(SourceFile("skipgram.deploy", text))
    if deployment is None:
        return diagnostics
    return [*diagnostics, *resolve(deployment, graph or skipgram())[1]]


def resolved(text: str, graph: Graph | None = None) -> Resolution:
    """The resolution of a text without mistakes."""
    resolution, diagnostics = resolve(deployed(text), graph or skipgram())
    assert resolution is not None, [render(each) for each in diagnostics]
    return resolution
