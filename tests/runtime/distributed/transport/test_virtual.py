"""Ranks in virtual time: what messages cost, that runs repeat, and the run side on more ranks than processors."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.distribute.simulate import Network
from dfc.distribute.simulate.calls import Calls
from dfc.distribute.simulate.clocks import Clocks
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.comm import FIRST_EDGE
from dfc_runtime.distributed.transport.virtual import DiedError, Speed, VirtualComm, VirtualNetwork
from dfc_runtime.errors import RankError
from tests.support.clusters import cluster_bundle, undivided

TAG = FIRST_EDGE
SPEED = Speed(latency=1e-3, message=1e-4, bandwidth=1e6)
RANKS = 48
PROGRAM = f"""dfg 1

var table: i32[{2 * (RANKS - 1)}] = 1

entry add(x: i32) {{
  table += x * x
}}
"""
DEPLOYMENT = f"""
job worker tasks 1
job ps tasks {RANKS - 1}
shard "table" axis 0 over ps by modulo
"""


def wait(comm: VirtualComm, condition) -> None:
    turn = 0
    while not condition():
        comm.idle(turn)
        turn += 1


def received(comm: VirtualComm, size: int, source: int) -> np.ndarray:
    buffer = np.zeros(size, np.uint8)
    pending = comm.irecv(buffer, source, TAG)
    wait(comm, pending.test)
    return buffer


def test_a_message_costs_both_ends_the_links_and_the_way_between() -> None:
    def work(comm: VirtualComm) -> float:
        if comm.rank == 0:
            comm.isend(np.zeros(500, np.uint8), 1, TAG)
        else:
            received(comm, 500, 0)
        return comm.seconds()

    first, second = VirtualNetwork(2, SPEED).run(work)
    assert first == pytest.approx(1e-4)
    assert second == pytest.approx(1e-4 + 500e-6 + 1e-3 + 1e-4)


def test_a_link_carries_one_message_after_the_other() -> None:
    """Three messages to one rank come one after the other, however many links they leave by."""

    def work(comm: VirtualComm) -> object:
        if comm.rank:
            comm.isend(np.full(1000, comm.rank, np.uint8), 0, TAG)
            return None
        return [int(received(comm, 1000, rank)[0]) for rank in (3, 1, 2)], comm.seconds()

    values, seconds = VirtualNetwork(4, SPEED).run(work)[0]
    assert values == [3, 1, 2]
    assert seconds == pytest.approx(1e-4 + 1e-3 + 1e-3 + 2 * 1e-3 + 1e-4, rel=0.1)


def test_a_large_message_is_sent_when_it_is_taken() -> None:
    def work(comm: VirtualComm) -> float:
        if comm.rank == 0:
            pending = comm.isend(np.zeros(1 << 15, np.uint8), 1, TAG)
            assert not pending.test()
            wait(comm, pending.test)
        else:
            wait(comm, lambda: comm.seconds() > 0.5)
            received(comm, 1 << 15, 0)
        return comm.seconds()

    first, second = VirtualNetwork(2, SPEED).run(work)
    assert first >= 0.5 and first == pytest.approx(second)


def loaded_and_called(comm: VirtualComm) -> object:
    module = load_on(cluster_bundle(PROGRAM, DEPLOYMENT), comm, seconds=5, threads=1)
    try:
        if comm.rank:
            return module.serve()
        begin = comm.seconds()
        module.add(2)
        first = comm.seconds()
        module.add(3)
        took = comm.seconds() - first
        return np.array(module.state["table"]), begin, took
    finally:
        module.close()


def test_many_ranks_start_and_call_as_predicted_with_the_bits_of_one_rank() -> None:
    network = VirtualNetwork(RANKS)
    table, begin, took = network.run(loaded_and_called)[0]
    alone = undivided(PROGRAM)
    alone.add(2)
    alone.add(3)
    np.testing.assert_array_equal(table, alone.state["table"])
    speed = network.speed
    clocks = Clocks(RANKS, Network(speed.latency, speed.message, speed.bandwidth))
    calls = Calls(clocks, np.arange(1, RANKS), down=32.0, messages=1, up=0.0, passes_on=True)
    calls.call()
    calls.answer()
    assert took == pytest.approx(float(clocks.now[0]), rel=0.15)
    assert begin < 5 * took, "all ranks are greeted, initialised and told that they are loaded along trees"
    again = VirtualNetwork(RANKS).run(loaded_and_called)[0]
    assert (begin, took) == again[1:], "in every run"


def test_a_rank_that_dies_ends_the_others_with_one_short_report() -> None:
    network = VirtualNetwork(RANKS, deaths={30: 0.5})
    ends: dict[int, float] = {}

    def work(comm: VirtualComm) -> object:
        module = load_on(cluster_bundle(PROGRAM, DEPLOYMENT), comm, seconds=5, threads=1)
        try:
            if comm.rank == 0:
                wait(comm, lambda: comm.seconds() > 0.49)
                while True:
                    module.add(1)
            module.serve()
        finally:
            ends[comm.rank] = comm.seconds()
            module.close()

    outcomes = network.run(work)
    assert isinstance(outcomes.pop(30), DiedError)
    assert all(isinstance(each, RankError) for each in outcomes)
    assert {str(each) for each in outcomes} == {str(outcomes[0])}, "all tell the same"
    lines = str(outcomes[0]).splitlines()
    assert len(lines) < 10
    assert any("rank 30 (ps task 29): does not answer" in line for line in lines)
    assert any("rank 1 (ps task 0) to rank " in line for line in lines)
    assert max(ends.values()) < 0.5 + 5 + 1.5
