"""What ranks that call along hear of a call that ends on rank 0 before it is over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dfc_runtime.distributed.calls.client import Client
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.virtual import VirtualComm, VirtualNetwork
from dfc_runtime.errors import DfcError, RankError
from tests.support.clusters import cluster_bundle

PROGRAM = "dfg 1\nvar total: i32 = 1\nentry add(x: i32) {\n  total += x\n}\n"
DEPLOYMENT = 'job worker tasks 1\njob ps tasks 1\nplace "total" on ps\n'


@pytest.mark.parametrize(
    ("problem", "error", "message"),
    [(KeyboardInterrupt(), RankError, "rank 0 was interrupted"), (TypeError("a bug"), DfcError, "TypeError: a bug")],
    ids=["an interrupt", "a bug"],
)
def test_who_calls_along_is_told_at_once(
    problem: BaseException, error: type[DfcError], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*_: object) -> None:
        raise problem

    def work(comm: VirtualComm) -> object:
        module = load_on(data, comm, seconds=30, threads=1)
        try:
            return module.add(1)
        finally:
            seconds.append(comm.seconds())
            module.close()

    data, seconds = cluster_bundle(PROGRAM, DEPLOYMENT), list[float]()
    monkeypatch.setattr(Client, "run", ends_in_add(ends))
    first, second = VirtualNetwork(2).run(work)
    assert first is problem
    assert type(second) is error and message in str(second)
    assert max(seconds) < 1  # of virtual time: nobody waited for a deadline


def ends_in_add(ends: Callable[..., None]) -> Callable[..., object]:
    run = Client.run

    def instead(self: Client, plan: object, request: object) -> object:
        return ends() if plan.name == "add" else run(self, plan, request)

    return instead
