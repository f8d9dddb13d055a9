"""Edges between nodes: exactly the pairs that share a byte of which one writes, by some path, and no edge too many."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from dfc_runtime.graphs.ordering import Access, Ordering, merged

Accesses = list[Access]


def conflict(first: Accesses, second: Accesses) -> bool:
    """Byte by byte."""
    return any(
        a.start < b.end and b.start < a.end and (a.writes or b.writes) and a.end > a.start and b.end > b.start
        for a in first
        for b in second
    )


def reachable(edges: list[list[int]]) -> list[set[int]]:
    """The nodes before each."""
    before: list[set[int]] = []
    for after in edges:
        before.append(set(after).union(*(before[node] for node in after)))
    return before


def random_nodes(seed: int) -> list[Accesses]:
    chance = random.Random(seed)
    nodes: list[Accesses] = []
    for _ in range(chance.randrange(2, 25)):
        starts = [chance.randrange(60) for _ in range(chance.randrange(1, 4))]
        nodes.append([Access(s, s + chance.randrange(0, 14), chance.random() < 0.4) for s in starts])
    return nodes


@pytest.mark.parametrize("seed", range(60))
def test_paths_are_those_of_conflicts(seed: int) -> None:
    nodes, ordering = random_nodes(seed), Ordering()
    edges = [ordering.add(accesses) for accesses in nodes]
    wanted = reachable(
        [[j for j in range(i) if conflict(nodes[j], accesses)] for i, accesses in enumerate(nodes)]
    )  # fmt: skip
    found = reachable(edges)
    assert found == wanted, f"seed {seed}"
    for node, after in enumerate(edges):
        for each in after:
            others = set().union(*(found[other] for other in after if other != each))
            assert each not in others, f"seed {seed}: the edge {each} -> {node} is implied"


def test_readers_of_one_buffer_are_not_ordered() -> None:
    ordering = Ordering()
    assert ordering.add([Access(0, 8, writes=True)]) == []
    assert ordering.add([Access(0, 4, writes=False)]) == [0]
    assert ordering.add([Access(4, 8, writes=False)]) == [0]
    assert ordering.add([Access(2, 6, writes=True)]) == [1, 2]


def test_a_node_is_not_after_itself() -> None:
    assert Ordering().add([Access(0, 8, writes=False), Access(4, 12, writes=True)]) == []


@pytest.mark.parametrize("seed", range(20))
def test_merged_accesses_mean_the_same_bytes(seed: int) -> None:
    accesses = [each for node in random_nodes(seed) for each in node]
    for writes in (False, True):
        wanted = {byte for a in accesses if a.writes == writes for byte in range(a.start, a.end)}
        pieces = [a for a in merged(iter(accesses)) if a.writes == writes]
        assert {byte for a in pieces for byte in range(a.start, a.end)} == wanted, f"seed {seed}"
        assert all(a.end < b.start for a, b in pairwise(pieces))
