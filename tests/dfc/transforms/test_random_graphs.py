"""Passes keep the meaning of random graphs: each alone, all in order, pairs in either order."""

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest

from dfc.driver import pipeline
from dfc.ir import walk
from dfc.ir.equality import equal
from dfc.ir.graph import Graph, Node
from dfc.ops.effects.effects import effect
from dfc.ops.record import Effect
from dfc.transforms.expand import expand
from dfc.transforms.scalar.cse import cse
from dfc.transforms.scalar.dce import dce
from dfc.transforms.scalar.fold import fold
from dfc.transforms.scalar.prune import prune
from dfc.transforms.scalar.simplify import simplify
from dfc.transforms.sparse.sparse import sparse
from tests.support.agreeing import assert_same, reference, verified
from tests.support.random_graphs import random_case
from tests.support.sweeping import few

PASSES: dict[str, Callable[[Graph], Graph]] = {
    "prune": prune,
    "simplify": simplify,
    "fold": fold,
    "cse": cse,
    "dce": dce,
    "expand": expand,
    "sparse": sparse,
}


@pytest.mark.parametrize("block", few(range(20), 2))
def test_all_passes_in_order(block: int) -> None:
    for seed in range(block * 20, block * 20 + 20):
        case = random_case(seed, size=14)
        verified(case.graph, "making")
        after = case.graph
        for phase in pipeline.PHASES:
            after = verified(phase.run(after), f"{phase.name} of seed {seed}")
        assert_same(reference(case), reference(case, after))


@pytest.mark.parametrize("name", PASSES)
def test_each_pass_alone(name: str) -> None:
    for seed in few(range(10_000, 10_040), 10):
        case = random_case(seed)
        after = verified(PASSES[name](case.graph), f"{name} of seed {seed}")
        assert_same(reference(case), reference(case, after))


def test_pairs_in_either_order() -> None:
    for number, (first, second) in enumerate(permutations(PASSES, 2)):
        for seed in few(range(20_000 + 4 * number, 20_004 + 4 * number), 1):
            case = random_case(seed)
            after = verified(PASSES[second](PASSES[first](case.graph)), f"{first}, {second} of seed {seed}")
            assert_same(reference(case), reference(case, after))


def test_a_pass_never_changes_the_graph_it_was_given() -> None:
    for seed in few(range(30_000, 30_020), 10):
        case = random_case(seed)
        before = [(id(node), node.operands, len(block.nodes)) for block, node in _all(case.graph)]
        for change in PASSES.values():
            change(case.graph)
        assert [(id(node), node.operands, len(block.nodes)) for block, node in _all(case.graph)] == before


def _all(graph: Graph):
    for block in walk.blocks(graph.entries["e"].block):
        for node in block.nodes:
            yield block, node


@pytest.mark.parametrize("name", ["fold", "cse"])
def test_random_and_stateful_nodes_are_never_folded_or_shared(name: str) -> None:
    """Every draw, read, write and random number outside of branches that folding decides is still there."""
    for seed in few(range(40_000, 40_060), 30):
        case = random_case(seed)
        graph = case.graph if name == "cse" else cse(case.graph)
        kept = _effects(PASSES[name](graph))
        for node in graph.entries["e"].block.nodes:
            if effect(node) not in (Effect.PURE, Effect.REGION):
                assert node.name in kept, f"{node} of seed {seed}"


def _effects(graph: Graph) -> dict[str, Node]:
    nodes = walk.nodes(graph.entries["e"].block)
    return {node.name: node for node in nodes if effect(node) not in (Effect.PURE, Effect.REGION)}


def test_the_order_of_effects_on_a_variable_stays() -> None:
    for seed in few(range(50_000, 50_060), 30):
        case = random_case(seed)
        before = _orders(case.graph)
        after = case.graph
        for phase in pipeline.PHASES:
            after = phase.run(after)
        for resource, names in _orders(after).items():
            known = [name for name in before[resource] if name in set(names)]
            assert [name for name in names if name in set(known)] == known, seed


def _orders(graph: Graph) -> dict[str, list[str]]:
    """The effects at the top level of the entry on each resource, along its tokens."""
    found: dict[str, list[str]] = {}
    for node in graph.entries["e"].block.nodes:
        for value in node.operands:
            if value.is_token:
                found.setdefault(str(value.type), []).append(node.name)
    return found


def test_the_generator_covers_the_language() -> None:
    """Else the tests above say nothing about what never occurs."""
    ops: set[str] = set()
    sizes: set[int] = set()
    for seed in range(120):
        case = random_case(seed, size=14)
        sizes.add(case.size)
        ops |= {node.op for node in walk.nodes(case.graph.entries["e"].block)}
    assert {0, 1, 7} <= sizes
    assert {"if", "while", "for", "read", "assign", "draw", "random", "gather", "matmul", "softmax", "slice"} <= ops
    assert len(ops) >= 60


def test_the_same_seed_gives_the_same_graph() -> None:
    assert equal(random_case(5).graph, random_case(5).graph)
    assert not equal(random_case(5).graph, random_case(6).graph)
    np.testing.assert_array_equal(random_case(5).feeds()["x0"], random_case(5).feeds()["x0"])
