"""Receives stand right before their first use, and what that saves: where it matters, and where it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dfc.distribute.partition import RankRole, partition
from dfc.distribute.partition.early import with_early_receives
from dfc.distribute.place import PlacementConstraints, place
from dfc.driver import pipeline
from dfc.ir.graph import Graph
from tests.dfc.distribute.place.test_place import _on
from tests.support.building import graph_of
from tests.support.command_line import Command, command

PROGRAM = """dfg 1

var a: f32[1000, 10] = 1
var b: f32[1000, 10] = 2
var c: f32[1000, 10] = 3

entry total(x: f32[10, 7]) -> f32[10, 7] {
  let p = transpose(a) @ (a @ x)
  let q = transpose(b) @ (b @ p)
  let r = transpose(c) @ (c @ q)
  return r
}
"""
WISHES = PlacementConstraints(
    {"worker": 1, "ps": 1},
    state=dict.fromkeys("abc", _on("ps")),
    values={
        f"total/{name}": _on("worker")
        for each in "pqr"
        for name in (each, f"{each}/matmul", f"{each}/transpose", f"{each}/matmul_1")
    },
)
TABLE = 1000 * 10 * 4
SMALL = 2 * 10 * 7 * 4
"""What else lies in the arena: intermediate values of ten rows, of which one kernel has more at a time than another."""


@pytest.fixture(scope="module")
def worker() -> Graph:
    graph = pipeline.optimise(graph_of(PROGRAM))
    return partition(graph, place(graph, WISHES).placement).graphs[RankRole("worker", 0)]


@pytest.fixture
def dfc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return command(monkeypatch, capsys)


def arena(graph: Graph) -> int:
    (entry,) = pipeline.scheduled(graph).entries
    return entry.arena.evaluate({})


def test_a_receive_stands_right_before_its_first_use(worker: Graph) -> None:
    nodes = worker.entries["total"].block.nodes
    places = [number for number, node in enumerate(nodes) if node.op == "recv"]
    assert len(places) == 3
    for place_ in places:
        received = nodes[place_].result
        following = next(node for node in nodes[place_ + 1 :] if node.op != "recv")
        assert received in following.operands


def test_delaying_receives_saves_the_memory_of_those_not_needed_yet(worker: Graph) -> None:
    """One table at a time is live, instead of all three."""
    early = with_early_receives(worker)
    pipeline.check(early, "early")
    assert [node.op for node in early.entries["total"].block.nodes[:3]] == ["recv"] * 3
    assert arena(early) - arena(worker) == 2 * TABLE


def test_what_receives_nothing_stays_as_it_is() -> None:
    graph = pipeline.optimise(graph_of(PROGRAM))
    alone = partition(graph, place(graph, PlacementConstraints({"worker": 1})).placement).graphs[RankRole("worker", 0)]
    assert with_early_receives(alone).entries["total"] is alone.entries["total"]


@pytest.fixture
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program and its deployment file, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.dfg").write_text(PROGRAM)
    places = "".join(f'place "{name}" on ps\n' for name in "abc")
    (tmp_path / "t.deploy").write_text(
        f'deploy 1 for "t.dfg"\njob worker tasks 1\njob ps tasks 1\n{places}place "total/**" on worker\n'
    )


@pytest.mark.usefixtures("_files")
def test_dfc_inspect_shows_both_amounts(dfc: Command) -> None:
    assert dfc("compile", "t.dfg", "--deploy", "t.deploy").code == 0
    lines = [line.strip() for line in dfc("inspect", "t.bundle").out.splitlines() if "needs" in line]
    (needs,) = (line for line in lines if line.startswith("worker-0 needs") and "at the start" in line)
    delayed, early = (int(word) for word in needs.split() if word.isdigit())
    assert early - delayed == pytest.approx(2 * TABLE, abs=SMALL)
    assert any(line.startswith("ps-0 needs") and "at the start" not in line for line in lines)


@pytest.mark.usefixtures("_files")
def test_dfc_place_shows_both_amounts(dfc: Command) -> None:
    ended = dfc("place", "t.dfg", "--deploy", "t.deploy", "--memory", "--format", "json")
    (peak,) = json.loads(ended.out)["peaks"]
    assert (peak["role"], peak["entry"]) == ("worker-0", "total")
    assert int(peak["early"]) - int(peak["delayed"]) == pytest.approx(2 * TABLE, abs=SMALL)
