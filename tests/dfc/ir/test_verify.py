"""Every invariant of the verifier is broken by hand, and found by its number."""

import pytest

from dfc.diagnostics.source import NOWHERE
from dfc.ir.attributes import MeasuredAttributes
from dfc.ir.dims import DimLike, Symbol, dim
from dfc.ir.dtypes import BOOL, F32, I64, DTypeVariable
from dfc.ir.graph import Block, DimCheck, Graph, Node, Value
from dfc.ir.types import TensorType, tensor
from dfc.ir.verify import Situation, VerifyError, verify, violations
from dfc.ops.attributes import CastAttributes, DimAttributes, ShapeAttributes
from tests.support.graphs import assign, constant, entry, graph, read, token, variable

X = tensor(F32)
N = Symbol("N")
W = variable("w", X)
V = variable("v", X)


def numbers(broken: Graph) -> set[int]:
    return {violation.number for violation in violations(broken)}


def neg(x: Value, name: str = "n") -> Node:
    return Node("neg", (x,), (x.type,), name=name)


def conditional(branch: Block, *operands: Value, name: str = "i") -> Node:
    types = [v.type for v in branch.outputs]
    return Node("if", operands, types, regions=(branch, Block((), (), branch.outputs)), name=name)


def test_a_good_graph_passes() -> None:
    x, t, u = Value(tensor(F32, N), "x"), token("v"), token("w")
    first = read(W, u, "read")
    second = assign(W, first.result, first.results[1], "assign")
    size = Node("dim", (), (X,), attributes=DimAttributes(dim(N)), name="size")
    node = neg(x)
    third = read(V, t, "third")
    good = entry("e", (x, t, u), (first, second, size, node, third), (node.result, third.results[1], second.result))
    good.dims = (N,)
    assert violations(graph(good, resources=[V, W])) == []
    verify(graph(good, resources=[V, W]), "test")


def test_1_use_before_definition() -> None:
    x = Value(X, "x")
    first, second = neg(x, "a"), neg(x, "b")
    swapped = neg(second.result, "a")
    assert numbers(graph(entry("e", (x,), (swapped, second), (swapped.result,)))) == {1}
    assert numbers(graph(entry("e", (x,), (), (first.result,)))) == {1}


def test_1_a_value_of_a_region_used_outside() -> None:
    x, condition = Value(X, "x"), Value(tensor(BOOL), "c")
    inner = neg(x)
    node = conditional(Block((), (inner,), inner.results), condition)
    outside = Node("if", (condition,), (X,), regions=(node.regions[0], Block((), (), (x,))), name="i")
    assert numbers(graph(entry("e", (x, condition), (outside,), (inner.result,)))) == {1}


def test_2_a_node_that_stands_twice() -> None:
    x = Value(X, "x")
    node = neg(x)
    assert 2 in numbers(graph(entry("a", (x,), (node,), node.results), entry("b", (x,), (node,), node.results)))


def test_2_results_that_point_elsewhere() -> None:
    x = Value(X, "x")
    node = neg(x)
    node.results = (Value(X, "y"),)
    assert numbers(graph(entry("e", (x,), (node,), node.results))) == {2}


@pytest.mark.parametrize("names", [("a", "a"), ("", "b")])
def test_3_names(names: tuple[str, str]) -> None:
    x = Value(X, "x")
    first = neg(x, names[0])
    second = neg(first.result, names[1])
    assert numbers(graph(entry("e", (x,), (first, second), second.results))) == {3}


def test_3_names_are_unique_across_regions() -> None:
    x, condition = Value(X, "x"), Value(tensor(BOOL), "c")
    inner = neg(x, "i")
    node = Node("if", (condition,), (X,), regions=(Block((), (inner,), inner.results), Block((), (), (x,))), name="i")
    assert numbers(graph(entry("e", (x, condition), (node,), node.results))) == {3}


def test_4_a_token_used_twice_or_never() -> None:
    t = token("w")
    first = read(W, t, "a")
    second = read(W, t, "b")
    twice = entry("e", (t,), (first, second), (second.results[1],))
    broken = violations(graph(twice, resources=[W]))
    assert {(each.number, each.message) for each in broken} == {
        (4, "the token of `token(w)` is used 2 times"),
        (4, "the token of `token(w)` is used 0 times"),
    }


def test_4_a_token_from_outside_a_region() -> None:
    condition, t = Value(tensor(BOOL), "c"), token("w")
    inner = read(W, t, "a")
    node = Node("if", (condition,), (X,), regions=(Block((), (inner,), inner.results[:1]),) * 1, name="i")
    broken = violations(graph(entry("e", (condition, t), (node,), (node.result, t)), resources=[W]))
    assert (4, "takes token(w) from outside its block") in {(each.number, each.message) for each in broken}


def test_5_block_tokens() -> None:
    x, t, u = Value(X, "x"), token("v"), token("w")
    assert 5 in numbers(graph(entry("e", (u, t), (), (u, t)), resources=[V, W]))
    assert 5 in numbers(graph(entry("e", (t, x), (), (x, t)), resources=[V]))
    assert 5 in numbers(graph(entry("e", (t, u), (), (t,)), resources=[V, W]))


def test_6_node_tokens() -> None:
    x, t, u = Value(X, "x"), token("v"), token("w")
    unsorted = Node("host", (u, t), (u.type, t.type), name="h")
    assert 6 in numbers(graph(entry("e", (t, u), (unsorted,), unsorted.results[::-1]), resources=[V, W]))
    lost = Node("host", (x, t), (), name="h")
    assert 6 in numbers(graph(entry("e", (x, t), (lost,), (t,)), resources=[V]))


def test_6_a_region_without_the_tokens_of_its_node() -> None:
    condition, t = Value(tensor(BOOL), "c"), token("w")
    node = Node("if", (condition, t), (t.type,), regions=(Block(), Block()), name="i")
    assert numbers(graph(entry("e", (condition, t), (node,), node.results), resources=[W])) == {6}


def test_7_unknown_resources() -> None:
    t, a = token("ghost"), token("@assert")
    assert numbers(graph(entry("e", (t,), (node := Node("tick", (t,), (t.type,), name="k"),), node.results))) == {7}
    assert numbers(graph(entry("e", (a,), (node := Node("assert", (a,), (a.type,), name="k"),), node.results))) == set()


def test_8_generic_types() -> None:
    x = Value(TensorType(DTypeVariable("T", "float")), "x")
    assert numbers(graph(entry("e", (x,), (), (x,)))) == {8}
    y = Value(X, "y")
    node = Node("cast", (y,), (X,), attributes=CastAttributes(DTypeVariable("T", "float")), name="c")
    assert numbers(graph(entry("e", (y,), (node,), node.results))) == {8}


def test_9_unknown_sizes_in_types_attributes_checks_and_state() -> None:
    x = Value(tensor(F32, N), "x")
    assert numbers(graph(entry("e", (x,), (), (x,)))) == {9}
    y = Value(X, "y")
    node = Node("broadcast", (y,), (X,), attributes=ShapeAttributes((dim(N),)), name="b")
    assert numbers(graph(entry("e", (y,), (node,), node.results))) == {9}
    checked = entry("e", (y,), (), (y,))
    checked.checks = (DimCheck(dim(N), ">=", dim(0), "", NOWHERE),)
    assert numbers(graph(checked)) == {9}
    bare = variable("w", X)
    assert numbers(Graph("g", {"w": type(bare)("w", bare.kind, tensor(F32, N), True, None, NOWHERE)})) == {9}


def test_10_signatures() -> None:
    x = Value(X, "x")
    nameless = entry("e", (x,), (), (x,))
    nameless.parameter_names = ()
    assert numbers(graph(nameless)) == {10}
    assert numbers(graph(entry("e", (x,), (), (x,), dim_feeds=[N]))) == {10}


def test_11_the_injected_check_is_asked_about_every_node() -> None:
    x, condition = Value(X, "x"), Value(tensor(BOOL), "c")
    inner = neg(x)
    node = conditional(Block((), (inner,), inner.results), condition)
    node = Node("if", (condition,), (X,), regions=(node.regions[0], Block((), (), (x,))), name="i")
    found = violations(graph(entry("e", (x, condition), (node,), node.results)), lambda n, _: [f"no {n.op}"])
    assert [(v.number, v.message) for v in found] == [(11, "no if"), (11, "no neg")]


def test_11_nodes_that_differ_in_what_a_check_may_ask_for_are_asked_about() -> None:
    """All others have the problems of the first one like them."""
    x, wide, condition = Value(X, "x"), Value(tensor(F32, 2), "y"), Value(tensor(BOOL), "c")
    asked: list[str] = []

    def check(node: Node, situation: Situation) -> list[str]:
        asked.append(node.name)
        return [f"{node.op} {node.operands[0].type} {node.results[0].type} {situation.in_branch}"]

    size = DimAttributes(dim(2))
    inner = neg(x, "inside")
    nodes = [
        neg(x, "first"),
        neg(x, "like it"),
        Node("abs", (x,), (X,), name="op"),
        neg(wide, "operand"),
        Node("neg", (x,), (wide.type,), name="result"),
        Node("neg", (x,), (X,), attributes=size, name="attributes"),
        Node("neg", (x,), (X,), attributes=DimAttributes(dim(2)), name="equal attributes"),
        Node("neg", (x,), (X,), attributes=DimAttributes(dim(3)), name="other attributes"),
        Node(
            "if", (condition,), (X,), regions=(Block((), (inner,), inner.results), Block((), (), (x,))), name="branch"
        ),
    ]
    found = violations(graph(entry("e", (x, wide, condition), nodes, nodes[0].results)), check)
    alike = {"like it", "equal attributes"}
    assert asked == [node.name for node in nodes if node.name not in alike] + ["inside"]
    assert [v.node.name for v in found if v.node] == [node.name for node in nodes] + ["inside"]
    assert found[0].message == found[1].message == f"neg {X} {X} False" != found[-1].message


def test_11_what_is_wrong_with_a_kind_of_node_is_said_of_every_initial_value() -> None:
    """They share what was found out; entries, whose sizes are others, do not."""
    asked: list[str] = []

    def check(node: Node, situation: Situation) -> list[str]:
        asked.append(node.name)
        return ["wrong"]

    resources = [variable("v", X), variable("w", X)]
    there = constant(0.0, "there", resources[0].type.machine.numpy)
    found = violations(graph(entry("e", (), (there,), there.results), resources=resources), check)
    assert [(v.where, v.message) for v in found] == [
        ("initial value of v", "wrong"),
        ("initial value of w", "wrong"),
        ("e", "wrong"),
    ]
    assert asked == ["v/initial", "there"]


def test_12_tokens_that_nothing_uses() -> None:
    condition, t = Value(tensor(BOOL), "c"), token("w")
    assert numbers(graph(entry("e", (t,), (), (t,)), resources=[W])) == {12}
    regions = [Block((inner,), (), (inner,)) for inner in (token("w"), token("w"))]
    node = Node("if", (condition, t), (t.type,), regions=regions, name="i")
    assert numbers(graph(entry("e", (condition, t), (node,), node.results), resources=[W])) == {12}


def measuring(count: Value, most: DimLike, name: str = "r") -> Node:
    attributes = MeasuredAttributes(dim(N), dim(most))
    return Node("range", (count,), (tensor(I64, N),), attributes=attributes, name=name)


def filled(name: str = "f") -> Node:
    return Node("iota", (), (tensor(I64, N),), name=name)


def test_9_a_measured_size_is_known_below_its_node_only() -> None:
    count, condition = Value(tensor(I64), "n"), Value(tensor(BOOL), "c")
    first, second = measuring(count, 5), filled()
    assert numbers(graph(entry("e", (count,), (first, second), second.results))) == set()
    assert numbers(graph(entry("e", (count,), (second, first), second.results))) == {9}
    sides = [Block((), (inner,), ()) for inner in (measuring(count, 5), filled())]
    assert numbers(
        graph(entry("e", (count, condition), (Node("if", (condition,), (), regions=sides, name="i"),), ()))
    ) == {9}
    assert numbers(graph(entry("e", (count,), (measuring(count, Symbol("K")),), ()))) == {9}


def test_13_a_measured_size_is_no_other_one() -> None:
    count, x = Value(tensor(I64), "n"), Value(tensor(F32, N), "x")
    assert numbers(graph(entry("e", (count, x), (measuring(count, 5),), (), dims=[N]))) == {13}
    twice = [measuring(count, 5), measuring(count, 6, "s")]
    assert numbers(graph(entry("e", (count,), twice, ()))) == {13}
    again = [measuring(count, 5), measuring(count, 5, "s")]
    assert numbers(graph(entry("e", (count,), again, ()))) == set()


def test_the_error_names_the_phase_and_every_violation() -> None:
    x = Value(X, "x")
    first, second = neg(x, ""), neg(x, "")
    with pytest.raises(VerifyError, match="after dce") as caught:
        verify(graph(entry("e", (x,), (first, second), second.results)), "dce", show=lambda g, notes: f"{len(notes)}!")
    assert len(caught.value.violations) == 2
    assert caught.value.text == "2!"


def test_a_long_chain_is_verified() -> None:
    x = Value(X, "x")
    nodes: list[Node] = [constant(1.0, "start")]
    for number in range(30_000):
        nodes.append(neg(nodes[-1].result, f"n{number}"))
    assert violations(graph(entry("e", (x,), nodes, nodes[-1].results))) == []
