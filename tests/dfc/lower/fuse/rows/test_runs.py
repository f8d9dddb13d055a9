"""Who of a run touches which memory: against the definition, pair by pair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.ir.dims import dim
from dfc.ir.dtypes import F32
from dfc.lower.fuse.rows.runs import conflicts
from dfc.lower.storage import Storage, fresh

Touched = Sequence[Sequence[tuple[Storage, str]]]


def random_touches(generator: np.random.Generator, parts: int, storages: int) -> Touched:
    memory = [fresh(F32, (dim(4),), f"s{number}") for number in range(storages)]
    ways = ("read", "read", "write", "update")
    return [
        [(memory[generator.integers(storages)], ways[generator.integers(4)]) for _ in range(generator.integers(1, 4))]
        for _ in range(parts)
    ]


def closed(before: Sequence[set[int]]) -> list[set[int]]:
    """All that has to be before each part, by way of others too."""
    result: list[set[int]] = []
    for direct in before:
        result.append(direct | {one for part in direct for one in result[part]})
    return result


def clashes(one: Sequence[tuple[Storage, str]], other: Sequence[tuple[Storage, str]]) -> bool:
    return any(a is b and (how, way) != ("read", "read") for a, how in one for b, way in other)


def test_conflicts_put_parts_into_the_order_that_their_memory_asks_for() -> None:
    generator = np.random.default_rng(1)
    for _ in range(40):
        touched = random_touches(generator, 12, 5)
        pairwise = [{one for one in range(n) if clashes(touched[one], touched[n])} for n in range(len(touched))]
        assert closed(conflicts(touched)) == closed(pairwise)


def test_conflicts_name_what_wrote_last_alone() -> None:
    """Else a variable that many kernels update would have as many pairs as there are pairs of kernels."""
    memory = fresh(F32, (dim(4),), "s")
    assert conflicts([[(memory, "update")]] * 4) == [set(), {0}, {1}, {2}]
