"""What a deployment file asks for is where placement puts it."""

from __future__ import annotations

import pytest

from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.model import TaskSite
from dfc.distribute.place import Placed, place
from dfc.driver import pipeline
from dfc.driver.many_ranks import constraints_of, distribute
from dfc.ir.graph import Graph
from dfc.ir.options import CompileOptions
from tests.support.building import graph_of
from tests.support.deploying import resolved

HEAD = 'deploy 1 for "net.dfg"\njob ps tasks 2\njob worker tasks 2\n'


@pytest.fixture(scope="module")
def graph() -> Graph:
    return graph_of(
        """
        dfg 1

        param big: f32[1000] = 0
        param w: f32[10] = 1

        entry f(x: f32[10]) -> (y: f32) {
          let h = x * w
          let y = sum(h * h)
          big += 1
          return y
        }
        """,
        name="net.dfg",
    )


def placed(graph: Graph, lines: str) -> Placed:
    resolution = resolved(HEAD + lines, graph)
    whole = pipeline.optimise(graph, CompileOptions())
    return place(whole, constraints_of(whole, resolution))


def site(found: Placed, name: str) -> TaskSite:
    return next(site for node, site in found.placement.nodes.items() if node.name == name)


def test_values_and_state_are_where_their_lines_say(graph: Graph) -> None:
    found = placed(graph, 'place "**" on worker task 1\nplace "big" on ps task 1\nplace "f/y" on ps\n')
    assert found.placement.state == {"big": TaskSite("ps", 1), "w": TaskSite("worker", 1)}
    assert site(found, "f/h") == TaskSite("worker", 1)
    assert site(found, "f/y") == TaskSite("ps", 0)


def test_a_follower_is_in_the_task_that_its_leader_was_given(graph: Graph) -> None:
    found = placed(graph, 'place "big" on ps task 0\nplace "w" on ps\ncolocate "f/h" with "w"\n')
    assert found.placement.state["w"] == TaskSite("ps", 1)  # the task that holds less
    assert site(found, "f/h") == TaskSite("ps", 1)


def test_state_that_follows_state_is_in_its_task(graph: Graph) -> None:
    found = placed(graph, 'place "big" on worker task 1\ncolocate "w" with "big"\n')
    assert found.placement.state == {"big": TaskSite("worker", 1), "w": TaskSite("worker", 1)}


def test_reads_and_writes_are_where_the_state_is_whatever_matches_them(graph: Graph) -> None:
    found = placed(graph, 'place "f/**" on worker\nplace "*" on ps task 1\n')
    touching = [node for node in found.placement.nodes if node.op in ("read", "assign")]
    assert len(touching) >= 3
    assert {found.placement.nodes[node] for node in touching} == {TaskSite("ps", 1)}


def test_pieces_of_a_feed_are_where_the_line_about_its_entry_says() -> None:
    text = """
        dfg 1

        param w: f32[3] = 1

        entry f[B](x: f32[B, 3], y: f32[B]) -> (loss: f32) {
          let loss = mean(square(x @ w - y))
          w -= grad(loss, w)
          return loss
        }
        """
    lines = """place "**" on ps
        place "f/**" on worker
        replicate f over worker with mode = "sync", split = "B", blocks = 4
        """
    built = graph_of(text, name="net.dfg")
    whole = pipeline.optimise(built, CompileOptions())
    found = distribute(built, whole, SourceFile("net.deploy", HEAD + lines))
    assert found.placed.placement.state["w"].job == "ps"
