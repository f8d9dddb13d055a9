"""Kernels in the order that needs the least memory, whatever the order of lines; effects where they were."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from dfc.ir.dims import Symbol
from dfc.ir.dtypes import F32
from dfc.ir.graph import Graph
from dfc.ir.types import tensor
from dfc.kernels.program import Launch, Program
from dfc.lower.schedule.order import _Run
from dfc.ops.attributes import ReduceAttributes
from tests.support.graphs import variable
from tests.support.lowering import agree, verified
from tests.support.making import Making
from tests.support.sweeping import few

B = Symbol("B")
COUNT = 5
X = np.random.default_rng(8).standard_normal((8, 256)).astype(np.float32)
W = np.random.default_rng(9).standard_normal((COUNT, 256, 256)).astype(np.float32)


def lines(seed: int | None) -> list[tuple[str, int]]:
    """Products and what is reduced of each, in a random order: first come all products without a seed."""
    both = [("product", k) for k in range(COUNT)] + [("reduced", k) for k in range(COUNT)]
    if seed is None:
        return both
    order = np.random.default_rng(seed).permutation(2 * COUNT)
    rank = {line: int(order[i]) for i, line in enumerate(both)}
    return sorted(both, key=lambda line: (max(rank[line], rank["product", line[1]]), line))


def reducing(order: list[tuple[str, int]], axes: tuple[int, ...]) -> Graph:
    m = Making()
    x = m.feed("x", tensor(F32, B, 256))
    w = [m.feed(f"w{k}", tensor(F32, 256, 256)) for k in range(COUNT)]
    products, small = {}, {}
    for kind, k in order:
        if kind == "product":
            products[k] = m.op("matmul", x, w[k])
        else:
            small[k] = m.op("sum", m.op("square", products[k]), attributes=ReduceAttributes(axes, False))
    total = small[0]
    for k in range(1, COUNT):
        total = m.op("sub", small[k], total)
    return m.graph(total, dims=[B])


def launched(program: Program) -> list[str]:
    return [step.names[-1] for step in program.entries[0].steps if isinstance(step, Launch)]


@pytest.mark.parametrize("axes", [(1,), (0, 1)])
def test_any_order_of_lines_needs_the_memory_of_the_best_one(axes: tuple[int, ...]) -> None:
    feeds = {"x": X[:2], **{f"w{k}": w for k, w in enumerate(W)}}
    one_by_one = [(kind, k) for k in range(COUNT) for kind in ("product", "reduced")]
    least = verified(reducing(one_by_one, axes), fusing=True).entries[0].arena.evaluate({B: 1000})
    product = 1000 * 256 * 4
    assert least <= 2 * product
    for seed in few((None, 1, 2, 3), 2):
        program, _ = agree(reducing(lines(seed), axes), feeds, sizes={"B": 2})
        assert program.entries[0].arena.evaluate({B: 1000}) <= least + COUNT * 4160, seed


def test_what_is_small_keeps_its_order() -> None:
    m = Making()
    x = m.feed("x", tensor(F32, 4, 256))
    w = [m.feed(f"w{k}", tensor(F32, 256, 256)) for k in range(2)]
    large = m.op("matmul", m.feed("y", tensor(F32, 5000, 256)), w[0])
    kept = m.op("sum", large, attributes=ReduceAttributes((1,), False))
    products = [m.op("matmul", x, each) for each in w]
    sums = [m.op("sum", each, attributes=ReduceAttributes((1,), False)) for each in products]
    program = verified(m.graph(kept, *sums), fusing=True)
    names = [value.name for value in (large, kept, *products, *sums)]
    assert launched(program) == names


def test_writes_to_state_stay_where_they_are() -> None:
    state = variable("v", tensor(F32, 8))
    m = Making(resources=[state])
    x = m.feed("x", tensor(F32, 8, 256))
    w = [m.feed(f"w{k}", tensor(F32, 256, 256)) for k in range(3)]
    products = [m.op("matmul", x, each) for each in w]
    for product in products:
        m.assign("v", m.op("max", product, attributes=ReduceAttributes((1,), False)), mode="+=")
        m.assign("v", m.op("tanh", m.read("v")))
    feeds = {"x": X, **{f"w{k}": w for k, w in enumerate(W[:3])}}
    agree(m.graph(m.read("v")), feeds, {"v": np.zeros(8, np.float32)})


def test_writes_to_state_keep_their_places_among_all_others() -> None:
    """Also where nothing else touches that state: it is not read or written earlier or later than the program says."""
    m = Making(resources=[variable("v", tensor(F32, 8))])
    x, y = m.feed("x", tensor(F32, 5000, 256)), m.feed("y", tensor(F32, 8))
    w = [m.feed(f"w{k}", tensor(F32, 256, 256)) for k in range(3)]
    products = [m.op("matmul", x, each) for each in w]
    m.assign("v", y, mode="+=")
    sums = [m.op("sum", m.op("square", each), attributes=ReduceAttributes((1,), False)) for each in products]
    names = launched(verified(m.graph(*sums), fusing=True))
    assert names[:3] == [each.name for each in products]
    assert names[4:] == [each.name for each in sums]


def test_memory_that_one_launch_alone_uses_counts_while_it_runs() -> None:
    """`own` lives in launch 1 only, `kept` from launch 0 to 2."""
    used: list[list[Any]] = [["kept"], ["own"], ["kept"]]
    users: Counter[Any] = Counter(["kept", "kept", "own"])
    run = _Run([set(), set(), {0}], used, users, {"kept": 3, "own": 5})
    assert run.peak([0, 1, 2]) == 8
    assert run.peak([1, 0, 2]) == 5
