"""Small sums travel together, with the bits of the definition, and nobody waits for what is held back."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from dfc_runtime.distributed.reduce.exchange import FULL_BYTES
from dfc_runtime.distributed.reduce.operation import Group, Operation
from dfc_runtime.distributed.reduce.reducer import Reducer
from dfc_runtime.distributed.reduce.reduction_plan import dealt
from dfc_runtime.distributed.transport.buffers import Pool
from dfc_runtime.distributed.transport.comm import FIRST_EDGE, TOGETHER
from dfc_runtime.distributed.transport.in_process import Faults, Network
from tests.support.combining import sequential
from tests.support.ranks import on_ranks, run_on, spin

Sums = dict[str, list[np.ndarray]]
"""The blocks of each sum, by name."""


def sums_of(blocks: int, *kinds: tuple[int, type]) -> Sums:
    random = np.random.default_rng(blocks)
    return {
        f"s{i}": [(random.normal(size=size) * 100).astype(dtype) for _ in range(blocks)]
        for i, (size, dtype) in enumerate(kinds)
    }


def reducer_of(comm, tasks: int, sums: Sums) -> Reducer:
    reducer = Reducer(comm, Pool(), spin(comm))
    for number, (key, blocks) in enumerate(sums.items()):
        tags = FIRST_EDGE + 2 * number, FIRST_EDGE + 2 * number + 1
        reducer.declare(key, Operation(len(blocks), tags, number), Group(tuple(range(tasks)), comm.rank))
    return reducer


def contribute(reducer: Reducer, rank: int, tasks: int, sums: Sums, *keys: str) -> None:
    (blocks,) = {len(each) for each in sums.values()}
    for block in range(*dealt(blocks, tasks, rank)):
        for key in keys or sums:
            reducer.contribute(key, block, sums[key][block])


def combined(reducer: Reducer, sums: Sums, *keys: str) -> dict[str, bytes]:
    found = {key: np.empty_like(sums[key][0]) for key in keys or sums}
    for key, out in found.items():
        reducer.combined(key, out)
    return {key: out.tobytes() for key, out in found.items()}


def expected(sums: Sums) -> dict[str, bytes]:
    return {key: sequential(blocks).tobytes() for key, blocks in sums.items()}


MIXED = ((1, np.int8), (3, np.float64), (5, np.float16), (0, np.float32), (7, np.complex128), (1000, np.float32))


@pytest.mark.parametrize(("tasks", "blocks"), [(1, 5), (2, 2), (2, 7), (3, 3), (3, 8), (5, 6)])
def test_sums_of_all_types_travel_in_one_message_to_each_task(tasks, blocks):
    sums, network = sums_of(blocks, *MIXED), Network(tasks)

    def work(comm):
        reducer = reducer_of(comm, tasks, sums)
        contribute(reducer, comm.rank, tasks, sums)
        found = combined(reducer, sums)
        reducer.finish()
        return found

    assert run_on(network, work) == [expected(sums)] * tasks
    routes = {(a, b, TOGETHER): 1 for a in range(tasks) for b in range(tasks) if a != b}
    assert network.sent == routes


def test_a_full_message_is_not_held_back():
    size = FULL_BYTES // 4
    sums, network = sums_of(2, *[(size // 8, np.float64)] * 9), Network(2)

    def work(comm):
        reducer = reducer_of(comm, 2, sums)
        contribute(reducer, comm.rank, 2, sums)
        before = network.sent.get((comm.rank, 1 - comm.rank, TOGETHER), 0)
        return before, combined(reducer, sums), reducer.finish()

    assert run_on(network, work) == [(2, expected(sums), None)] * 2
    assert set(network.sent.values()) == {3}


def test_tasks_need_not_agree_on_what_goes_together():
    sums = sums_of(3, (4, np.float32), (2, np.float64), (3, np.float32))

    def work(comm):
        reducer = reducer_of(comm, 3, sums)
        if comm.rank == 1:
            contribute(reducer, comm.rank, 3, sums)
            found = combined(reducer, sums, "s2", "s1", "s0")
        else:
            contribute(reducer, comm.rank, 3, sums, "s0")
            found = combined(reducer, sums, "s0")
            contribute(reducer, comm.rank, 3, sums, "s2", "s1")
            found |= combined(reducer, sums, "s1", "s2")
        reducer.finish()
        return found

    assert on_ranks(3, work) == [expected(sums)] * 3


def test_a_fast_task_may_be_a_step_ahead():
    steps = [sums_of(2, (4, np.float32), (9, np.int32)), sums_of(2, (5, np.float32), (9, np.int32))]

    def work(comm):
        reducer = reducer_of(comm, 2, steps[0])
        found = []
        for step in range(6):
            sums = steps[step % 2]
            contribute(reducer, comm.rank, 2, sums)
            found.append(combined(reducer, sums, "s1", "s0"))
        reducer.finish()
        return found

    wanted = [expected(steps[step % 2]) for step in range(6)]
    for seed in range(5):
        assert on_ranks(2, work, Faults(seed, delay=6), eager=1 << 16) == [wanted, wanted]


def test_large_and_small_sums_do_not_wait_for_each_other():
    sums = sums_of(2, (100_000, np.float32), (4, np.float32), (90_000, np.float32), (1, np.float64))

    def work(comm):
        reducer = reducer_of(comm, 2, sums)
        contribute(reducer, comm.rank, 2, sums)
        found = combined(reducer, sums, *(sorted(sums, reverse=comm.rank == 1)))
        reducer.finish()
        return found

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for seed in range(3):
            assert on_ranks(2, work, Faults(seed, delay=3)) == [expected(sums)] * 2
    finally:
        sys.setswitchinterval(interval)


def test_what_is_held_back_leaves_when_it_is_told_to():
    sums, network = sums_of(2, (4, np.float32)), Network(2)
    reducers = [reducer_of(network.comm(rank), 2, sums) for rank in range(2)]
    for rank, reducer in enumerate(reducers):
        contribute(reducer, rank, 2, sums)
    assert not network.sent
    assert reducers[0].awaited("s0") == 1
    for reducer in reducers:
        reducer.flush()
    assert combined(reducers[0], sums) == combined(reducers[1], sums) == expected(sums)


@pytest.mark.parametrize("tasks", [1, 2, 3])
@pytest.mark.parametrize("blocks", [3, 7, 8, 16, 21, 32])
def test_all_blocks_of_a_task_at_once_are_added_as_one_by_one(tasks, blocks):
    """In the first step, in which nothing is known of the sums, and in later ones."""
    sums = sums_of(blocks, *MIXED)
    wanted = expected(sums)

    def work(comm):
        reducer = reducer_of(comm, tasks, sums)
        first, last = dealt(blocks, tasks, comm.rank)
        found = []
        for step in range(4):
            for key, each in sums.items():
                if step == 2:
                    contribute(reducer, comm.rank, tasks, sums, key)
                else:
                    reducer.contribute_all(key, first, np.stack(each[first:last]))
            found.append(combined(reducer, sums))
            reducer.finish()
        return found

    for found in run_on(Network(tasks), work):
        assert found == [wanted] * 4
