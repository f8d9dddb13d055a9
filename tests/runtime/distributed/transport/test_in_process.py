"""Ranks as threads: order for each route, late, lost and cut messages, and buffers that belong to messages."""

from __future__ import annotations

import numpy as np
import pytest

from dfc_runtime.distributed.transport.comm import as_bytes
from dfc_runtime.distributed.transport.in_process import Faults, Network
from dfc_runtime.errors import RankError
from tests.support.ranks import on_ranks, outcomes_on, spin


def message(*values):
    return np.array(values, np.uint8)


def received(comm, size, source, tag):
    buffer = np.zeros(size, np.uint8)
    pending = comm.irecv(buffer, source, tag)
    spin(comm)(pending.test)
    return list(buffer)


@pytest.mark.parametrize("seed", range(5))
def test_messages_of_one_route_keep_their_order_however_late_they_are(seed):
    def work(comm):
        if comm.rank == 0:
            sent = [comm.isend(message(i), 1, 7) for i in range(20)]
            spin(comm)(lambda: all(each.test() for each in sent))
            return None
        return [received(comm, 1, 0, 7)[0] for _ in range(20)]

    assert on_ranks(2, work, Faults(seed, delay=6))[1] == list(range(20))


def test_messages_of_different_tags_are_told_apart():
    def work(comm):
        if comm.rank == 0:
            sent = [comm.isend(message(tag), 1, tag) for tag in (5, 6)]
            spin(comm)(lambda: all(each.test() for each in sent))
            return None
        return [received(comm, 1, 0, tag)[0] for tag in (6, 5)]

    assert on_ranks(2, work)[1] == [6, 5]


def test_delays_reorder_messages_of_different_tags():
    network = Network(2, Faults(1, delay=20), eager=16)
    sender, receiver = network.comm(0), network.comm(1)
    for tag in range(5):
        sender.isend(message(tag), 1, tag)
    order = []
    while len(order) < 5:
        order += [tag for tag in range(5) if receiver.arrival(0, tag)]
    assert order != sorted(order)


def test_a_buffer_belongs_to_its_message_until_that_is_delivered():
    network = Network(2)
    buffer = message(1)
    sent = network.comm(0).isend(buffer, 1, 3)
    assert not sent.test()
    buffer[0] = 2
    assert received(network.comm(1), 1, 0, 3) == [2]
    assert sent.test()


def test_a_message_of_unknown_size_is_found_and_received_once():
    network = Network(3)
    network.comm(2).isend(message(1, 2, 3), 1, 9)
    comm = network.comm(1)
    assert comm.arrival(0, 9) is None
    arrival = comm.arrival(None, 9)
    assert (arrival.source, arrival.size) == (2, 3)
    assert comm.arrival(None, 9) is None
    buffer = np.zeros(3, np.uint8)
    assert arrival.receive(buffer).test()
    assert list(buffer) == [1, 2, 3]


def test_a_message_of_another_size_is_an_error():
    network = Network(2)
    network.comm(0).isend(message(1, 2, 3), 1, 9)
    with pytest.raises(RankError, match="has 3 bytes instead of 4"):
        network.comm(1).irecv(np.zeros(4, np.uint8), 0, 9).test()


def test_lost_messages_and_cut_links_never_arrive():
    faults = Faults(lost=lambda route, number: number == 1, severed={frozenset({0, 2})})
    network = Network(3, faults)
    for value in range(3):
        network.comm(0).isend(message(value), 1, 4)
        network.comm(0).isend(message(value), 2, 4)
    comm = network.comm(1)
    assert [received(comm, 1, 0, 4), received(comm, 1, 0, 4)] == [[0], [2]]
    assert comm.arrival(0, 4) is None
    assert network.comm(2).arrival(0, 4) is None


def test_a_message_that_was_given_up_does_not_take_the_next_one():
    network = Network(2)
    comm = network.comm(1)
    comm.irecv(np.zeros(1, np.uint8), 0, 4).cancel()
    network.comm(0).isend(message(5), 1, 4)
    assert received(comm, 1, 0, 4) == [5]


def test_abort_ends_all_ranks():
    def work(comm):
        if comm.rank == 0:
            comm.abort(75)
        return received(comm, 1, 0, 4)

    first, second = outcomes_on(Network(2), work)
    assert isinstance(first, SystemExit)
    assert isinstance(second, RankError)


def test_bytes_are_the_memory_of_an_array_of_any_type():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    as_bytes(array)[:4] = 0
    assert np.shares_memory(as_bytes(array), array)
    assert as_bytes(np.float64(3) * np.ones(())).size == 8
    with pytest.raises(AssertionError):
        as_bytes(array.T)
