"""The messages of a predicted sum are those that the run side sends, and its times those that the network allows."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.distribute.place.cost import MEMORY_RATE
from dfc.distribute.simulate.clocks import Clocks
from dfc.distribute.simulate.network import Network
from dfc.distribute.simulate.sums import ALONG_TREES, AT_ONE_RANK, EXCHANGED, IN_CHUNKS, Sum, compared, finish_together
from dfc_runtime.distributed.reduce.exchange import framing
from dfc_runtime.distributed.reduce.operation import Group, Operation
from dfc_runtime.distributed.reduce.reducer import Reducer
from dfc_runtime.distributed.reduce.reduction_plan import dealt
from dfc_runtime.distributed.transport import in_process
from dfc_runtime.distributed.transport.buffers import Pool
from dfc_runtime.distributed.transport.comm import FIRST_EDGE
from tests.support.ranks import run_on, spin

NETWORK = Network(latency=1e-3, message=1e-5, bandwidth=1e6)


def predicted(ranks: int, blocks: int, elements: int, network: Network = NETWORK) -> tuple[Sum, Clocks]:
    """A sum of f32 over all ranks, which contribute at once."""
    clocks, one = Clocks(ranks, network), Sum("g", elements, 4, blocks, np.arange(ranks), 0)
    one.contribute(clocks, 0.0)
    one.wait(clocks)
    return one, clocks


def sent_by_the_run_side(ranks: int, blocks: int, elements: int) -> np.ndarray:
    """Bytes that each rank sends, without the heads of messages of small sums."""
    network = in_process.Network(ranks)

    def work(comm: in_process.InProcessComm) -> int:
        reducer = Reducer(comm, Pool(), spin(comm))
        operation = Operation(blocks, (FIRST_EDGE, FIRST_EDGE + 1), 0, "sum")
        reducer.declare("g", operation, Group(tuple(range(ranks)), comm.rank))
        for block in range(*dealt(blocks, ranks, comm.rank)):
            reducer.contribute("g", block, np.ones(elements, np.float32))
        out = np.empty(elements, np.float32)
        reducer.combined("g", out, 1.0)
        reducer.finish()
        assert (out == blocks).all()
        return comm.rank

    run_on(network, work)
    sent = np.zeros(ranks)
    for (source, _, _), size in network.bytes_sent.items():
        sent[source] += size
    return sent


@pytest.mark.parametrize(
    ("ranks", "elements"),
    [(2, 100_000), (3, 300_000), (4, 2_000), (4, 8_000), (5, 700), (8, 5_000), (11, 20_000), (17, 3)],
)
def test_as_many_bytes_are_sent_as_by_the_run_side(ranks: int, elements: int) -> None:
    blocks = ranks  # one root each
    one, clocks = predicted(ranks, blocks, elements)
    sent = sent_by_the_run_side(ranks, blocks, elements)
    if one.how == EXCHANGED:
        before, behind = framing(0, 4 * elements)
        sent -= (ranks - 1) * (len(before) + len(behind))
    assert clocks.bytes_out == pytest.approx(sent, rel=1e-4)  # chunks differ by an element
    assert clocks.bytes_in.sum() == pytest.approx(clocks.bytes_out.sum())


def test_who_adds_depends_on_the_size() -> None:
    assert [predicted(4, 4, n)[0].how for n in (700, 8_000, 100_000)] == [EXCHANGED, AT_ONE_RANK, IN_CHUNKS]


def test_two_ranks_exchange_a_small_sum() -> None:
    """By hand: one message out, 4,000 bytes on the link, latency, one message in."""
    _, clocks = predicted(2, 2, 1_000)
    assert clocks.now == pytest.approx([1e-5 + 4e-3 + 1e-3 + 1e-5] * 2)


def test_one_rank_adds_what_is_too_small_to_cut_and_sends_it_to_one_after_the_other() -> None:
    """By hand: three ranks send 32,000 bytes each to rank 0, which adds them and sends as many to each."""
    _, clocks = predicted(4, 4, 8_000)
    part = 32_000 / 1e6
    there = 1e-3 + 3 * part
    added = there + 3e-5 + 2 * 3 * 32_000 / MEMORY_RATE + 3e-5
    assert clocks.now[0] == pytest.approx(added + 3 * part, rel=1e-3)
    assert clocks.now[1:] == pytest.approx(added + 3 * part + 1e-3 + 1e-5, rel=1e-3)


def test_a_large_sum_takes_as_long_as_a_link_has_bytes_for() -> None:
    """A lower bound of any all-reduce: each rank sends and receives twice (N - 1) / N of the array."""
    for ranks in (2, 4, 16):
        size = 4 * 64_000 * ranks
        _, clocks = predicted(ranks, ranks, size // 4, Network(0.0, 0.0, 1e6))
        bound = 2 * size * (ranks - 1) / ranks / 1e6
        assert bound <= clocks.now.max() <= 1.01 * bound


def test_one_rank_alone_sends_nothing() -> None:
    _, clocks = predicted(1, 8, 100_000)
    assert (clocks.now[0], clocks.bytes_out[0]) == (0, 0)


def test_small_sums_that_fit_one_message_cost_one() -> None:
    clocks, held = Clocks(2, NETWORK), 0.0
    sums = [Sum(key, 10, 4, 2, np.arange(2), 0) for key in "ab"]
    for each in sums:
        held = each.contribute(clocks, held)
    assert clocks.messaging == pytest.approx([1e-5] * 2)
    assert held == 80


def test_messages_go_up_and_down_a_tree() -> None:
    """By hand: eight ranks send 20,000 bytes up three levels and down again, one message after the other."""
    one, clocks = predicted(8, 8, 5_000)
    part = 20_000 / 1e6
    up = 3 * (1e-5 + part + 1e-3 + 1e-5)
    down = 3 * (1e-5 + part + 1e-3 + 1e-5)
    assert one.how == ALONG_TREES
    assert clocks.now.max() == pytest.approx(up + down, rel=0.05)


def test_small_sums_grow_with_the_logarithm_of_the_ranks() -> None:
    network = Network(latency=1e-6, message=1e-6, bandwidth=1e9)
    times = [predicted(ranks, ranks, 10, network)[1].now.max() for ranks in (32, 1024, 4096)]
    assert times[1] == pytest.approx(2 * times[0], rel=0.1)
    assert times[2] == pytest.approx(2.4 * times[0], rel=0.1)


def test_sums_along_trees_share_the_waits() -> None:
    network = Network(latency=1e-3, message=0.0, bandwidth=1e9)
    clocks = Clocks(64, network)
    sums = [Sum(str(number), 10, 4, 64, np.arange(64), number) for number in range(5)]
    for each in sums:
        each.contribute(clocks, 0.0)
    finish_together(sums, clocks)
    for each in sums:
        each.wait(clocks)
    assert clocks.now.max() == pytest.approx(12e-3, rel=0.01)


def test_each_way_to_add_is_predicted_beside_the_one_that_is_taken() -> None:
    one = compared("g", 1000, 4, 2, 2, NETWORK)
    at_once, there_and_back = predicted(2, 2, 1000)[1].now.max(), 2 * (4000 / 1e6 + 1e-3)
    assert (one.how, one.size) == (EXCHANGED, 4000)
    assert one.alone[EXCHANGED] == at_once
    assert there_and_back < one.alone[AT_ONE_RANK] < there_and_back + 1e-3  # and the adding, and four messages
    many = compared("g", 1000, 4, 64, 64, NETWORK)
    assert many.how == ALONG_TREES == min(many.alone, key=lambda how: many.alone[how])
    assert set(many.alone) == {ALONG_TREES, EXCHANGED, AT_ONE_RANK}


def test_what_is_joined_goes_one_way() -> None:
    assert set(compared("g", 1000, 4, 4, 4, NETWORK, is_joined=True).alone) == {EXCHANGED}
