"""Host calls of the edges: what a rank holds back leaves before it waits for others."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from dfc_runtime.calls.hosts import Calling, HostRequest
from dfc_runtime.distributed.calls.edges import Edges
from dfc_runtime.distributed.transport.in_process import Network
from dfc_runtime.distributed.transport.waiting import Waiting
from dfc_runtime.formats.manifest import HostSite, SiteOperand, SourceLocation
from tests.support.ranks import run_on

TOPOLOGY = SimpleNamespace(
    by_rank=[SimpleNamespace(job="worker", number=number) for number in range(2)],
    cluster=SimpleNamespace(
        edges=[SimpleNamespace(key=key, name=key, place="") for key in ("sum", "value")], compressed=frozenset()
    ),
    ranks_of=lambda text: {"worker": (0, 1), "worker:0": (0,), "worker:1": (1,)}[text],
)
VALUE = SiteOperand("f32", (3,))


def site(kind, key, inputs=(), outputs=(), **attributes):
    return HostSite(kind, "train", {"key": key, **attributes}, inputs, outputs, (), SourceLocation("x.dfg", 1, 1))


SUM = {"job": "worker", "blocks": 2, "combination": "sum"}
CONTRIBUTE = site("contribute", "sum", (VALUE, SiteOperand("i64", ())), stacked=False, **SUM)
COMBINED = site("combined", "sum", (), (VALUE,), scale=0.5, **SUM)
SEND = site("send", "value", (VALUE,), source="worker:0", destinations=("worker:1",))
RECEIVE = site("recv", "value", (), (VALUE,), source="worker:0")


def test_a_rank_sends_its_part_of_a_sum_before_it_waits_for_what_others_make_of_it():
    def work(comm):
        waiting = Waiting(comm, 20, lambda rank: f"rank {rank}")
        edges = Edges(TOPOLOGY, waiting)
        out, received = np.zeros(3, np.float32), np.zeros(3, np.float32)

        def ask(place, *arrays):
            inputs, outputs = arrays[: len(place.inputs)], arrays[len(place.inputs) :]
            edges.handlers[place.kind](HostRequest(place, inputs, outputs, "x", Calling()))

        for step in range(1, 4):
            edges.begin(step // 3)
            part = np.full(3, step * (1 + comm.rank), np.float32)
            ask(CONTRIBUTE, part, np.array(comm.rank))
            part.fill(0)
            if comm.rank == 0:
                ask(COMBINED, out)
                ask(SEND, out + 1)
            else:
                ask(RECEIVE, received)
                ask(COMBINED, out)
                assert (received == out + 1).all()
            edges.finish()
            assert (out == 1.5 * step).all()
        return True

    assert run_on(Network(2), work) == [True, True]
