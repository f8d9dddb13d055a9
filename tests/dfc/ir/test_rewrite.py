"""Rebuilding shares what did not change, never touches the old graph and never recurses."""

from collections.abc import Sequence

from dfc.diagnostics.source import NOWHERE
from dfc.ir import walk
from dfc.ir.dtypes import BOOL, F32
from dfc.ir.graph import Block, Entry, Graph, Node, Value
from dfc.ir.rewrite import Cloner, Pass, RewriteSite, map_blocks, rebuild
from dfc.ir.types import tensor

X = tensor(F32)


class Nothing(Pass):
    def visit(self, site: RewriteSite) -> None:
        return None


class DropNegations(Pass):
    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        return site.operands if site.node.op == "neg" else None


def chain(*ops: str) -> Block:
    x = Value(X, "x")
    nodes: list[Node] = []
    for number, op in enumerate(ops):
        nodes.append(Node(op, (nodes[-1].result if nodes else x,), (X,), name=f"n{number}"))
    return Block((x,), nodes, (nodes[-1].result,))


def ops(block: Block) -> list[str]:
    return [node.op for node in walk.nodes(block)]


def test_a_pass_that_does_nothing_returns_the_same_block() -> None:
    block = chain("neg", "abs")
    assert rebuild(block, Nothing()) is block


def test_only_users_of_a_replaced_value_are_new() -> None:
    block = chain("abs", "neg", "exp")
    new = rebuild(block, DropNegations())
    assert ops(new) == ["abs", "exp"]
    assert new.nodes[0] is block.nodes[0]
    assert new.nodes[1].operands == (block.nodes[0].result,)
    assert new.nodes[1].name == "n2"
    assert ops(block) == ["abs", "neg", "exp"]


def test_replacements_reach_into_regions_and_outputs() -> None:
    x, condition = Value(X, "x"), Value(tensor(BOOL), "c")
    negative = Node("neg", (x,), (X,), name="n")
    inner = Node("exp", (negative.result,), (X,), name="e")
    branch = Block((), (inner,), (inner.result,))
    other = Block((), (), (negative.result,))
    node = Node("if", (condition,), (X,), regions=(branch, other), name="i")
    new = rebuild(Block((x, condition), (negative, node), (node.result,)), DropNegations())
    assert [n.op for n in walk.nodes(new)] == ["if", "exp"]
    assert new.nodes[0].regions[0].nodes[0].operands == (x,)
    assert new.nodes[0].regions[1].outputs == (x,)


def test_a_clone_is_independent_and_renamed() -> None:
    x, condition = Value(X, "x"), Value(tensor(BOOL), "c")
    inner = Node("exp", (x,), (X,), name="e")
    node = Node("if", (condition,), (X,), regions=(Block((), (inner,), inner.results),) * 2, name="i")
    y = Value(X, "y")
    output: list[Node] = []
    results = Cloner(rename="copy/{}".format).call(Block((x, condition), (node,), node.results), (y, condition), output)
    assert output[0] is not node
    assert output[0].name == "copy/i"
    assert output[0].regions[1].nodes[0].operands == (y,)
    assert results == output[0].results


def test_cloning_a_region_gives_it_parameters_of_its_own() -> None:
    block = chain("abs")
    copy = Cloner().block(block)
    assert copy.parameters[0] is not block.parameters[0]
    assert copy.nodes[0].operands == copy.parameters


def test_unchanged_entries_are_shared() -> None:
    entries = {
        name: Entry(name, block, ("x",), ("y",), (), (), (), NOWHERE)
        for name, block in {"a": chain("abs"), "b": chain("neg", "exp")}.items()
    }
    graph = Graph("m", entries=entries)
    assert map_blocks(graph, lambda block: rebuild(block, Nothing())) is graph
    changed = map_blocks(graph, lambda block: rebuild(block, DropNegations()))
    assert changed.entries["a"] is graph.entries["a"]
    assert ops(changed.entries["b"].block) == ["exp"]


def test_long_chains_and_deep_nesting_do_not_overflow() -> None:
    assert len(rebuild(chain(*["neg", "abs"] * 50_000), DropNegations()).nodes) == 50_000
    x, condition = Value(X, "x"), Value(tensor(BOOL), "c")
    node = Node("neg", (x,), (X,), name="n")
    for level in range(5_000):
        node = Node("if", (condition,), (X,), regions=(Block((), (node,), node.results),), name=f"i{level}")
    assert ops(rebuild(Block((x, condition), (node,)), DropNegations())).count("if") == 5_000
