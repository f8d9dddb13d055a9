"""A name means one thing: what `run` fetches under it is what a deployment file places under it."""

from __future__ import annotations

import pytest

from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.names import Names
from dfc.driver.selection import select
from dfc.elaborate.build import build, elaborate
from dfc.ir.graph import Graph
from tests.support.corpus import ROOT
from tests.support.sweeping import few

SAMPLES = ROOT / "samples"
SHARED = """dfg 1
var w: f32[3] = 1

entry f(x: f32[4, 3], most: i32) -> (rounds: i32) {
  let last, k = loop a = w, k: i32 = 0 while k < most {
    a = a + x[0]
    k = k + 1
  }
  w += last
  return k
}
"""


def disagreements(graph: Graph) -> list[str]:
    names = Names(graph)
    found: list[str] = []
    for name, value in graph.bound.items():
        thing = names.find(name)
        if value.node is not None and thing is not None and thing.name != value.node.name:
            found.append(f"{name} is {value.node.name}, but {thing.name} to a deployment file")
    return found


@pytest.mark.parametrize("sample", few(sorted(str(path.relative_to(SAMPLES)) for path in SAMPLES.rglob("*.dfg")), 13))
def test_a_name_of_a_sample_means_one_thing(sample: str) -> None:
    graph, mistakes = elaborate(SourceFile(sample, (SAMPLES / sample).read_text(encoding="utf-8")), {})
    assert mistakes if graph is None else not disagreements(graph)


def test_a_name_of_a_second_result_means_the_result() -> None:
    graph = build(SourceFile("m.dfg", SHARED))
    loop = next(node for node in graph.entries["f"].block.nodes if node.op == "while")
    assert graph.bound["f/k"].node is loop
    assert disagreements(graph) == []
    part = select(graph, ["f/k"], ["x", "most"])
    (value,) = part.graph.entries[part.entry].block.outputs[:1]
    assert value.node is not None
    assert value.node.op == "while"
