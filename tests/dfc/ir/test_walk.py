"""Walks see every node once, nested regions included, and never recurse."""

from dfc.ir import walk
from dfc.ir.dtypes import BOOL, F32
from dfc.ir.graph import Block, Node, Value
from dfc.ir.types import tensor

X = tensor(F32)


def conditional(depth: int, x: Value, condition: Value) -> Node:
    """`if`s nested `depth` times around `neg x`."""
    inner = Node("neg", (x,), (X,), name="neg")
    for level in range(depth):
        region = Block((), (inner,), inner.results)
        inner = Node("if", (condition,), (X,), regions=(region,), name=f"if_{level}")
    return inner


def test_nodes_come_in_program_order_with_regions_after_their_owner() -> None:
    x, condition = Value(X, "x"), Value(tensor(BOOL), "c")
    first, second = conditional(2, x, condition), Node("abs", (x,), (X,), name="abs")
    block = Block((x, condition), (first, second), second.results)
    assert [node.name for node in walk.nodes(block)] == ["if_1", "if_0", "neg", "abs"]
    assert len(list(walk.blocks(block))) == 3


def test_the_regions_of_a_node_come_one_after_the_other() -> None:
    x, condition = Value(X, "x"), Value(tensor(BOOL), "c")
    left, right = conditional(1, x, condition), Node("abs", (x,), (X,), name="abs")
    regions = (Block((), (left,), left.results), Block((), (right,), right.results))
    node, after = Node("if", (condition,), (X,), regions=regions, name="if"), Node("neg", (x,), (X,), name="after")
    names = [each.name for each in walk.nodes(Block((x, condition), (node, after), after.results))]
    assert names == ["if", "if_0", "neg", "abs", "after"]


def test_a_region_captures_what_it_does_not_define() -> None:
    x, condition = Value(X, "x"), Value(tensor(BOOL), "c")
    node = conditional(2, x, condition)
    assert walk.free_values(node.regions[0]) == (condition, x)
    assert walk.inputs(node) == (condition, x)


def test_uses_are_counted_through_regions() -> None:
    x, condition = Value(X, "x"), Value(tensor(BOOL), "c")
    node = conditional(1, x, condition)
    counts = walk.use_counts(Block((x, condition), (node,), (node.result, x)))
    assert counts[x] == 2
    assert counts[node.result] == 1
    assert counts[node.regions[0].nodes[0].result] == 1


def test_deep_nesting_does_not_overflow() -> None:
    x, condition = Value(X, "x"), Value(tensor(BOOL), "c")
    block = Block((x, condition), (conditional(50_000, x, condition),))
    assert sum(1 for _ in walk.nodes(block)) == 50_001
    assert x in walk.used_values(block)
