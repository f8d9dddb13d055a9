"""What crosses between tasks, once for each who needs it; and what does not."""

from collections.abc import Callable

import pytest

from dfc.distribute.deployment.model import TaskSite
from dfc.distribute.deployment.placement import Placement
from dfc.distribute.partition import RankGraphs, RankRole, partition
from dfc.distribute.partition.check_parts import PartsError, check_parts
from dfc.ir import walk
from dfc.ir.graph import Graph, Node
from dfc.ops.effects.communication import RecvAttributes, SendAttributes
from tests.support.building import graph_of

A, B = TaskSite("a", 0), TaskSite("b", 0)

CHAIN = """dfg 1

var w: f32[4] = 0

entry step(x: f32[4]) -> (z: f32[4]) {
  let y = exp(x)
  let z = sin(y) + cos(y)
  w := z
  return z
}
"""


def _placed(graph: Graph, where: Callable[[Node], TaskSite], tasks: dict[str, int] | None = None) -> Placement:
    nodes = {node: where(node) for _, block in walk.graph_blocks(graph) for node in walk.nodes(block)}
    return Placement(tasks or {"a": 1, "b": 1}, dict.fromkeys(graph.resources, B), nodes, A)


def _messages(parts: RankGraphs, role: RankRole, entry: str = "step") -> list[str]:
    found = walk.nodes(parts.graphs[role].entries[entry].block)
    return [n.name for n in found if isinstance(n.attributes, SendAttributes | RecvAttributes)]


def _chain() -> RankGraphs:
    graph = graph_of(CHAIN)
    return partition(graph, _placed(graph, lambda node: A if node.op in ("exp", "constant") else B))


def test_a_value_that_two_nodes_use_elsewhere_crosses_once() -> None:
    parts = _chain()
    assert _messages(parts, RankRole("a", 0)) == ["step/y/send"]
    assert _messages(parts, RankRole("b", 0)) == ["step/y/recv"]
    (edge,) = [edge for edge in parts.edges if edge.key.startswith("step/")]
    assert (edge.source, edge.destinations) == ("a:0", ("b:0",))


def test_feeds_go_where_they_are_used_and_results_come_from_where_they_are_made() -> None:
    spread = _chain().entries["step"]
    assert spread.feeds == {"x": (RankRole("a", 0),)}
    assert spread.results == {"z": "b:0"}


def test_state_is_where_it_is_placed_and_nowhere_else() -> None:
    parts = _chain()
    assert list(parts.graphs[RankRole("b", 0)].resources) == ["w"]
    assert not parts.graphs[RankRole("a", 0)].resources


def test_a_value_for_all_tasks_of_a_job_is_sent_to_the_job() -> None:
    graph = graph_of(CHAIN)
    placement = _placed(graph, lambda n: A if n.op == "exp" else TaskSite("b"), {"a": 1, "b": 3})
    parts = partition(graph, Placement(placement.tasks, {"w": TaskSite("b")}, placement.nodes, A))
    assert parts.edges[0].destinations == ("b",)
    assert list(parts.graphs) == [RankRole("a", 0), RankRole("b")]
    check_parts(parts)


LOOP = """dfg 1

entry step(n: f32) -> (x: f32) {
  let x = loop x = n while x < 100.0 {
    x = x * 2.0 + 1.0
  }
  return x
}
"""


def test_the_owner_of_a_condition_tells_the_others_in_every_round() -> None:
    graph = graph_of(LOOP)
    parts = partition(graph, _placed(graph, lambda node: A if node.op == "less" else B))
    for role in parts.graphs:
        (loop,) = [n for n in walk.nodes(parts.graphs[role].entries["step"].block) if n.op == "while"]
        assert any(n.op in ("send", "recv") for n in loop.regions[0].nodes), role
    check_parts(parts)


def _edited(parts: RankGraphs, role: RankRole, change: Callable[[list[Node]], None]) -> RankGraphs:
    change(parts.graphs[role].entries["step"].block.nodes)
    return parts


def _without_messages(nodes: list[Node]) -> None:
    nodes[:] = [n for n in nodes if n.op not in ("send", "recv")]


def _twice(nodes: list[Node]) -> None:
    nodes += [n for n in nodes if n.op in ("send", "recv")]


@pytest.mark.parametrize("role", [RankRole("a", 0), RankRole("b", 0)], ids=str)
@pytest.mark.parametrize("change", [_without_messages, _twice])
def test_a_message_that_is_missing_or_doubled_on_one_side_is_found(
    role: RankRole, change: Callable[[list[Node]], None]
) -> None:
    check_parts(_chain())
    with pytest.raises(PartsError, match="step"):
        check_parts(_edited(_chain(), role, change))


CROSS = """dfg 1

entry step(x: f32) -> (a: f32, b: f32) {
  let p = exp(x)
  let q = sin(x)
  let a = p + cos(q)
  let b = q + tan(p)
  return a, b
}
"""


def test_tasks_that_would_wait_for_each_other_are_found() -> None:
    graph = graph_of(CROSS)
    on_a = ("exp", "cos")
    parts = partition(graph, _placed(graph, lambda n: A if n.op in on_a or n.name == "step/a" else B))
    check_parts(parts)
    for role, graph in parts.graphs.items():
        nodes = graph.entries["step"].block.nodes
        nodes.sort(key=lambda n: n.op != "recv")  # every task now receives before it sends
        assert nodes[0].op == "recv", role
    with pytest.raises(PartsError, match="wait for each other"):
        check_parts(parts)
