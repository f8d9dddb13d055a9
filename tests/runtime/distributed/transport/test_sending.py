"""Values on their way out: copied where the receiver is not ready, sent in place where it is, memory given back."""

from __future__ import annotations

import numpy as np
import pytest

from dfc_runtime.distributed.transport import sending
from dfc_runtime.distributed.transport.buffers import Pool
from dfc_runtime.distributed.transport.in_process import Network
from dfc_runtime.distributed.transport.sending import PIECE, Sender, pieces
from tests.support.ranks import run_on, spin

TAG = 30


def sender_of(comm, pool=None):
    wait = spin(comm)
    return Sender(comm, pool or Pool(), lambda condition, key, rank: wait(condition))


def received(comm, size, source=0):
    out = np.zeros(size, np.uint8)
    for pending in [comm.irecv(piece, source, TAG) for piece in pieces(out)]:
        spin(comm)(pending.test)
    return out


def values(*sizes):
    return [np.random.default_rng(size).integers(0, 255, size, np.uint8) for size in sizes]


@pytest.mark.parametrize("sizes", [(5, 3000, 5), (PIECE, PIECE + 1, 7), (3 * PIECE, 3 * PIECE)])
def test_memory_is_the_callers_again_when_nobody_has_received_yet(sizes):
    network = Network(2)
    sender = sender_of(network.comm(0))
    expected = values(*sizes)
    for value in expected:
        given = value.copy()
        sender.send("x", given, [1], TAG)
        given.fill(0)
    assert not sender.has_left()
    for value in expected:
        assert (received(network.comm(1), value.size) == value).all()
    assert sender.has_left()


def test_buffers_are_used_again_when_messages_have_left():
    network, pool = Network(2), Pool()
    sender = sender_of(network.comm(0), pool)
    for value in values(5000, 6000, 5000):
        sender.send("x", value, [1], TAG)
    for size in (5000, 6000, 5000):
        received(network.comm(1), size)
    sender.finish()
    assert {size: len(free) for size, free in pool._free.items()} == {5000: 2, 6000: 1}


def test_a_large_value_is_not_copied_for_a_receiver_that_waits(monkeypatch):
    monkeypatch.setattr(sending, "_COPIED_PER_SECOND", 1 << 20)  # copying would take so long that the receiver comes

    class Counting(Pool):
        taken = 0

        def take(self, size):
            Counting.taken += size
            return super().take(size)

    (value,) = values(200 * PIECE)

    network = Network(2)
    waiting = network.comm(1)
    out = np.zeros(value.size, np.uint8)
    posted = [waiting.irecv(piece, 0, TAG) for piece in pieces(out)]

    def rank_0(comm):
        if comm.rank == 0:
            sender_of(comm, Counting()).send("x", value, [1], TAG)
        else:
            spin(waiting)(lambda: all(pending.test() for pending in posted))

    run_on(network, rank_0)
    assert (out == value).all()
    assert Counting.taken == PIECE


def test_several_receivers_some_ready_some_not():
    (value,) = values(3 * PIECE)

    def work(comm):
        if comm.rank == 0:
            sender = sender_of(comm)
            given = value.copy()
            sender.send("x", given, [1, 2], TAG)
            given.fill(0)
            sender.send("x", np.zeros(1, np.uint8), [1, 2], TAG)
            sender.finish()
            return True
        if comm.rank == 2:  # is late
            for _ in range(5):
                comm.idle(0)
        return (received(comm, value.size) == value).all() and received(comm, 1)[0] == 0

    assert run_on(Network(3), work) == [True, True, True]
