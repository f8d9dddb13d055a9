"""Ranks as threads: runs one function on every rank of a network, and gives what each returned."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dfc_runtime.distributed.transport.comm import Comm
from dfc_runtime.distributed.transport.in_process import Faults, Network


def on_ranks(
    size: int, work: Callable[[Comm], object], faults: Faults | None = None, *, eager: int = 0
) -> list[object]:
    """The results in the order of ranks. The error of the lowest rank that failed first is raised."""
    network = Network(size, faults, eager=eager)
    return run_on(network, work)


def run_on(network: Network, work: Callable[[Comm], object]) -> list[object]:
    """Likewise, on a network to look at afterwards."""
    outcomes = outcomes_on(network, work)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes


def outcomes_on(network: Network, work: Callable[[Comm], object]) -> list[object]:
    """What each rank returned, or the error it ended with."""
    outcomes: list[object] = [None] * network.size

    def run(rank: int) -> None:
        try:
            outcomes[rank] = work(network.comm(rank))
        except BaseException as problem:
            outcomes[rank] = problem

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(network.size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a rank hangs"
    return outcomes


def spin(comm: Comm) -> Callable[[Callable[[], bool], str], None]:
    """Waits without a deadline of its own."""

    def wait(condition: Callable[[], bool], _: str = "") -> None:
        turn = 0
        while not condition():
            comm.idle(turn)
            turn += 1

    return wait
