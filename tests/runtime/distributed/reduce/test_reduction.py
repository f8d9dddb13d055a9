"""Sums over tasks: the same bits as the definition, for any number of tasks, whatever the network does to the order."""

from __future__ import annotations

import threading

import ml_dtypes
import numpy as np
import pytest

from dfc_runtime.distributed.reduce.operation import ADDITIONS, Group, Operation
from dfc_runtime.distributed.reduce.reducer import Reducer
from dfc_runtime.distributed.reduce.reduction_plan import OWNERS, additions, dealt, make_plan, roots, split_point
from dfc_runtime.distributed.transport.buffers import Pool
from dfc_runtime.distributed.transport.comm import FIRST_EDGE
from dfc_runtime.distributed.transport.in_process import Faults, Network
from tests.support.combining import sequential
from tests.support.ranks import on_ranks, run_on, spin

TAGS = (FIRST_EDGE, FIRST_EDGE + 1)
FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, np.complex128]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


def pieces(blocks: int, shape: tuple[int, ...], dtype: type, seed: int = 0) -> list[np.ndarray]:
    """One array for each block, of very different magnitudes, so that another order of adding shows."""
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return [random.integers(0, 127, shape).astype(dtype) for _ in range(blocks)]
    values = random.normal(size=(blocks, *shape)) * 10.0 ** random.integers(-3, 4, (blocks, *shape))
    return [each.astype(dtype) for each in values]


def summed(tasks, arrays, *, scale=1.0, faults=None, steps=1, chunk_bytes=1 << 20, eager=0, number=0, how="sum"):
    """What each task gets."""

    def work(comm):
        reducer = Reducer(comm, Pool(), spin(comm), chunk_bytes)
        reducer.declare("g", Operation(len(arrays), TAGS, number, how), Group(tuple(range(tasks)), comm.rank))
        for _ in range(steps):
            for block in range(*dealt(len(arrays), tasks, comm.rank)):
                array = arrays[block].copy()
                reducer.contribute("g", block, array)
                array.fill(0)  # it is the caller's again
            out = np.empty_like(np.concatenate(arrays) if how == "concat" else arrays[0])
            reducer.combined("g", out, scale)
        reducer.finish()
        return out

    return on_ranks(tasks, work, faults, eager=eager)


def assert_all_equal(results, expected):
    for found in results:
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("blocks", range(1, 17))
def test_the_sum_has_the_bits_of_the_definition_for_any_number_of_tasks(blocks):
    arrays = pieces(blocks, (7, 3), np.float32, blocks)
    expected = sequential(arrays, 1 / blocks)
    for tasks in range(1, blocks + 1):
        assert_all_equal(summed(tasks, arrays, scale=1 / blocks), expected)


def test_the_definition_adds_in_a_binary_tree():
    a, b, c, d, e = pieces(5, (50,), np.float32)
    assert sequential([a, b, c, d, e]).tobytes() == (((a + b) + (c + d)) + e).tobytes()
    assert sequential([a, b, c]).tobytes() == ((a + b) + c).tobytes()
    assert sequential([a, b, c, d, e]).tobytes() != ((((a + b) + c) + d) + e).tobytes()


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=lambda each: np.dtype(each).name)
def test_every_element_type_is_added_in_itself(dtype):
    arrays = pieces(5, (33,), dtype)
    for tasks in (1, 2, 3, 5):
        assert_all_equal(summed(tasks, arrays), sequential(arrays))


@pytest.mark.parametrize("tasks", [2, 3, 5])
def test_large_arrays_are_cut_into_chunks_that_all_tasks_add(tasks):
    arrays = pieces(5, (200_003,), np.float32)
    plan = make_plan(5, tasks, 200_003, 4, 0, 64 << 10)
    assert plan.how == OWNERS
    assert len(plan.chunks) >= 2 * tasks
    assert {len(plan.owned(task)) for task in range(tasks)} == {len(plan.chunks) // tasks}
    assert_all_equal(summed(tasks, arrays, chunk_bytes=64 << 10, scale=0.2), sequential(arrays, 0.2))


@pytest.mark.parametrize("seed", range(8))
def test_late_messages_change_nothing(seed):
    arrays = pieces(6, (40_000,), np.float32, seed)
    tasks = 2 + seed % 4
    found = summed(tasks, arrays, faults=Faults(seed, delay=5), steps=3, chunk_bytes=32 << 10, eager=1024 * (seed % 2))
    assert_all_equal(found, sequential(arrays))


def test_arrays_of_size_zero_and_rank_zero():
    assert_all_equal(summed(3, pieces(4, (0, 5), np.float32)), np.empty((0, 5), np.float32))
    scalars = pieces(4, (), np.float64)
    assert_all_equal(summed(3, scalars, number=2), sequential(scalars))


def test_special_values_pass_through():
    arrays = [np.float32([np.inf, np.nan, -0.0, 1e38]), np.float32([-np.inf, 1, -0.0, 3e38])]
    with np.errstate(all="ignore"):
        assert_all_equal(summed(2, arrays), sequential(arrays))


@pytest.mark.parametrize("how", ["max", "min", "and", "or"])
def test_other_combinations(how):
    arrays = [np.int32([5, i, 12 - i]) for i in range(5)]
    if how in ("and", "or"):
        arrays.append(np.int32([1, 2, 4]))
    for tasks in (1, 2, 3):
        assert_all_equal(summed(tasks, arrays, how=how), sequential(arrays, add=ADDITIONS[how]))
    flags = [np.array([i > 2, True, False]) for i in range(4)]
    assert_all_equal(summed(2, flags, how=how), sequential(flags, add=ADDITIONS[how]))


@pytest.mark.parametrize("tasks", [1, 2, 3, 5])
def test_blocks_one_behind_the_other(tasks):
    arrays = pieces(5, (3, 2), np.float32)
    assert_all_equal(summed(tasks, arrays, how="concat", faults=Faults(tasks, 3), steps=3), np.concatenate(arrays))


def test_several_sums_at_once_do_not_mix():
    arrays = {f"g{i}": pieces(3, (1000 + i,), np.float32, i) for i in range(5)}

    def work(comm):
        reducer = Reducer(comm, Pool(), spin(comm))
        for i, key in enumerate(arrays):
            tags = (FIRST_EDGE + 2 * i, FIRST_EDGE + 2 * i + 1)
            reducer.declare(key, Operation(3, tags, i), Group((0, 1, 2), comm.rank))
        found = {}
        for _ in range(3):
            for block in range(*dealt(3, 3, comm.rank)):
                for key in arrays:
                    reducer.contribute(key, block, arrays[key][block])
            for key in reversed(arrays):
                reducer.combined(key, found.setdefault(key, np.empty_like(arrays[key][0])))
        reducer.finish()
        return found

    for found in on_ranks(3, work, Faults(3, delay=4)):
        assert all(found[key].tobytes() == sequential(arrays[key]).tobytes() for key in arrays)


def test_a_group_need_not_be_all_ranks():
    arrays = pieces(4, (10,), np.float32)

    def work(comm):
        if comm.rank == 0:
            return sequential(arrays)
        reducer = Reducer(comm, Pool(), spin(comm))
        reducer.declare("g", Operation(4, TAGS), Group((1, 2), comm.rank - 1))
        for block in range(*dealt(4, 2, comm.rank - 1)):
            reducer.contribute("g", block, arrays[block])
        out = np.empty_like(arrays[0])
        reducer.combined("g", out)
        return out

    assert_all_equal(on_ranks(3, work), sequential(arrays))


def test_two_tasks_exchange_what_is_small_with_one_message_each():
    network = Network(2)
    arrays = pieces(2, (), np.float32)

    def work(comm):
        reducer = Reducer(comm, Pool(), spin(comm))
        reducer.declare("g", Operation(2, TAGS), Group((0, 1), comm.rank))
        reducer.contribute("g", comm.rank, arrays[comm.rank])
        reducer.combined("g", np.empty_like(arrays[0]))
        reducer.finish()

    run_on(network, work)
    assert sum(network.sent.values()) == 2


def test_a_large_part_is_with_the_others_and_added_before_the_next_one_is_made():
    """A gradient that is there leaves, and comes back as a sum, while those of earlier layers are still computed."""
    network, ready = Network(2), threading.Barrier(2, timeout=60)

    def work(comm):
        reducer = Reducer(comm, Pool(), spin(comm))
        for number, key in enumerate(("late", "early")):
            tags = (FIRST_EDGE + 2 * number, FIRST_EDGE + 2 * number + 1)
            reducer.declare(key, Operation(2, tags, number), Group((0, 1), comm.rank))
        sent = []
        for key in ("late", "early"):
            reducer.contribute(key, comm.rank, np.ones(50_000, np.float32))
            ready.wait()
            sent.append({tag for (source, _, tag) in network.sent if source == comm.rank})
            ready.wait()
        for key in ("early", "late"):
            reducer.combined(key, np.empty(50_000, np.float32))
        reducer.finish()
        return sent

    for first, second in run_on(network, work):
        part, total, next_part = FIRST_EDGE, FIRST_EDGE + 1, FIRST_EDGE + 2
        assert part in first and next_part not in first
        assert {part, total, next_part} <= second


def test_each_task_sends_and_receives_the_same_share_of_a_large_array():
    network, arrays = Network(4), pieces(4, (400_000,), np.float32)

    def work(comm):
        reducer = Reducer(comm, Pool(), spin(comm))
        reducer.declare("g", Operation(4, TAGS), Group((0, 1, 2, 3), comm.rank))
        reducer.contribute("g", comm.rank, arrays[comm.rank])
        reducer.combined("g", np.empty_like(arrays[0]))
        reducer.finish()

    run_on(network, work)
    sent = [sum(size for route, size in network.bytes_sent.items() if route[0] == rank) for rank in range(4)]
    assert sent == [2 * 3 * arrays[0].nbytes // 4] * 4


class CountingPool(Pool):
    """Counts the buffers it had to make."""

    made = 0

    def take(self, size):
        self.made += not self._free.get(size)
        return super().take(size)


def test_memory_is_used_again_from_step_to_step():
    def work(comm):
        pool = CountingPool()
        reducer = Reducer(comm, pool, spin(comm))
        reducer.declare("g", Operation(4, TAGS), Group((0, 1), comm.rank))
        made = []
        for _ in range(4):
            for block in range(*dealt(4, 2, comm.rank)):
                reducer.contribute("g", block, np.ones(50_000, np.float32))
            reducer.combined("g", np.empty(50_000, np.float32))
            reducer.finish()
            made.append(pool.made)
        return made

    for made in on_ranks(2, work):
        assert made[0] > 0
        assert made[1:] == [made[0]] * 3


@pytest.mark.parametrize("blocks", range(1, 40))
def test_roots_cover_the_blocks_of_a_task_with_few_nodes(blocks):
    for tasks in range(1, blocks + 1):
        everything = [node for task in range(tasks) for node in roots(blocks, dealt(blocks, tasks, task))]
        assert [node[0] for node in everything] == [0, *(node[1] for node in everything[:-1])]
        assert everything[-1][1] == blocks
        assert len(additions(blocks, everything)) == len(everything) - 1


def test_the_middle_of_a_node_is_the_largest_power_of_two_below_its_size():
    assert [split_point((10, 10 + size)) - 10 for size in range(2, 10)] == [1, 2, 2, 4, 4, 4, 4, 8]
