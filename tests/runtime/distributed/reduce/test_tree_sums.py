"""Sums along trees of tasks: the bits of the definition, few messages for each task, and who is late is named."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from dfc_runtime.distributed.reduce.operation import ADDITIONS, Group, Operation
from dfc_runtime.distributed.reduce.reducer import Reducer
from dfc_runtime.distributed.reduce.reduction_plan import EXCHANGE, OWNERS, TREES, dealt, make_plan
from dfc_runtime.distributed.transport.buffers import Pool
from dfc_runtime.distributed.transport.comm import FIRST_EDGE
from dfc_runtime.distributed.transport.in_process import Faults, Network
from tests.support.combining import sequential
from tests.support.ranks import run_on, spin

TAGS = (FIRST_EDGE, FIRST_EDGE + 1)


def blocks_of(count: int, elements: int, dtype: type = np.float32) -> list[np.ndarray]:
    """Of very different magnitudes, so that another order of adding shows."""
    random = np.random.default_rng(elements)
    values = random.normal(size=(count, elements)) * 10.0 ** random.integers(-3, 4, (count, elements))
    return [each.astype(dtype) for each in values]


def summed(tasks: int, arrays: list[np.ndarray], network: Network, steps: int = 1, how: str = "sum") -> list[bytes]:
    """What each task gets in the last step."""
    plan = make_plan(len(arrays), tasks, arrays[0].size, arrays[0].dtype.itemsize)
    assert plan.how == TREES

    def work(comm):
        reducer = Reducer(comm, Pool(), spin(comm))
        reducer.declare("g", Operation(len(arrays), TAGS, 3, how), Group(tuple(range(tasks)), comm.rank))
        out = np.empty_like(arrays[0])
        for _ in range(steps):
            for block in range(*dealt(len(arrays), tasks, comm.rank)):
                reducer.contribute("g", block, arrays[block])
            reducer.combined("g", out, 0.5)
        reducer.finish()
        return out.tobytes()

    return run_on(network, work)


@pytest.mark.parametrize(("tasks", "count", "elements"), [(8, 8, 9_000), (9, 14, 2_000), (11, 40, 20_001), (17, 17, 3)])
def test_the_sum_has_the_bits_of_the_definition(tasks: int, count: int, elements: int) -> None:
    arrays = blocks_of(count, elements)
    assert summed(tasks, arrays, Network(tasks)) == [sequential(arrays, 0.5).tobytes()] * tasks


def test_late_messages_change_nothing_in_step_after_step() -> None:
    arrays = blocks_of(19, 20_000)
    for seed in range(3):
        network = Network(9, faults=Faults(seed, delay=4), eager=1024 * (seed % 2))
        assert summed(9, arrays, network, steps=3) == [sequential(arrays, 0.5).tobytes()] * 9


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.complex64, np.float64], ids=lambda each: np.dtype(each).name)
def test_elements_are_added_in_their_own_type(dtype: type) -> None:
    arrays = blocks_of(8, 5_000, dtype)
    assert summed(8, arrays, Network(8)) == [sequential(arrays, 0.5).tobytes()] * 8


def test_other_combinations_go_along_trees_too() -> None:
    arrays = blocks_of(8, 5_000)
    expected = (sequential(arrays, add=ADDITIONS["max"]) * np.float32(0.5)).tobytes()
    assert summed(8, arrays, Network(8), how="max") == [expected] * 8


def test_no_task_sends_or_gets_more_messages_than_the_tree_is_high() -> None:
    network = Network(32)
    summed(32, blocks_of(32, 5), network)
    for end in (0, 1):
        counts = [sum(n for route, n in network.sent.items() if route[end] == rank) for rank in range(32)]
        assert max(counts) <= 5 + 1
    assert sum(network.sent.values()) == 2 * 31


def test_chunks_have_trees_of_their_own_so_that_all_tasks_send_alike() -> None:
    network = Network(8)
    summed(8, blocks_of(8, 7 * 4096), network)
    sent = [sum(size for route, size in network.bytes_sent.items() if route[0] == rank) for rank in range(8)]
    assert sum(sent) == 2 * 7 * 7 * 4096 * 4
    assert max(sent) <= 1.25 * sum(sent) / 8


def test_few_tasks_and_large_arrays_do_without_trees() -> None:
    assert make_plan(4, 4, 8_000, 4).how == OWNERS
    assert make_plan(16, 16, 500, 4).how == EXCHANGE
    assert make_plan(17, 17, 3, 4).how == TREES
    assert make_plan(17, 17, 0, 4).how == EXCHANGE
    assert make_plan(8, 8, 8 * 4096, 4).how == OWNERS
    assert make_plan(8, 8, 8 * 4096 - 1, 4).how == TREES


def test_who_is_awaited_is_who_has_not_sent() -> None:
    network, arrays = Network(8), blocks_of(8, 5_000)
    reducer = Reducer(network.comm(0), Pool(), spin(network.comm(0)))
    reducer.declare("g", Operation(8, TAGS, 0), Group(tuple(range(8)), 0))
    reducer.contribute("g", 0, arrays[0])
    assert reducer.awaited("g") == 1
    reducer.cancel()


def test_memory_is_used_again_from_step_to_step() -> None:
    arrays, pools = blocks_of(8, 20_000), [Pool() for _ in range(8)]

    def work(comm):
        pool = pools[comm.rank]
        reducer = Reducer(comm, pool, spin(comm))
        reducer.declare("g", Operation(8, TAGS, 0), Group(tuple(range(8)), comm.rank))
        counts = []
        for _ in range(3):
            reducer.contribute("g", comm.rank, arrays[comm.rank])
            reducer.combined("g", np.empty_like(arrays[0]))
            reducer.finish()
            counts.append(sum(len(each) for each in pool._free.values()))
        return counts

    for counts in run_on(Network(8), work):
        assert counts[0] > 1
        assert counts == [counts[0]] * 3
