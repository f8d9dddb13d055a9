"""Graphs broken at random are refused: the verifier finds every one of many thousand small mutations."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from dfc.ir import walk
from dfc.ir.attributes import NoAttributes
from dfc.ir.dims import Symbol
from dfc.ir.dtypes import F16, DTypeVariable
from dfc.ir.graph import Block, Node, Value
from dfc.ir.types import TokenType, tensor
from dfc.ir.verify import VerifyError, verify, violations
from dfc.ops.attributes import AxisAttributes
from dfc.ops.check import check_node
from dfc.ops.spelling import show
from tests.support.random_graphs import random_case
from tests.support.sweeping import few

Mutation = Callable[[Random, Block, list[Node]], bool]


def used(block: Block) -> set[Value]:
    return walk.used_values(block)


def drop_a_needed_node(random: Random, block: Block, nodes: list[Node]) -> bool:
    needed = used(block)
    found = [n for n in block.nodes if any(v in needed for v in n.results)]
    if found:
        block.nodes.remove(random.choice(found))
    return bool(found)


def use_before_definition(random: Random, block: Block, nodes: list[Node]) -> bool:
    pairs = [
        (i, j)
        for i, first in enumerate(block.nodes)
        for j, second in enumerate(block.nodes)
        if i < j and any(v in first.results for v in walk.inputs(second))
    ]
    if pairs:
        i, j = random.choice(pairs)
        block.nodes[i], block.nodes[j] = block.nodes[j], block.nodes[i]
    return bool(pairs)


def same_name_twice(random: Random, block: Block, nodes: list[Node]) -> bool:
    if len(nodes) < 2:
        return False
    first, second = random.sample(nodes, 2)
    first.name = second.name
    return True


def no_name(random: Random, block: Block, nodes: list[Node]) -> bool:
    random.choice(nodes).name = ""
    return True


def another_element_type(random: Random, block: Block, nodes: list[Node]) -> bool:
    node = random.choice(nodes)
    plain = [v for v in node.results if not v.is_token]
    if not plain:
        return False
    value = random.choice(plain)
    value.type = value.tensor.with_dtype(F16)
    return True


def another_rank(random: Random, block: Block, nodes: list[Node]) -> bool:
    node = random.choice(nodes)
    plain = [v for v in node.results if not v.is_token]
    if not plain:
        return False
    value = random.choice(plain)
    value.type = value.tensor.with_shape((*value.tensor.shape, tensor(F16, 2).shape[0]))
    return True


def a_generic_type(random: Random, block: Block, nodes: list[Node]) -> bool:
    value = random.choice([v for v in block.parameters if not v.is_token])
    value.type = value.tensor.with_dtype(DTypeVariable("T", "float"))
    return True


def an_unknown_size(random: Random, block: Block, nodes: list[Node]) -> bool:
    value = random.choice([v for v in block.parameters if not v.is_token])
    value.type = tensor(value.tensor.dtype, Symbol("ghost"))
    return True


def an_unknown_op(random: Random, block: Block, nodes: list[Node]) -> bool:
    random.choice(nodes).op = "transmogrify"
    return True


def foreign_attributes(random: Random, block: Block, nodes: list[Node]) -> bool:
    node = random.choice(nodes)
    node.attributes = AxisAttributes(0) if isinstance(node.attributes, NoAttributes) else NoAttributes()
    return True


def a_lost_operand(random: Random, block: Block, nodes: list[Node]) -> bool:
    found = [n for n in nodes if n.operands and n.op != "concat"]
    if found:
        node = random.choice(found)
        node.operands = node.operands[:-1]
    return bool(found)


def a_stranger_as_operand(random: Random, block: Block, nodes: list[Node]) -> bool:
    found = [n for n in nodes if n.operands]
    if found:
        node = random.choice(found)
        place = random.randrange(len(node.operands))
        stranger = Value(node.operands[place].type, "stranger")
        node.operands = (*node.operands[:place], stranger, *node.operands[place + 1 :])
    return bool(found)


def a_token_of_another_resource(random: Random, block: Block, nodes: list[Node]) -> bool:
    tokens = [v for v in block.parameters if v.is_token]
    if tokens:
        random.choice(tokens).type = TokenType("zz")
    return bool(tokens)


def a_token_that_is_not_returned(random: Random, block: Block, nodes: list[Node]) -> bool:
    tokens = [v for v in block.outputs if v.is_token]
    if tokens:
        lost = random.choice(tokens)
        block.outputs = tuple(v for v in block.outputs if v is not lost)
    return bool(tokens)


def a_node_twice(random: Random, block: Block, nodes: list[Node]) -> bool:
    block.nodes.append(random.choice(nodes))
    return True


def a_lost_region(random: Random, block: Block, nodes: list[Node]) -> bool:
    found = [n for n in nodes if n.regions]
    if found:
        node = random.choice(found)
        node.regions = node.regions[:-1]
    return bool(found)


def a_lost_result_of_a_region(random: Random, block: Block, nodes: list[Node]) -> bool:
    found = [r for n in nodes for r in n.regions if r.outputs]
    if found:
        region = random.choice(found)
        region.outputs = region.outputs[1:]
    return bool(found)


MUTATIONS: list[Mutation] = [
    drop_a_needed_node,
    use_before_definition,
    same_name_twice,
    no_name,
    another_element_type,
    another_rank,
    a_generic_type,
    an_unknown_size,
    an_unknown_op,
    foreign_attributes,
    a_lost_operand,
    a_stranger_as_operand,
    a_token_of_another_resource,
    a_token_that_is_not_returned,
    a_node_twice,
    a_lost_region,
    a_lost_result_of_a_region,
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_mutated_graph_is_refused(mutation: Mutation) -> None:
    done = 0
    for seed in few(range(70_000, 70_040), 10):
        graph = random_case(seed, size=14).graph
        block = graph.entries["e"].block
        nodes = list(walk.nodes(block))
        if nodes and mutation(Random(seed), block, nodes):
            done += 1
            with pytest.raises(VerifyError):
                verify(graph, f"seed {seed}", check_node, show)
    assert done >= 3


def test_random_graphs_are_accepted() -> None:
    """Else the tests above would show nothing."""
    for seed in range(70_000, 70_040):
        assert not violations(random_case(seed, size=14).graph, check_node)
